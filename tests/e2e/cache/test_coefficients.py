"""Coefficients kept of JPEG images: the same batches with and without them, whoever dies."""

import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import bulkhead
import cv2
import numpy as np
import pytest
from conftest import AUGMENTED, Service, read_bytes, tool, write_spec

EPOCHS = 3
SAMPLES = 150
WHOLE = ["decode_image", {"resize": {"size": [64, 64]}}]


@pytest.fixture(params=["crops", "whole"])
def spec(folder, photos, request):
    return write_spec(
        folder / "s.json",
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"image": {"bytes": {}}, "label": {"int64": {}}},
        stages=AUGMENTED if request.param == "crops" else WHOLE, outputs=["image", "label"],
        batch={"size": 15}, order={"global": {}}, seed=3, epochs=EPOCHS,
    )


@pytest.fixture
def start(services, folder, photos):
    """Starts a service on the folder's cache."""
    def start_one(*options, workers=1, keep="256MiB"):
        return services(folder, "--root", photos, "--workers", workers, "--coefficient-cache-bytes", keep, *options)

    return start_one


def segments(folder):
    return sorted((folder / "cache").glob("coefficients-*.segment"))


def jpeg_of(service):
    return bulkhead.service_status(service.target)["jpeg"]


@pytest.fixture
def plain(start, spec):
    """The batches of a service that keeps nothing."""
    service = start("--cache-bytes", "0", keep="0")
    found = read_bytes(service, spec)
    assert jpeg_of(service)["coefficients_found"] == 0
    reason = bulkhead.service_status(service.target)["coefficient_cache"]["reason"]
    assert reason == "--coefficient-cache-bytes is 0"
    service.stop()
    return found


@pytest.fixture
def keep_all(spec):
    """Keeps the coefficients of all images ahead."""
    return lambda service: tool("index", "--spec", spec, "--coefficients", "--target", service.target)


def test_some_are_kept_in_passing(start, spec, plain, folder):
    service = start(workers=2)
    assert read_bytes(service, spec) == plain
    jpeg = jpeg_of(service)
    assert {files["decoder"]: files["count"] for files in jpeg["files"]} == {"JPEG_DECODER_OWN": EPOCHS * SAMPLES}
    assert 0 < jpeg["coefficients_made"] <= SAMPLES + 30, "two workers may make one twice"
    assert segments(folder)


def test_all_are_kept_ahead_and_no_scan_is_decoded_again(start, spec, plain):
    service = start(workers=2)
    told = json.loads(tool("index", "--spec", spec, "--coefficients", "--target", service.target, "--json"))
    before = jpeg_of(service)
    assert told["coefficients_made"] == before["coefficients_made"], "all was counted"
    assert SAMPLES <= before["coefficients_made"] <= SAMPLES + 30
    assert read_bytes(service, spec) == plain
    jpeg = jpeg_of(service)
    assert jpeg["coefficients_made"] == before["coefficients_made"]
    # A few files are decoded anew, to learn how long that takes; on a busy machine that may seem the faster way.
    assert jpeg["coefficients_found"] - before["coefficients_found"] > EPOCHS * SAMPLES / 2


def test_damaged_ones_are_made_anew(start, spec, plain, keep_all, folder):
    first = start()
    keep_all(first)
    first.stop()
    for segment in segments(folder):
        with segment.open("r+b") as file:
            for at in range(1 << 20, segment.stat().st_size, 1000):
                [byte] = os.pread(file.fileno(), 1, at)
                os.pwrite(file.fileno(), bytes([byte ^ 1]), at)
    again = start()
    told = json.loads(tool("index", "--spec", spec, "--coefficients", "--target", again.target, "--json"))
    assert told["coefficients_made"] >= SAMPLES / 2
    before = jpeg_of(again)["coefficients_found"]
    assert read_bytes(again, spec) == plain
    assert jpeg_of(again)["coefficients_found"] - before > EPOCHS * SAMPLES / 2


def test_a_later_service_knows_them_from_the_start(start, spec, plain, keep_all):
    first = start()
    keep_all(first)
    first.stop()
    again = start()
    assert read_bytes(again, spec) == plain
    jpeg = jpeg_of(again)
    assert jpeg["coefficients_made"] == 0 and jpeg["coefficients_found"] > EPOCHS * SAMPLES / 2


def test_a_loader_bounds_those_of_its_own_service(spec, plain, folder):
    for most, made in ((0, False), ("64MiB", True)):
        home = folder / f"own{most}"
        with bulkhead.Loader(spec, workers=1, cache_dir=str(home), coefficient_cache_bytes=most) as loader:
            assert [{name: array.tobytes() for name, array in batch.items()} for batch in loader.stream()] == plain
            cache = loader.status()["coefficient_cache"]
        assert cache["most_bytes"] == (64 << 20 if made else 0)
        assert cache["reason"] == ("" if made else "--coefficient-cache-bytes is 0")
        assert bool(list(home.glob("coefficients-*.segment"))) == made


def test_none_are_made_for_a_single_epoch(start, spec, folder):
    one = write_spec(folder / "one.json", **{**json.loads(spec.read_text()), "epochs": 1})
    service = start()
    read_bytes(service, one)
    assert jpeg_of(service)["coefficients_made"] == 0
    assert not segments(folder)


def test_killed_workers_and_services_change_nothing(start, spec, plain, keep_all):
    service = start(workers=2)
    kills = itertools.count(1)

    def killing(killed):
        return lambda number: number % 4 == 3 and killed.kill_worker(number) and next(kills)

    assert read_bytes(service, spec, killing(service)) == plain
    assert next(kills) > 5
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait()
    again = start()
    keep_all(again)
    assert read_bytes(again, spec, killing(again)) == plain
    assert jpeg_of(again)["coefficients_found"] > 0


@pytest.mark.parametrize("damage", ["values", "slots", "header", "short", "empty"])
def test_damaged_segments_cost_a_decode_and_no_pixel(start, spec, plain, folder, damage, keep_all):
    first = start()
    keep_all(first)
    first.stop()
    for path in segments(folder):
        content = bytearray(path.read_bytes())
        begin = {"values": 64 + len(content) // 1024 * 32, "slots": 64, "header": 0}.get(damage)
        if begin is None:
            content = content[: len(content) // 2 if damage == "short" else 0]
        else:
            end = {"values": len(content), "slots": begin + 64 * 1024, "header": 64}[damage]
            for at in range(begin, end, 997 if damage == "values" else 97):
                content[at] ^= 0x55
        path.unlink()
        path.write_bytes(content)
        path.chmod(0o600)
    again = start()
    assert read_bytes(again, spec) == plain
    keep_all(again)
    assert read_bytes(again, spec) == plain


def test_changed_images_are_decoded_by_coefficients_of_their_own(start, folder, photos):
    """The same names, other bytes: an image folder whose files are replaced."""
    data = folder / "data"
    shutil.copytree(photos / "folder", data)
    spec = write_spec(
        folder / "f.json", source={"image_folder": {"path": str(data)}}, stages=AUGMENTED, outputs=["image"],
        batch={"size": 15}, order={"sequential": {}}, epochs=2,
    )

    def all_of(keep):
        service = Service(folder, "--root", data, "--workers", "1", "--coefficient-cache-bytes", keep)
        try:
            if keep != "0":
                tool("index", "--spec", spec, "--coefficients", "--target", service.target)
            with bulkhead.Loader(spec, service.target) as loader:
                return [batch["image"].tobytes() for batch in loader.stream()]
        finally:
            service.stop()

    before = all_of("256MiB")
    files = sorted(data.rglob("*.jpg"))
    contents = [path.read_bytes() for path in files]
    for path, content in zip(files, contents[1:] + contents[:1]):
        path.write_bytes(content)
    after = all_of("256MiB")
    assert after != before
    assert after == all_of("0")


def test_the_bound_is_kept(start, spec, plain, folder):
    service = start(keep="1MiB")  # less than the smallest segment
    assert read_bytes(service, spec) == plain
    assert jpeg_of(service)["coefficients_made"] == 0
    assert "the limit of 1MiB" in bulkhead.service_status(service.target)["coefficient_cache"]["reason"]
    assert not segments(folder)


def test_what_index_keeps_serves_pipelines_with_code_of_any_version(start, spec, folder, keep_all):
    stage = {"python": {"function": "own:same", "inputs": ["label"], "outputs": [{"name": "label", "dtype": "int64"}]}}
    written = json.loads(spec.read_text())
    write_spec(spec, **{**written, "stages": [*written["stages"], stage]})
    service = start("--python", sys.executable, "--python-path", folder)
    expected = None
    for version in range(2):
        (folder / "own.py").write_text(f"def same(label):\n    return label + {version} - {version}\n")
        if version == 0:
            assert keep_all(service) == ""
            assert {path.name.split("-")[1] for path in segments(folder)} == {"builtin"}
        before = jpeg_of(service)["coefficients_found"]
        found = read_bytes(service, spec)
        assert jpeg_of(service)["coefficients_found"] - before > EPOCHS * SAMPLES / 2
        expected = expected or found
        assert found == expected


def test_index_says_what_it_cannot_do(start, spec, folder):
    none = write_spec(folder / "none.json", **{**json.loads(spec.read_text()), "stages": [], "outputs": ["label"]})
    assert "no stage decodes images" in tool("index", "--spec", none, "--coefficients", code=1)
    service = start(keep="0")
    said = tool("index", "--spec", spec, "--coefficients", "--target", service.target, code=1)
    assert "--coefficient-cache-bytes is 0" in said


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def table_entry(crc):
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


CRC_TABLE = [table_entry(byte) for byte in range(256)]


def forged(image, like):
    """The file `image`, with a comment that gives it the length and the CRC32C of the file `like`."""
    room = len(like) - len(image) - 4
    assert 4 <= room < 65000

    def with_patch(patch):
        comment = b"\xff\xfe" + (room + 2).to_bytes(2, "big") + patch.to_bytes(4, "little") + b"\1" * (room - 4)
        return image[:2] + comment + image[2:]

    base = crc32c(with_patch(0))
    rows = [(crc32c(with_patch(1 << bit)) ^ base, 1 << bit) for bit in range(32)]
    wanted, patch = crc32c(like) ^ base, 0
    for bit in range(32):  # Gauss, over single bits
        pivot = next(row for row in rows if row[0] >> bit & 1)
        rows = [(a ^ pivot[0], b ^ pivot[1]) if a >> bit & 1 else (a, b) for a, b in rows if (a, b) != pivot]
        if wanted >> bit & 1:
            wanted, patch = wanted ^ pivot[0], patch ^ pivot[1]
    made = with_patch(patch)
    assert len(made) == len(like) and crc32c(made) == crc32c(like)
    return made


@pytest.mark.parametrize("stages", [["decode_image", {"resize": {"size": 32}}], ["decode_image", {"resize": {"size": 32}}, "cache"]])
def test_a_file_of_another_data_set_with_the_same_name_length_and_crc_changes_nothing(start, folder, stages):
    noise = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    encode = lambda pixels: cv2.imencode(".jpg", pixels)[1].tobytes()  # noqa: E731
    honest = encode(noise)
    for name, data in [("mine", honest), ("theirs", forged(encode(np.full((64, 64, 3), 200, np.uint8)), honest))]:
        (folder / name / "cat").mkdir(parents=True)
        (folder / name / "cat" / "a.jpg").write_bytes(data)

    def spec_of(name):
        return write_spec(folder / f"{name}.json", source={"image_folder": {"path": name}}, stages=stages, batch={"size": 1})

    def image_of(service, name):
        with bulkhead.Loader(spec_of(name), service.target) as loader:
            return [np.array(next(iter(loader))["image"]) for _ in range(3)][-1]

    service = start("--root", folder)
    before = image_of(service, "theirs")
    tool("index", "--spec", spec_of("theirs"), "--coefficients", "--target", service.target)
    mine = image_of(service, "mine")
    assert before.std() < 5 and mine.std() > 20


def test_files_that_stand_still_are_not_read_again(start, folder, services):
    """The images lie in the project: nobody has written to them just now."""
    still = pathlib.Path(__file__).parent / "still"
    kind = subprocess.check_output(["stat", "-f", "-c", "%T", still], text=True).strip()
    if kind not in ("ext2/ext3", "xfs", "btrfs", "f2fs", "zfs"):
        pytest.skip(f"the project lies on {kind}, whose files are read each time")
    youngest = max(path.stat().st_ctime for path in still.iterdir())
    time.sleep(max(0, youngest + 61 - time.time()))  # only where the project was copied just now
    spec = write_spec(
        folder / "still.json", source={"image_folder": {"path": str(still), "unlabeled": True}}, stages=AUGMENTED,
        outputs=["image"], batch={"size": 5}, order={"global": {}}, seed=3, epochs=20,
    )
    plain = services(folder, "--root", still, "--workers", 1, "--coefficient-cache-bytes", "0")
    with bulkhead.Loader(spec, plain.target) as loader:
        expected = [batch["image"].tobytes() for batch in loader.stream()]
    assert jpeg_of(plain)["files_unread"] == 0
    plain.stop()
    service = services(folder, "--root", still, "--workers", 2, "--coefficient-cache-bytes", "256MiB")
    tool("index", "--spec", spec, "--coefficients", "--target", service.target)
    before = jpeg_of(service)["files_unread"]
    with bulkhead.Loader(spec, service.target) as loader:
        assert [batch["image"].tobytes() for batch in loader.stream()] == expected
    # Each worker tries both ways in turns, and then takes the faster one. These images are so small that it may be either;
    # but an index job decodes all of them by what is kept.
    streamed = jpeg_of(service)
    assert streamed["files_unread"] - before >= 4
    tool("index", "--spec", spec, "--coefficients", "--target", service.target)
    assert jpeg_of(service)["files_unread"] - streamed["files_unread"] >= len(list(still.iterdir()))
