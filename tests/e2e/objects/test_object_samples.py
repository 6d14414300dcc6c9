"""Samples that read more than their own record: substitutes, partners, and shards in which members are missing.

Which bytes they read is known late, or wrongly, so some are fetched when a worker does not find them.
"""

import gzip
import shutil
import subprocess

import bulkhead
import numpy as np
import object_sets
import pytest
from conftest import BIN, digest_of, tool, write_spec
from object_sets import PATIENCE, SAMPLES, SHARDS, frames, spec_of
from tars import write_tar

SUBSTITUTE = {"policy": "substitute", "max_fraction": 0.5}
MOSAIC = ["decode_image", {"mosaic": {"size": 64}}]
PLACES = ("s3://bucket/{}/part-*", "store/bucket/{}/part-*")


@pytest.fixture(params=["0", "64MiB"])
def service(request, services, folder, own_store):
    return services(folder, "--root", folder, "--root", "s3://bucket", "--workers", "2", "--block-cache-bytes", request.param)


def damage(folder, kind, numbers):
    """Damages the data of these records of each shard."""
    for path in sorted((folder / "store/bucket" / kind).iterdir()):
        content = path.read_bytes()
        records = list(frames(gzip.decompress(content) if kind == "gzip" else content))
        for number in numbers:
            record = bytearray(records[number])
            record[len(record) // 2] ^= 1
            records[number] = bytes(record)
        data = b"".join(records)
        path.write_bytes(gzip.compress(data, 1, mtime=0) if kind == "gzip" else data)


def samples(spec, service, **options):
    """The batches' bytes, and the substitutions."""
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE, **options) as loader:
        batches = [{name: np.array(array).tobytes() for name, array in batch.items()} for batch in loader.stream()]
        told = sorted((one.position, one.substitute_position) for one in loader.substitutions)
    return batches, told


def of_both(folder, kind, service, **more):
    """From the store, and from the same files; they must be equal."""
    remote, local = (write_spec(folder / f"{number}.json", **spec_of(kind, place.format(kind), **more))
                     for number, place in enumerate(PLACES))
    found = samples(remote, service)
    assert found == samples(local, service)
    return found


@pytest.mark.parametrize("kind, order", [("train", "global"), ("train", "sequential"), ("gzip", "sequential"),
                                         ("train", {"block": {"block_size": 7, "window": 3}})])
def test_damaged_records_are_substituted_by_others_that_were_not_fetched(folder, service, kind, order):
    # The last of a batch among them, whose substitute lies in the next batch, and the last of all.
    damage(folder, kind, [3, 4, 5, 9, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 49])
    _, told = of_both(folder, kind, service, order=order, errors=SUBSTITUTE, batch={"size": 5})
    assert len(told) == 2 * SHARDS * 18


def test_a_damaged_record_ends_a_stream_without_a_policy(folder, service):
    damage(folder, "train", [3])
    with pytest.raises(bulkhead.BulkheadError) as caught:
        samples(spec_of("train", PLACES[0].format("train")), service)
    assert caught.value.reason == "CORRUPT_RECORD" and "part-" in str(caught.value)


def test_records_in_quarantine_are_substituted(folder, service):
    offset = sum(len(record) for record in list(frames((folder / "store/bucket/train/part-1.tfrecord").read_bytes()))[:7])
    before, none = of_both(folder, "train", service, errors=SUBSTITUTE, order="sequential")
    assert not none
    subprocess.run([BIN / "bulkhead", "quarantine", "add", f"part-1.tfrecord@{offset}", "--target", service.target], check=True,
                   stdout=subprocess.DEVNULL)
    after, told = of_both(folder, "train", service, errors=SUBSTITUTE, order="sequential")
    first = SAMPLES // SHARDS + 7
    assert {position for position, _ in told} == {first} and after != before


@pytest.mark.parametrize("kind", ["train", "tar"])
def test_partners_come_from_other_positions(folder, service, kind):
    of_both(folder, kind, service, stages=MOSAIC, outputs=["image"])


def test_partners_that_are_damaged_are_substituted(folder, service):
    damage(folder, "train", [3, 4, 5, 19, 20])
    _, told = of_both(folder, "train", service, stages=MOSAIC, outputs=["image"],
                      errors={**SUBSTITUTE, "max_fraction": 1})
    assert len(told) > 5 * SHARDS


def test_shards_in_which_members_are_missing(folder, service):
    for path in sorted((folder / "store/bucket/tar").iterdir()):
        photo = object_sets.photo_of(path)
        members = []
        for number in range(12):
            if number % 4 != 3:
                members.append((f"{number:04}.jpg", photo))
            members.append((f"{number:04}.cls", str(number).encode()))
            members.append((f"{number:04}.txt", b"none of the features"))
        write_tar(path, members)
    _, told = of_both(folder, "tar", service, errors=SUBSTITUTE, batch={"size": 4})
    assert len(told) == 2 * SHARDS * 3
    remote = spec_of("tar", PLACES[0].format("tar"))
    with pytest.raises(bulkhead.BulkheadError) as caught:
        samples(remote, service)
    assert "0003" in str(caught.value) or "jpg" in str(caught.value)


def test_shards_of_bulkhead_pack_are_read_alike(folder, photos, service):
    shutil.rmtree(folder / "store/bucket/train")
    tool("pack", photos / "folder", folder / "store/bucket/train", "--records", "40")
    digests = set()
    for place in ("s3://bucket/train/*.tfrecord", "store/bucket/train/*.tfrecord"):
        digests.add(digest_of("cpp", write_spec(folder / "p.json", **spec_of("train", place)), target=service.target))
    assert len(digests) == 1
