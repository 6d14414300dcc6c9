"""The blocks of objects that a host keeps: how much is fetched, how much is kept, and what damage to them does."""

import os
import random
import shutil
import subprocess

import bulkhead
import object_sets
import pytest
from conftest import digest_of, finish_digest, start_digest, write_spec
from object_sets import PATIENCE, blocks_folder, disk_use, size_of, spares, spec_of

PLENTY = "64MiB"
FILES = {"train": "s3://bucket/train/part-*", "gzip": "s3://bucket/gzip/part-*", "tar": "s3://bucket/tar/part-*"}


@pytest.fixture
def start(services, folder, stored):
    def start_one(*options, cache=PLENTY, workers=2):
        return services(folder, "--root", stored, "--root", "s3://bucket", "--workers", workers,
                        "--block-cache-bytes", cache, *options)

    return start_one


@pytest.fixture(scope="module")
def local(stored, tmp_path_factory):
    """The digest of each kind of shards as local files."""
    folder = tmp_path_factory.mktemp("local")
    return {kind: digest_of("cpp", write_spec(folder / f"{kind}.json", **spec_of(kind, stored / "bucket" / kind / "part-*", epochs=1)))
            for kind in FILES}


def digest(folder, service, kind="train", **more):
    """Of one epoch, as `local` has it."""
    spec = write_spec(folder / "s.json", **spec_of(kind, FILES[kind], **{"epochs": 1, **more}))
    return digest_of("cpp", spec, target=service.target, timeout=PATIENCE)


@pytest.mark.parametrize("kind", FILES)
def test_each_byte_is_fetched_once_and_a_second_run_fetches_nothing(folder, stored, store, start, local, kind):
    service = start()
    assert digest(folder, service, kind) == local[kind]
    first = store.bytes_sent(f"bucket/{kind}/")
    assert size_of(stored, kind) <= first <= 1.1 * size_of(stored, kind)
    assert digest(folder, service, kind) == local[kind]
    assert service.stop() == 0
    assert digest(folder, start(), kind) == local[kind], "by another service"
    assert store.bytes_sent(f"bucket/{kind}/") - first <= 0.01 * first
    assert not spares(folder / "cache") or disk_use(folder / "cache/objects") < 2 * size_of(stored, kind)


def test_a_part_of_an_object_is_fetched_as_a_part(folder, stored, store, start):
    """Once the indexes are there."""
    service = start()
    digest(folder, service, take=1)
    assert service.stop() == 0
    shutil.rmtree(folder / "cache/objects")
    before = store.bytes_sent("part-")
    digest(folder, start(), take=20, order="sequential")
    fetched = store.bytes_sent("part-") - before
    assert 0 < fetched < 0.3 * size_of(stored, "train")


@pytest.mark.parametrize("kind", ["train", "gzip"])
def test_without_a_cache_nothing_is_kept(folder, stored, store, start, local, kind):
    service = start(cache=0)
    used = []
    spec = write_spec(folder / "s.json", **spec_of(kind, FILES[kind], epochs=4))
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        for _ in loader.stream():
            used.append(sum(disk_use(spare) for spare in spares(folder / "cache")))
    print("spare at most", max(used), "of", size_of(stored, kind))
    # The table of each object, and no byte of a batch that was delivered long ago.
    assert max(used) <= 2 * size_of(stored, kind)
    assert digest(folder, service, kind) == local[kind]
    blocks = blocks_folder(folder / "cache")
    assert sum(path.stat().st_blocks for path in blocks.glob("*.data")) == 0
    assert service.stop() == 0
    assert not spares(folder / "cache")


def test_what_is_read_ahead_is_bounded_without_a_cache(folder, stored, store, start):
    """A trainer that stands still: the spare folder has the batches ahead of it, no more."""
    service = start(cache=0, workers=1)
    spec = spec_of("train", FILES["train"], batch={"size": 1}, order="sequential")
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE, credits=1) as loader:
        batches = loader.stream()
        next(batches)
        ahead = max(sum(disk_use(spare) for spare in spares(folder / "cache")) for _ in range(50))
        print("ahead of a trainer that reads one batch:", ahead)
        assert ahead < 0.75 * size_of(stored, "train")
        assert sum(len(batch["label"]) for batch in batches) == 2 * object_sets.SAMPLES - 1


def test_a_cache_that_is_too_small_keeps_its_limit(folder, stored, store, start, local):
    limit = 512 << 10
    assert limit < size_of(stored, "train") / 2
    service = start(cache="512KiB")
    most = 0
    spec = write_spec(folder / "s.json", **spec_of("train", FILES["train"]))
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        for _ in loader.stream():
            most = max(most, disk_use(blocks_folder(folder / "cache")))
    assert digest(folder, service) == local["train"]
    most = max(most, disk_use(blocks_folder(folder / "cache")))
    print("limit", limit, "used", most)
    assert 0 < most <= limit
    # What is kept is not fetched again.
    before = store.bytes_sent("part-")
    assert digest(folder, service) == local["train"]
    assert store.bytes_sent("part-") - before < size_of(stored, "train")


def test_a_second_data_set_takes_the_room_of_one_that_is_not_in_use(folder, stored, store, start, local):
    limit = int(1.3 * size_of(stored, "train")) // 1024 * 1024
    room = f"{limit // 1024}KiB"
    service = start(cache=room)
    assert digest(folder, service, "train") == local["train"]
    assert service.stop() == 0
    service = start(cache=room)
    assert digest(folder, service, "tar") == local["tar"]
    assert digest(folder, service, "tar") == local["tar"]
    assert disk_use(blocks_folder(folder / "cache")) <= limit
    before = store.bytes_sent("bucket/tar/")
    assert digest(folder, service, "tar") == local["tar"]
    assert store.bytes_sent("bucket/tar/") - before <= 0.01 * before


def test_a_cache_folder_that_is_removed_during_a_stream_costs_no_wrong_byte_and_no_hang(folder, store, start, local):
    service = start()
    assert digest(folder, service) == local["train"]
    spec = spec_of("train", FILES["train"], batch={"size": 2})
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        expected = [batch["image"].tobytes() for batch in loader.stream()]
    found = []
    try:
        with bulkhead.Loader(spec, service.target, timeout=PATIENCE, credits=1) as loader:
            for batch in loader.stream():
                found.append(batch["image"].tobytes())
                if len(found) == 1:
                    shutil.rmtree(folder / "cache/objects")
                    object_sets.kill_all(service.process.pid, "bulkhead-worker")
    except bulkhead.BulkheadError as error:
        assert error.reason == "FILE_UNREADABLE", error
    assert found and found == expected[: len(found)]
    assert service.stop() == 0
    assert digest(folder, start()) == local["train"]


def test_two_services_share_what_they_fetch(services, folder, stored, store):
    expected = digest_of("cpp", write_spec(folder / "l.json", **spec_of("train", stored / "bucket/train/part-*")))
    spec = write_spec(folder / "s.json", **spec_of("train", FILES["train"]))
    both = [services(folder / name, "--root", "s3://bucket", "--workers", "1", "--block-cache-bytes", PLENTY,
                     "--cache-dir", folder / "cache") for name in ("a", "b")]
    running = [start_digest("cpp", spec, target=service.target, timeout=PATIENCE) for service in both]
    assert [finish_digest(one)["digest"] for one in running] == 2 * [expected]
    before = store.bytes_sent("part-")
    assert before <= 2.2 * size_of(stored, "train")
    for service in both:
        assert digest_of("cpp", spec, target=service.target, timeout=PATIENCE) == expected
    assert store.bytes_sent("part-") - before <= 0.01 * before


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
@pytest.mark.parametrize("cache", [PLENTY, "0"])
def test_a_full_disk_names_the_object_and_the_cure(services, folder, stored, store, local, cache):
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1700k,mode=700", "tmpfs", disk]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("may not mount")
    try:
        service = services(folder, "--root", "s3://bucket", "--workers", "1", "--block-cache-bytes", cache, "--cache-dir", disk)
        spec = spec_of("train", FILES["train"])
        with pytest.raises(bulkhead.BulkheadError) as caught:
            with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
                for _ in loader.stream():
                    pass
        assert (caught.value.code, caught.value.reason) == ("RESOURCE_EXHAUSTED", "FILE_UNREADABLE")
        assert "s3://bucket/train/part-" in str(caught.value) and "--block-cache-bytes" in str(caught.value)
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        assert digest(folder, service) == local["train"], "with more disk it goes on"
        assert service.stop() == 0
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def flip(path):
    content = bytearray(path.read_bytes())
    for offset in random.Random(3).sample(range(len(content)), 40):
        content[offset] ^= 0x40
    with path.open("r+b") as file:
        file.write(content)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def garbage(path):
    with path.open("r+b") as file:
        file.write(random.Random(4).randbytes(path.stat().st_size))


def garbage_words(path):
    """Behind the header."""
    with path.open("r+b") as file:
        file.seek(64)
        file.write(random.Random(4).randbytes(path.stat().st_size - 64))


def other_size(path):
    """The header tells of an object that is 1 byte shorter."""
    with path.open("r+b") as file:
        file.seek(16)
        size = int.from_bytes(file.read(8), "little")
        file.seek(16)
        file.write((size - 1).to_bytes(8, "little"))


def remove(path):
    path.unlink()


def empty(path):
    os.truncate(path, 0)


def name_of(value):
    return getattr(value, "__name__", value)


DAMAGE = [("data", flip), ("data", truncate), ("data", remove), ("blocks", garbage), ("blocks", garbage_words),
          ("blocks", other_size), ("blocks", truncate), ("blocks", empty)]


@pytest.mark.parametrize("indexed", ["indexed", "no index"])
@pytest.mark.parametrize("ending, damage", DAMAGE, ids=name_of)
def test_damaged_blocks_are_fetched_again(folder, store, start, local, ending, damage, indexed):
    service = start()
    assert digest(folder, service) == local["train"]
    assert service.stop() == 0
    for path in blocks_folder(folder / "cache").glob(f"*.{ending}"):
        damage(path)
    if indexed == "no index":  # it is built of the damaged blocks
        for path in (folder / "cache").glob("*.index"):
            path.unlink()
    assert digest(folder, start()) == local["train"]


# Of the running service: those that have the files open. A table that is cut would be SIGBUS for all
# who have it mapped, as with every file that is mapped; it is nobody's but the user's own.
@pytest.mark.parametrize("ending, damage, dies", [
    ("data", flip, ""), ("data", remove, ""), ("blocks", remove, ""), ("data", truncate, "bulkhead-worker"),
    ("data", remove, "bulkhead-worker"), ("blocks", garbage_words, "bulkhead-worker"), ("blocks", remove, "bulkhead-worker"),
    ("*", remove, "bulkhead-worker"), ("data", truncate, "bulkhead-fetch"), ("*", remove, "bulkhead-fetch"),
], ids=name_of)
def test_blocks_that_are_damaged_during_a_stream_are_fetched_again(folder, store, start, local, ending, damage, dies):
    service = start()
    assert digest(folder, service) == local["train"]
    spec = spec_of("train", FILES["train"], batch={"size": 2})
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE, credits=1) as loader:
        batches = loader.stream()
        found = [next(batches)["image"].tobytes()]
        for path in blocks_folder(folder / "cache").glob(f"*.{ending}"):
            damage(path)
        if dies:  # those that come have nothing open
            assert object_sets.kill_all(service.process.pid, dies) > 0
        found += [batch["image"].tobytes() for batch in batches]
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        assert [batch["image"].tobytes() for batch in loader.stream()] == found
    assert digest(folder, service) == local["train"]
