"""Seek entries of JPEG images: the same batches with and without them, whoever dies."""

import itertools
import json
import os
import shutil
import signal

import bulkhead
import pytest
from conftest import AUGMENTED, Service, read_bytes, tool, write_spec

EPOCHS = 3
SAMPLES = 150


@pytest.fixture
def spec(folder, photos):
    return write_spec(
        folder / "s.json",
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"image": {"bytes": {}}, "label": {"int64": {}}},
        stages=AUGMENTED, outputs=["image", "label"],
        batch={"size": 15}, order={"global": {}}, seed=3, epochs=EPOCHS,
    )


@pytest.fixture
def start(services, folder, photos):
    """Starts a service on the folder's cache."""
    def start_one(*options, workers=1):
        off = ("--coefficient-cache-bytes", "0")  # they would come first
        return services(folder, "--root", photos, "--workers", workers, *off, *options)

    return start_one


def segments(folder):
    return sorted((folder / "cache").glob("seek-*.segment"))


@pytest.fixture
def plain(start, spec):
    """The batches of a service without seek entries."""
    service = start("--cache-bytes", "0")
    found = read_bytes(service, spec)
    status = bulkhead.service_status(service.target)
    assert status["jpeg"]["crops"] > 0 and status["jpeg"]["entries_found"] == 0
    assert status["seek_cache"]["reason"] == "--cache-bytes is 0"
    service.stop()
    return found


def test_batches_are_the_same_and_most_of_the_data_is_left_out(start, spec, plain, folder):
    service = start(workers=2)
    assert read_bytes(service, spec) == plain
    jpeg = bulkhead.service_status(service.target)["jpeg"]
    assert {files["decoder"]: files["count"] for files in jpeg["files"]} == {"JPEG_DECODER_OWN": EPOCHS * SAMPLES}
    # Of the crops of later epochs all were found that were not of the whole image; two workers may make one twice.
    assert SAMPLES / 2 < jpeg["entries_made"] <= SAMPLES + 30
    assert jpeg["entries_made"] + jpeg["entries_found"] == jpeg["crops"]
    assert jpeg["entries_found"] > jpeg["entries_made"]
    assert 0.1 < jpeg["mcus_read"] / jpeg["mcus"] < 0.9
    assert segments(folder)


def test_a_later_service_knows_them_from_the_start(start, spec, plain):
    first = start()
    assert read_bytes(first, spec) == plain
    first.stop()
    again = start()
    assert read_bytes(again, spec) == plain
    jpeg = bulkhead.service_status(again.target)["jpeg"]
    assert jpeg["entries_made"] == 0 and jpeg["entries_found"] == jpeg["crops"] > 0


def test_none_are_made_for_a_single_epoch(start, spec, folder):
    one = write_spec(folder / "one.json", **{**json.loads(spec.read_text()), "epochs": 1})
    service = start()
    read_bytes(service, one)
    assert bulkhead.service_status(service.target)["jpeg"]["entries_made"] == 0
    assert not segments(folder)


def test_killed_workers_and_services_change_nothing(start, spec, plain, folder):
    service = start(workers=2)
    kills = itertools.count(1)

    def kill(number):
        if number % 4 == 3 and service.kill_worker(number):
            next(kills)

    assert read_bytes(service, spec, kill) == plain
    assert next(kills) > 5
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait()
    again = start()
    assert read_bytes(again, spec) == plain
    assert bulkhead.service_status(again.target)["jpeg"]["entries_found"] > 0


@pytest.mark.parametrize("damage", ["entries", "slots", "header", "short", "empty"])
def test_damaged_segments_cost_a_decode_and_no_pixel(start, spec, plain, folder, damage):
    first = start()
    assert read_bytes(first, spec) == plain
    first.stop()
    for path in segments(folder):
        content = bytearray(path.read_bytes())
        begin = {"entries": 64 + len(content) // 1024 * 32, "slots": 64, "header": 0}.get(damage)
        if begin is None:
            content = content[: len(content) // 2 if damage == "short" else 0]
        else:
            for at in range(begin, len(content) if damage == "entries" else begin + (64 if damage == "header" else 65536), 97):
                content[at] ^= 0x55
        path.unlink()
        path.write_bytes(content)
        path.chmod(0o600)
    again = start()
    assert read_bytes(again, spec) == plain
    jpeg = bulkhead.service_status(again.target)["jpeg"]
    assert jpeg["entries_made"] > 0, "what is damaged is made anew"


def test_changed_images_are_decoded_by_entries_of_their_own(start, folder, photos):
    """The same names, other bytes: an image folder whose files are replaced."""
    data = folder / "data"
    shutil.copytree(photos / "folder", data)
    spec = write_spec(
        folder / "f.json", source={"image_folder": {"path": str(data)}}, stages=AUGMENTED, outputs=["image"],
        batch={"size": 15}, order={"sequential": {}}, epochs=2,
    )

    def all_of(*options):
        service = Service(folder, "--root", data, "--workers", "1", *options)
        try:
            with bulkhead.Loader(spec, service.target) as loader:
                return [batch["image"].tobytes() for batch in loader.stream()]
        finally:
            service.stop()

    before = all_of()
    files = sorted(data.rglob("*.jpg"))
    contents = [path.read_bytes() for path in files]
    for path, content in zip(files, contents[1:] + contents[:1]):
        path.write_bytes(content)
    after = all_of()
    assert after != before
    assert after == all_of("--cache-bytes", "0")


def test_the_bound_is_kept(start, spec, plain, folder):
    service = start("--cache-bytes", "1MiB")  # three quarters of which are less than the smallest segment
    assert read_bytes(service, spec) == plain
    status = bulkhead.service_status(service.target)
    assert status["jpeg"]["entries_made"] == 0
    assert "the limit of 768KiB" in status["seek_cache"]["reason"]
    assert not segments(folder)


def test_two_services_share_a_cache(start, spec, plain, folder, photos):
    one = start()
    second = folder / "second"
    second.mkdir()
    (second / "cache").symlink_to(folder / "cache")
    with bulkhead.Loader(spec, one.target) as loader:
        next(iter(loader))
        other = Service(second, "--root", photos, "--workers", "1")
        try:
            assert read_bytes(other, spec) == plain
            found = bulkhead.service_status(other.target)["jpeg"]["entries_found"]
        finally:
            other.stop()
        assert sum(1 for _ in loader.stream()) == EPOCHS * 10 - 1
    assert found > 0
    assert len(segments(folder)) == 2, "each wrote to one of its own"


def test_index_makes_them_ahead(start, spec, plain):
    service = start()
    said = tool("index", "--spec", spec, "--jpeg-seek", "--target", service.target)
    assert said == ""
    jpeg = bulkhead.service_status(service.target)["jpeg"]
    assert SAMPLES / 2 < jpeg["entries_made"] <= SAMPLES
    assert read_bytes(service, spec) == plain
    assert bulkhead.service_status(service.target)["jpeg"]["entries_made"] == jpeg["entries_made"]


def test_index_keeps_nothing_else_unasked(start, spec, folder):
    service = start()
    assert json.loads(tool("index", "--spec", spec, "--json", "--target", service.target)) == {"samples_per_epoch": SAMPLES}
    kept = {path.name.partition("-")[0] for path in (folder / "cache").rglob("*") if path.is_file()}
    assert segments(folder) == [] and "coefficients" not in kept, kept


def test_index_says_what_it_cannot_do(start, spec, folder, photos):
    whole = write_spec(folder / "whole.json", **{**json.loads(spec.read_text()), "stages": ["decode_image", {"resize": {"size": [8, 8]}}]})
    assert "no crop follows decode_image" in tool("index", "--spec", whole, "--jpeg-seek", code=1)
    service = start("--cache-bytes", "0")
    assert "--cache-bytes is 0" in tool("index", "--spec", spec, "--jpeg-seek", "--target", service.target, code=1)
    # Record indexes it makes all the same.
    tool("index", "--spec", whole, "--target", service.target)


def test_bench_run_leaves_the_epochs_before_out(folder, spec):
    def run(*options):
        return json.loads(tool("bench", "run", "--spec", spec, "--workers", 1, "--json", *options))

    everything, rest = run(), run("--epochs-before", 2)
    assert everything["batches"] == rest["batches"] == EPOCHS * 10
    assert everything["digest"] != rest["digest"], "these are epochs 2, 3 and 4"
