"""What code of the user's writes to the cache is read by its own pipeline alone."""

import os
import shutil
import subprocess
import sys

import bulkhead
import pytest
from conftest import AUGMENTED, BIN, write_spec

# Rewrites the DC predictors in the seek entries of its worker, with checksums that fit.
FORGER = '''
import ctypes
import struct

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


done = set()


def forge(begin):
    slots = struct.unpack("<Q", ctypes.string_at(begin + 16, 8))[0]
    for slot in range(begin + 64, begin + 64 + 32 * slots, 32):
        key = ctypes.string_at(slot, 16)
        place, size, crc, state = struct.unpack("<IIII", ctypes.string_at(slot + 16, 16))
        if state != 1 or slot in done:
            continue
        value = bytearray(ctypes.string_at(begin + 8 * place, size))
        assert crc32c(value, crc32c(key)) == crc
        step, components = struct.unpack_from("<HH", value)
        for entry in range(4, len(value) if step else 0, 4 + 2 * components):
            for dc in range(entry + 4, entry + 4 + 2 * components, 2):
                struct.pack_into("<h", value, dc, struct.unpack_from("<h", value, dc)[0] // 2 + 300)
        ctypes.memmove(begin + 8 * place, bytes(value), size)
        ctypes.memmove(slot + 24, struct.pack("<I", crc32c(value, crc32c(key))), 4)
        done.add(slot)
        print("forged", len(done))


def same(label):
    for line in open("/proc/self/maps"):
        begin = int(line.split("-")[0], 16)
        if " rw-s " in line and ctypes.string_at(begin, 8) == b"bkhseg02":
            forge(begin)
    return label
'''


def batches(service, spec):
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        return [(batch["image"].tobytes(), batch["label"].tobytes()) for batch in loader.stream()]


@pytest.fixture
def start(services, folder, photos):
    def start_one(*options):
        own = ("--python", sys.executable, "--python-path", folder, "--coefficient-cache-bytes", "0")
        return services(folder, "--root", photos, "--workers", "1", *own, *options)

    return start_one


def spec_of(folder, photos, name, stages):
    return write_spec(
        folder / name, source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"image": {"bytes": {}}, "label": {"int64": {}}}, stages=stages, outputs=["image", "label"],
        batch={"size": 15}, order={"global": {}}, seed=3, epochs=3,
    )


def test_a_stage_that_forges_seek_entries_harms_its_own_pipeline_alone(start, folder, photos):
    (folder / "forger.py").write_text(FORGER)
    stage = {"python": {"function": "forger:same", "inputs": ["label"], "outputs": [{"name": "label", "dtype": "int64"}]}}
    forging = spec_of(folder, photos, "forging.json", [*AUGMENTED, stage])
    plain = spec_of(folder, photos, "plain.json", AUGMENTED)
    without = start("--cache-bytes", "0")
    expected = batches(without, plain)
    without.stop()

    service = start()
    batches(service, forging)
    assert "forged 50" in (folder / "service.log").read_text()
    # Whoever has code of his own reads neither.
    (folder / "other.py").write_text("def same(label):\n    return label\n")
    own = {"python": {**stage["python"], "function": "other:same"}}
    assert batches(service, spec_of(folder, photos, "other.json", [*AUGMENTED, own])) == expected
    assert batches(service, plain) == expected
    service.stop()
    again = start()
    assert batches(again, plain) == expected, "nor after a restart"
    jpeg = bulkhead.service_status(again.target)["jpeg"]
    assert jpeg["entries_found"] == jpeg["crops"], "which are those of the built-in stages"


def test_who_has_code_of_his_own_reads_what_built_in_stages_found(start, folder, photos):
    (folder / "other.py").write_text("def same(label):\n    return label\n")
    own = {"python": {"function": "other:same", "inputs": ["label"], "outputs": [{"name": "label", "dtype": "int64"}]}}
    service = start()
    expected = batches(service, spec_of(folder, photos, "plain.json", AUGMENTED))
    made = bulkhead.service_status(service.target)["jpeg"]["entries_made"]
    assert batches(service, spec_of(folder, photos, "other.json", [*AUGMENTED, own])) == expected
    assert bulkhead.service_status(service.target)["jpeg"]["entries_made"] == made


def log_of_a_service_that_does_not_start(folder, cache):
    result = subprocess.run([BIN / "bulkheadd", "--listen", f"unix:{folder}/x.sock", "--cache-dir", cache],
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    return result.stderr


def test_a_cache_folder_that_others_could_write_to_is_refused(folder):
    cache = folder / "cache"
    cache.mkdir()
    (cache / "something").write_text("")
    for mode in (0o777, 0o750):
        cache.chmod(mode)
        said = log_of_a_service_that_does_not_start(folder, cache)
        assert f"cache folder cannot be trusted: {cache} is open to other users" in said
        assert f"chmod go= {cache}" in said
    if os.geteuid() == 0:
        cache.chmod(0o700)
        shutil.chown(cache, 65534)
        assert "belongs to user 65534" in log_of_a_service_that_does_not_start(folder, cache)


def test_a_segment_of_another_user_is_not_read(start, folder, photos):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    plain = spec_of(folder, photos, "plain.json", AUGMENTED)
    service = start()
    expected = batches(service, plain)
    service.stop()
    [segment] = (folder / "cache").glob("seek-*.segment")
    assert segment.stat().st_mode & 0o777 == 0o600
    shutil.chown(segment, 65534)
    again = start()
    assert batches(again, plain) == expected
    assert bulkhead.service_status(again.target)["jpeg"]["entries_made"] > 0
    assert f"{segment} belongs to user 65534" in (folder / "service.log").read_text()
