"""`bulkhead index --publish`: record indexes that lie beside their objects, and who reads them."""

import hashlib
import json
import subprocess

import numpy as np
import pytest

from conftest import BIN, digest_of, tool, write_spec
from object_server import ObjectServer
from tars import npy, write_tar

SHARDS, RECORDS, SIDE = 4, 8, 512  # records of 1 MiB
ENDING = ".bulkhead-index"


@pytest.fixture
def bucket(folder):
    """A bucket of tars with large records."""
    path = folder / "store/bucket/train"
    path.mkdir(parents=True)
    random = np.random.default_rng(5)
    for shard in range(SHARDS):
        arrays = (random.integers(0, 256, (SIDE, SIDE, 4), np.uint8) for _ in range(RECORDS))
        write_tar(path / f"shard-{shard}.tar", [(f"{shard}-{i}.x.npy", npy(array)) for i, array in enumerate(arrays)])
    return path


@pytest.fixture
def store(bucket, monkeypatch):
    with ObjectServer(bucket.parents[1]) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield server


def spec_of(folder, files, name="train.yaml", **more):
    feature = {"key": "x.npy", "tensor": {"dtype": "uint8", "shape": [SIDE, SIDE, 4]}}
    return write_spec(
        folder / name, source={"tar": {"files": files}}, features={"x": feature}, batch={"size": 4}, epochs=1, **more
    )


def read_bytes(server, since=0):
    """Of bodies of objects."""
    return sum(request.bytes_sent for request in server.requests[since:] if request.method == "GET")


def publish(spec, code=0):
    return json.loads(tool("index", spec, "--publish", "--json")) if code == 0 else tool("index", spec, "--publish", code=code)


def fresh_cache(folder, monkeypatch, name):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / name))


def test_a_fresh_service_reads_the_indexes_instead_of_the_objects(bucket, store, folder, services, monkeypatch):
    spec = spec_of(folder, "s3://bucket/train/shard-*.tar")
    local = spec_of(folder, f"{bucket}/shard-*.tar", "local.yaml")
    all_bytes = sum(path.stat().st_size for path in bucket.glob("*.tar"))
    digest = digest_of("cpp", local)
    published = publish(spec)
    assert (published["objects"], published["published"], published["records"]) == (SHARDS, SHARDS, SHARDS * RECORDS)
    assert published["object_bytes"] == all_bytes
    assert published["published_bytes"] == sum(path.stat().st_size for path in bucket.glob("*" + ENDING))
    assert read_bytes(store) >= all_bytes

    # A service that has seen nothing counts the records.
    service = services(folder / "fresh", "--root", "s3://bucket")
    seen = len(store.requests)
    counted = json.loads(tool("validate", "--data", "--target", service.target, "--json", spec))[0]
    assert counted["valid"], counted
    requests = store.requests[seen:]
    share = read_bytes(store, seen) / all_bytes
    print(f"read before the first batch: {read_bytes(store, seen)} of {all_bytes} bytes, {100 * share:.4f} %")
    assert share <= 0.001
    assert {request.key for request in requests if request.method == "GET"} == {
        f"train/shard-{shard}.tar{ENDING}" for shard in range(SHARDS)
    }
    # One listing of the data, one of the indexes.
    assert [request.method for request in requests].count("LIST") == 2
    # The batches are those of local files, and a bucket with indexes has the same data.
    fresh_cache(folder, monkeypatch, "another")
    assert digest_of("cpp", spec) == digest
    assert digest_of("cpp", spec_of(folder, "s3://bucket/train/shard-*", "all.yaml")) == digest
    assert digest_of("cpp", spec_of(folder, f"{bucket}/shard-*", "all_local.yaml")) == digest
    # What lies there already is left as it is.
    assert publish(spec)["published"] == 0


def test_an_index_of_another_state_is_not_used(bucket, store, folder, monkeypatch):
    spec = spec_of(folder, "s3://bucket/train/shard-*.tar")
    publish(spec)
    # One object gets another's bytes, one index is damaged, one is not an index at all.
    (bucket / "shard-0.tar").write_bytes((bucket / "shard-1.tar").read_bytes())
    damaged = bucket / f"shard-2.tar{ENDING}"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    (bucket / f"shard-3.tar{ENDING}").write_bytes(b"x" * 30_000_000)
    fresh_cache(folder, monkeypatch, "another")
    seen = len(store.requests)
    run = subprocess.run([BIN / "bulkhead", "order", spec, "--json"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["records"] == SHARDS * RECORDS
    assert "3 published index(es) are not used" in run.stderr, run.stderr
    assert f"shard-3.tar{ENDING}: it has 28.6MiB; of this object at most 5.0MiB would be read" in run.stderr
    read = {request.key for request in store.requests[seen:] if request.method == "GET"}
    assert {f"train/shard-{shard}.tar" for shard in (0, 2, 3)} <= read
    assert "train/shard-1.tar" not in read and f"train/shard-3.tar{ENDING}" not in read
    # Only these are published again.
    assert publish(spec)["published"] == 3
    fresh_cache(folder, monkeypatch, "third")
    local = spec_of(folder, f"{bucket}/shard-*.tar", "local.yaml")
    assert digest_of("cpp", spec) == digest_of("cpp", local)
    assert publish(spec)["published"] == 0


def test_an_index_that_lies_is_made_again(bucket, store, folder, monkeypatch):
    spec = spec_of(folder, "s3://bucket/train/shard-*.tar")
    digest = digest_of("cpp", spec_of(folder, f"{bucket}/shard-*.tar", "local.yaml"))
    publish(spec)
    for path in bucket.glob("*" + ENDING):
        claim, _, index = path.read_bytes().split(b"\n", 2)
        index = index[:140] + bytes([index[140] ^ 1]) + index[141:]  # behind the header
        path.write_bytes(claim + f"\nsha256 {hashlib.sha256(index).hexdigest()}\n".encode() + index)
    fresh_cache(folder, monkeypatch, "another")
    assert digest_of("cpp", spec) == digest


def test_the_log_says_why_an_index_is_not_used(bucket, store, folder):
    spec = spec_of(folder, "s3://bucket/train/shard-0.tar")
    publish(spec)
    (bucket / "shard-0.tar").write_bytes((bucket / "shard-1.tar").read_bytes())
    run = subprocess.run([BIN / "bulkhead", "order", spec], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert f"s3://bucket/train/shard-0.tar{ENDING}: it is of another state of the object" in run.stderr
    (bucket / f"shard-0.tar{ENDING}").write_bytes(b"")
    run = subprocess.run([BIN / "bulkhead", "order", spec], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and "another state of the object" in run.stderr, run.stderr


def test_names_with_wildcards_are_literal(bucket, store, folder, monkeypatch):
    odd = bucket / "odd"
    odd.mkdir()
    (bucket / "shard-0.tar").rename(odd / "a[b]*.tar")
    spec = spec_of(folder, "s3://bucket/train/odd/*.tar")
    assert publish(spec)["published"] == 1
    assert (odd / f"a[b]*.tar{ENDING}").exists()
    fresh_cache(folder, monkeypatch, "another")
    assert publish(spec)["published"] == 0


def test_a_store_that_refuses_is_said_in_words(bucket, store, folder):
    spec = spec_of(folder, "s3://bucket/train/shard-0.tar")
    store.fail(None, status=403, code="AccessDenied", method="PUT")
    said = publish(spec, code=1)
    assert "s3://bucket/train/shard-0.tar.bulkhead-index: may not be written: the store answers 403 AccessDenied" in said
    store.heal()
    # Reading goes on without what may not be looked at.
    store.fail(None, status=403, code="AccessDenied", key=ENDING)
    assert json.loads(tool("order", spec, "--json"))["records"] == RECORDS


def test_only_objects_of_buckets_are_published(bucket, store, folder):
    said = publish(spec_of(folder, f"{bucket}/shard-*.tar", "local.yaml"), code=1)
    assert "is a local file" in said
    said = publish(spec_of(folder, f"{store.url}/bucket/train/shard-0.tar", "web.yaml"), code=1)
    assert "nothing can be written to http" in said
    assert not store.requests
    assert "--publish" in tool("index", "spec.yaml", "--publish", "--jpeg-seek", code=2)


# Commands that need the data's names, counts and order only.


def test_counts_and_order_of_objects(bucket, store, folder):
    spec = spec_of(folder, "s3://bucket/train/shard-*.tar", order={"global": {}})
    local = spec_of(folder, f"{bucket}/shard-*.tar", "local.yaml", order={"global": {}})
    looks = [json.loads(tool("validate", "--data", "--json", each))[0] for each in (spec, local)]
    assert looks[0]["valid"], looks
    assert looks[0]["bytes_fingerprint"] == looks[1]["bytes_fingerprint"]
    orders = [json.loads(tool("order", each, "--json")) for each in (spec, local)]
    assert {**orders[0], "spec": ""} == {**orders[1], "spec": ""}
    # The block cache is the one that services of this user have.
    assert list((folder / "cache/bulkhead/objects/blocks").iterdir())
    assert not list((folder / "cache/bulkhead/objects").glob("spare-*"))


def test_scan_reads_objects_by_its_service(bucket, store, folder):
    spec = spec_of(folder, ["s3://bucket/train/shard-*.tar", "s3://bucket/train/none-*.tar"])
    run = subprocess.run([BIN / "bulkhead", "scan", spec, "--json"], capture_output=True, text=True, timeout=120)
    found = json.loads(run.stdout)
    assert found["records"] == SHARDS * RECORDS
    assert [finding["reason"] for finding in found["findings"]] == ["FILE_NOT_FOUND"], found


def test_explain_shows_times_and_memory(bucket, store, folder):
    spec = spec_of(folder, "s3://bucket/train/shard-0.tar")
    explained = json.loads(tool("explain", spec, "--json"))
    assert explained["samples_per_epoch"] == RECORDS
    assert explained["measured_samples"] > 0 and explained["fused_seconds"] > 0
    assert explained["memory_together"]["bytes"] > 0
    assert "measured on one thread of this machine" in tool("explain", spec)
    budget = {part["what"]: part["bytes"] for part in explained["memory"] + explained["memory_remaining"]["parts"]}
    assert budget["bulkhead-fetch"] == 128 << 20


def test_explain_says_what_each_order_reads(bucket, store, folder):
    """Records of 1 MiB and more, beside which blocks of 16 KiB and headers are little."""
    spec = spec_of(folder, "s3://bucket/train/shard-*.tar", order="global")
    read = {each["order"]: each for each in json.loads(tool("explain", spec, "--json", "--samples", 4))["object_reads"]}
    assert list(read) == ["global", "block {block_size: 1000}", "sequential"]
    assert [name for name, each in read.items() if each["of_spec"]] == ["global"]
    for each in read.values():
        assert 1 << 20 < each["record_bytes"] < each["sample_bytes"] + 1024 < (1 << 20) + (40 << 10)
    assert read["sequential"]["sample_requests"] < 0.6 < read["global"]["sample_requests"] <= 1
    seen = len(store.requests)
    tool("explain", spec, "--samples", 4)
    assert not [request for request in store.requests[seen:] if request.method == "GET"], "what was read is kept"


def test_a_packing_reads_the_indexes_and_packs_none_of_them(bucket, store, folder, monkeypatch):
    def packed(data, name):
        tool("pack", data, folder / name)
        return {path.name: path.read_bytes() for path in (folder / name).iterdir() if path.name != ".packed"}

    publish(spec_of(folder, "s3://bucket/train/shard-*.tar"))
    fresh_cache(folder, monkeypatch, "other")
    since = len(store.requests)
    stored = packed(spec_of(folder, "s3://bucket/train/shard-*"), "stored")
    wanted = sum(path.stat().st_size for path in bucket.glob("shard-*"))
    assert read_bytes(store, since) <= wanted + (64 << 10), "each object once"
    assert stored == packed(spec_of(folder, str(bucket / "shard-*.tar")), "local")


@pytest.mark.parametrize("command", ["inspect", "stream"])
def test_a_signature_is_not_shown(store, folder, command):
    for path in ("list.txt", "part-0.tfrecord", "shard.tar"):
        url = f"{store.url}/bucket/{path}"
        said = tool(command, f"{url}?X-Amz-Signature=0123abcdef", code=1)
        assert url in said and "0123abcdef" not in said, said


@pytest.mark.parametrize("command", ["stream", "inspect", "pack", "validate", "explain", "scan"])
def test_a_spec_in_a_bucket_is_to_be_copied_here(store, folder, command):
    words = [folder / "out"] if command == "pack" else []
    said = tool(command, "s3://bucket/train.yaml", *words, code=1)
    assert "s3://bucket/train.yaml: a spec is read from this host only; copy it here" in said, said
