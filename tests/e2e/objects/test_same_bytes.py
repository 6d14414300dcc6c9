"""What a trainer gets does not depend on where the files lie: in an object store or in a folder."""

import json

import bulkhead
import object_sets
import pytest
from conftest import digest_of, finish_digest, start_digest, write_spec
from object_sets import NAMES, PATIENCE, SAMPLES, SHARDS, spec_of

ORDERS = {
    "global": "global",
    "block": {"block": {"block_size": 7, "window": 3}},
    "interleave": {"interleave": {"cycle_length": 2, "block_length": 3}},
    "sequential": {"sequential": {"shuffle_files": True}},
}


@pytest.fixture
def service(services, folder, stored, store):
    return services(folder, "--root", stored, "--root", "s3://bucket", "--root", "gs://bucket/", "--root", store.url,
                    "--workers", "2")


def places(kind, stored, store):
    """Where the shards lie, by scheme."""
    pattern = f"bucket/{kind}/{NAMES[kind].format('*')}"
    return {
        "file": str(stored / pattern),
        "s3": f"s3://{pattern}",
        "gs": f"gs://{pattern}",
        "http": [f"{store.url}/bucket/{kind}/{NAMES[kind].format(shard)}" for shard in range(SHARDS)],
    }


def result(folder, spec, client="cpp", **options):
    return finish_digest(start_digest(client, write_spec(folder / "spec.json", **spec), **options))


def identity(found):
    """What two runs have to have in common."""
    return {name: found[name] for name in ("digest", "batches", "samples", "cursor", "epochs_ended")}


@pytest.mark.parametrize("kind, order", [*(("train", order) for order in ORDERS), ("gzip", "sequential"),
                                         ("tar", "global"), ("tar", "interleave")])
def test_every_store_gives_the_bytes_of_local_files(folder, stored, store, service, kind, order):
    found = {}
    for scheme, files in places(kind, stored, store).items():
        if scheme == "http":
            store.check = None  # a web server wants no signature
        found[scheme] = identity(result(folder, spec_of(kind, files, order=ORDERS[order]), target=service.target))
    assert found["file"]["samples"] == 2 * SAMPLES
    assert found["s3"]["digest"] == found["gs"]["digest"] == found["http"]["digest"] == found["file"]["digest"]
    assert found["s3"] == found["gs"] == found["file"] and found["http"] == found["file"]


@pytest.mark.parametrize("client", ["cpp", "python"])
@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_clients_and_transports_change_nothing(folder, stored, store, service, client, transport):
    local = digest_of("cpp", write_spec(folder / "l.json", **spec_of("train", places("train", stored, store)["file"])),
                      target=service.target)
    spec = write_spec(folder / "s.json", **spec_of("train", "s3://bucket/train/part-*"))
    assert digest_of(client, spec, target=service.target, transport=transport) == local


@pytest.mark.parametrize("client", ["cpp", "python"])
def test_an_embedded_service_reads_objects(folder, stored, store, client):
    local = digest_of("cpp", write_spec(folder / "l.json", **spec_of("train", stored / "bucket/train/part-*")))
    spec = write_spec(folder / "s.json", **spec_of("train", "s3://bucket/train/part-*"))
    assert digest_of(client, spec, workers=2) == local


def test_a_filter_and_a_split_select_the_same(folder, stored, store, service):
    more = {"filter": [{"feature": "label", "min": 3}], "split": {"parts": {"a": 0.7, "b": 0.3}, "use": "a"}}
    found = {}
    for scheme, files in places("train", stored, store).items():
        if scheme != "http":
            found[scheme] = identity(result(folder, spec_of("train", files, **more), target=service.target))
    assert 0 < found["file"]["samples"] < 1.4 * SAMPLES
    assert found["file"] == found["s3"] == found["gs"]


def test_a_mixture_of_objects_and_files(folder, stored, store, service):
    def mixture(first, second):
        sources = []
        for files, kind, weight in ((first, "train", 0.7), (second, "tar", 0.3)):
            one = spec_of(kind, files)
            sources.append({"weight": weight, **{key: one[key] for key in ("source", "features", "order", "stages")}})
        return {"source": {"mixture": {"sources": sources}}, "batch": {"size": 10}, "seed": 5, "epochs": 2}

    train, tar = (places(kind, stored, store) for kind in ("train", "tar"))
    local = identity(result(folder, mixture(train["file"], tar["file"]), target=service.target))
    assert identity(result(folder, mixture(train["s3"], tar["file"]), target=service.target)) == local
    assert identity(result(folder, mixture(train["file"], tar["gs"]), target=service.target)) == local


def test_a_cursor_of_files_goes_on_with_objects(folder, stored, store, service):
    local, remote = (spec_of("train", places("train", stored, store)[scheme]) for scheme in ("file", "s3"))
    half = result(folder, local, target=service.target, batches=8)
    cursor = json.dumps(half["cursor"])
    rest = digest_of("cpp", write_spec(folder / "l.json", **local), target=service.target, cursor=cursor)
    for client in ("cpp", "python"):
        assert digest_of(client, write_spec(folder / "r.json", **remote), target=service.target, cursor=cursor) == rest


def test_a_stream_goes_on_in_mid_epoch_after_a_new_start(services, folder, stored, store):
    """Another service with another cache, as after a move to another host."""
    spec = write_spec(folder / "s.json", **spec_of("tar", "s3://bucket/tar/part-*"))
    batches = {}
    first = services(folder / "a", "--root", "s3://bucket", "--workers", "1")
    with bulkhead.Loader(spec, first.target, timeout=PATIENCE) as loader:
        for batch in loader.stream():
            batches[batch.sequence] = (batch.cursor, {name: array.tobytes() for name, array in batch.items()})
    assert first.stop() == 0
    second = services(folder / "b", "--root", "s3://bucket", "--workers", "2")
    for start in (3, 20):
        with bulkhead.Loader(spec, second.target, cursor=batches[start][0], timeout=PATIENCE) as loader:
            rest = [(batch.cursor, {name: array.tobytes() for name, array in batch.items()})
                    for batch in loader.stream()]
        assert rest == [batches[number] for number in range(start + 1, len(batches))]


def test_a_daemon_that_may_read_objects_alone_needs_no_folder(services, folder, stored, store):
    service = services(folder, "--root", "s3://bucket/train", "--workers", "1")
    local = digest_of("cpp", write_spec(folder / "l.json", **spec_of("train", stored / "bucket/train/part-*")))
    spec = spec_of("train", "s3://bucket/train/part-*")
    assert digest_of("cpp", write_spec(folder / "s.json", **spec), target=service.target) == local
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:  # of no file
        assert sum(len(batch["label"]) for batch in loader.stream()) == 2 * SAMPLES


def test_the_store_is_asked_for_signed_requests_only(folder, stored, store, service):
    spec = spec_of("train", "s3://bucket/train/part-*")
    result(folder, spec, target=service.target)
    assert all("Authorization" in request.headers for request in store.requests)
    assert object_sets.size_of(stored, "train") <= store.bytes_sent("train")


def test_a_thread_reads_more_objects_than_it_may_have_descriptors(folder, own_store, services):
    records = [record for path in sorted((folder / "store/bucket/train").glob("*.tfrecord"))
               for record in object_sets.frames(path.read_bytes())]
    many = folder / "store/bucket/many"
    many.mkdir()
    for number, record in enumerate(records):
        (many / f"{number:03}.tfrecord").write_bytes(record)
    service = services(folder, "--root", folder / "store", "--root", "s3://bucket", "--workers", "1", "--threads", "1")
    here, there = (result(folder, spec_of("train", f"{place}/bucket/many/*.tfrecord", epochs=1), target=service.target)
                   for place in (folder / "store", "s3:/"))
    assert here["samples"] == SAMPLES
    assert identity(here) == identity(there)
