"""Deaths and a store that fails cost time: nothing is lost, nothing comes twice, no byte is another one."""

import contextlib
import os
import select
import shutil
import signal
import threading
import time

import bulkhead
import object_sets
import pytest
from conftest import digest_of, finish_digest, go_on, program_of, start_digest, wait_for_pause, write_spec
from object_sets import PATIENCE, SAMPLES, again_and_again, kill_all, spec_of

TRAIN = "s3://bucket/train/part-*"
# More batches than are fetched ahead (StreamInputs::kMostAheadBatches): some are read after any moment of a test.
EPOCHS = 2
SMALL = {"batch": {"size": 2}, "epochs": EPOCHS}


@pytest.fixture(scope="module")
def local(stored, tmp_path_factory):
    path = tmp_path_factory.mktemp("local") / "s.json"
    return digest_of("cpp", write_spec(path, **spec_of("train", stored / "bucket/train/part-*", **SMALL)))


@pytest.fixture
def spec(folder):
    return write_spec(folder / "s.json", **spec_of("train", TRAIN, **SMALL))


@pytest.fixture
def start(services, folder):
    def start_one(*options, cache="64MiB", workers=2):
        return services(folder, "--root", "s3://bucket", "--workers", workers, "--block-cache-bytes", cache, *options)

    return start_one


def fetch_pid(service):
    [pid] = object_sets.processes_below(service.process.pid, "bulkhead-fetch")
    return pid


@pytest.mark.parametrize("cache", ["0", "64MiB"])
@pytest.mark.parametrize("program", ["bulkhead-fetch", "bulkhead-worker"])
def test_kill_9_again_and_again(store, start, spec, local, program, cache):
    service = start(cache=cache)
    store.rate(4 << 20)
    process = start_digest("cpp", spec, target=service.target, pause_after=3, timeout=PATIENCE)
    wait_for_pause(process)
    assert kill_all(service.process.pid, program) > 0
    with again_and_again(lambda: kill_all(service.process.pid, program), 0.3):
        go_on(process)
        found = finish_digest(process)
    assert found["digest"] == local and found["samples"] == EPOCHS * SAMPLES


def test_kill_9_of_both_at_once(store, start, spec, local):
    service = start(cache="0")
    store.rate(4 << 20)

    def kill():
        return kill_all(service.process.pid, "bulkhead-fetch") + kill_all(service.process.pid, "bulkhead-worker")

    process = start_digest("python", spec, target=service.target, pause_after=3, timeout=PATIENCE)
    wait_for_pause(process)
    assert kill() > 1
    with again_and_again(kill, 0.4):
        go_on(process)
        assert finish_digest(process)["digest"] == local


@pytest.mark.parametrize("client", ["cpp", "python"])
def test_kill_9_of_the_service_in_mid_stream(store, spec, local, client):
    process = start_digest(client, spec, workers=2, pause_after=20)
    wait_for_pause(process)
    assert kill_all(process.pid, "bulkheadd") == 1
    go_on(process)
    found = finish_digest(process)
    assert found["digest"] == local and found["samples"] == EPOCHS * SAMPLES


def test_a_service_that_was_killed_leaves_no_process_and_its_spare_folder_goes_with_the_next(folder, store, start, spec, local):
    service = start(cache="0")
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        next(loader.stream())
        pid = fetch_pid(service)
        pidfd = os.pidfd_open(pid)
        assert object_sets.spares(folder / "cache")
        service.process.kill()
        service.process.wait()
    assert select.select([pidfd], [], [], PATIENCE)[0], "bulkhead-fetch ends with its service"
    os.close(pidfd)
    service = start(cache="0")
    assert digest_of("cpp", spec, target=service.target) == local
    assert service.stop() == 0
    assert not object_sets.spares(folder / "cache"), "what a killed service left is removed by a later one"


@pytest.mark.waits
def test_a_fetcher_that_stands_still_for_2_s(store, start, spec, local):
    service = start(cache="0")
    process = start_digest("cpp", spec, target=service.target, pause_after=5, timeout=PATIENCE)
    wait_for_pause(process)
    pid = fetch_pid(service)
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(2, os.kill, (pid, signal.SIGCONT))
    timer.start()
    go_on(process)
    assert finish_digest(process)["digest"] == local
    timer.join()
    assert program_of(pid) == "bulkhead-fetch", "it was not replaced"


@pytest.mark.waits
def test_a_fetcher_that_always_dies_is_told(store, start, spec):
    service = start(cache="0")
    process = start_digest("cpp", spec, target=service.target, pause_after=3, timeout=PATIENCE)
    wait_for_pause(process)
    store.delay(PATIENCE, key="part-0")  # what was answered of others is asked for again after each death
    with again_and_again(lambda: kill_all(service.process.pid, "bulkhead-fetch"), 0.1):
        go_on(process)
        error = finish_digest(process, fails=True)["error"]
    assert error["reason"] == "FILE_UNREADABLE", error
    assert "bulkhead-fetch, which reads object stores, ended 8 times in a row" in error["message"]


FAULTS = {
    "503": lambda store: store.fail(4, 503),
    "503, Retry-After": lambda store: store.fail(1, 503, retry_after=1),
    "429": lambda store: store.fail(4, 429),
    "reset": lambda store: store.reset(4),
    "reset in the middle": lambda store: store.reset(4, middle=True, method="GET"),
    "cut": lambda store: store.cut(4, method="GET"),
    "delay": lambda store: store.delay(0.05),
    "error in a 200": lambda store: store.error_in_200(3, method="GET"),
    "wrong header": lambda store: store.wrong_bytes(3, how="header"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_store_change_nothing(store, start, spec, local, fault):
    service = start(cache="0")
    FAULTS[fault](store)  # of the listing and the index's reads
    process = start_digest("cpp", spec, target=service.target, pause_after=2, timeout=PATIENCE)
    wait_for_pause(process)
    FAULTS[fault](store)
    go_on(process)
    assert finish_digest(process)["digest"] == local


def test_a_store_that_fails_now_and_then(store, start, spec, local):
    service = start(cache="0")
    asked = 0

    def fail():
        nonlocal asked
        if store.count() >= asked + 8:  # a quarter of the requests: with more, five attempts in 30 s may all fail
            asked = store.count()
            store.fail(1, 503, method="GET")
            store.reset(1, middle=True, method="GET")
        return asked

    with again_and_again(fail, 0.005):
        assert digest_of("cpp", spec, target=service.target, timeout=PATIENCE) == local
    assert sum(request.status == 503 for request in store.requests) > 3


@pytest.mark.waits
@pytest.mark.parametrize("client", ["cpp", "python"])
def test_a_store_that_is_away_for_2_s(store, start, spec, local, client):
    service = start(cache="0")
    process = start_digest(client, spec, target=service.target, pause_after=2, timeout=PATIENCE)
    wait_for_pause(process)
    store.die()
    timer = threading.Timer(2, store.revive)
    timer.start()
    go_on(process)
    try:
        assert finish_digest(process)["digest"] == local
    finally:
        timer.join()


def away(store):
    """For longer than five attempts take."""
    store.die()
    return threading.Timer(4, store.revive)


def answers_503(store):
    """Of the list's file, the folder's listing or the shards' one."""
    store.fail(7, 503)
    return threading.Timer(0, lambda: None)


@pytest.mark.waits
@pytest.mark.parametrize("fault", [away, answers_503])
@pytest.mark.parametrize("source", ["shards", "folder", "list"])
def test_an_opening_waits_for_a_store_that_comes_back(photos, folder, own_store, start, fault, source):
    bucket = folder / "store/bucket"
    shutil.copytree(photos / "folder", bucket / "folder")
    shutil.copy(photos / "list.txt", bucket / "list.txt")
    sources = {"folder": {"image_folder": {"path": "s3://bucket/folder"}}, "list": {"image_list": {"path": "s3://bucket/list.txt"}}}
    values = spec_of("train", TRAIN, epochs=1)
    if source in sources:
        values = {**values, "source": sources[source], "features": None}
    spec = write_spec(folder / "s.json", **{key: value for key, value in values.items() if value is not None})
    first = start()
    expected = digest_of("cpp", spec, target=first.target)
    assert first.stop() == 0
    service = start()
    seen = len(own_store.requests)
    timer = fault(own_store)
    timer.start()
    try:
        assert digest_of("cpp", spec, target=service.target, timeout=PATIENCE) == expected
    finally:
        timer.join()
    if fault is answers_503:
        assert sum(request.status == 503 for request in own_store.requests[seen:]) == 7


def test_a_store_that_ignores_ranges(store, start, spec, local):
    """HTTP allows it: 200 with the whole object. A cache has that from the building of the index; without one each part
    would cost all of its object."""
    store.wrong_bytes(None, how="whole")
    assert digest_of("cpp", spec, target=start(cache="64MiB").target) == local


def test_a_store_that_ignores_ranges_is_refused_without_a_cache(store, start, spec):
    service = start(cache="0")
    store.wrong_bytes(None, how="whole")
    with pytest.raises(bulkhead.BulkheadError) as caught:
        with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
            for _ in loader.stream():
                pass
    assert caught.value.reason == "FILE_UNREADABLE" and "range" in str(caught.value)
    assert "s3://bucket/train/part-" in str(caught.value)


@pytest.mark.parametrize("removed", ["objects", "objects/blocks"])
def test_a_cache_folder_that_is_removed_is_made_again(store, start, spec, local, folder, removed):
    service = start()
    assert digest_of("cpp", spec, target=service.target, timeout=PATIENCE) == local
    shutil.rmtree(folder / "cache" / removed)
    for client in ("cpp", "python"):
        assert digest_of(client, spec, target=service.target, timeout=PATIENCE) == local
    assert any((folder / "cache/objects/blocks").iterdir())


def test_a_cache_folder_that_is_removed_in_mid_stream_is_made_again(store, start, spec, local, folder):
    service = start()
    process = start_digest("cpp", spec, target=service.target, pause_after=3, timeout=PATIENCE)
    wait_for_pause(process)
    shutil.rmtree(folder / "cache/objects")
    go_on(process)
    found = finish_digest(process)
    assert found["digest"] == local and found["samples"] == EPOCHS * SAMPLES


@pytest.mark.parametrize("kind", ["train", "gzip", "tar"])
def test_wrong_bytes_under_a_right_header_are_an_error_where_the_format_has_checksums(folder, store, start, kind):
    """HTTP cannot tell. TFRecords have checksums, as gzip has; a tar has none for the bytes of members."""
    service = start(cache="0")
    more = {"order": "sequential", "epochs": 1, "stages": ["decode_image", {"center_crop": {"size": [32, 32]}}]}
    spec = write_spec(folder / "k.json", **spec_of(kind, f"s3://bucket/{kind}/part-*", **more))
    right = digest_of("cpp", spec, target=service.target)
    store.wrong_bytes(None, how="body", key=f"bucket/{kind}/part-1")
    with pytest.raises(bulkhead.BulkheadError) as caught:
        with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
            for _ in loader.stream():
                pass
    assert caught.value.reason == "CORRUPT_RECORD" and "part-1" in str(caught.value)
    store.heal()
    assert digest_of("cpp", spec, target=service.target) == right


@pytest.mark.parametrize("kind", ["train", "gzip", "tar"])
def test_bytes_that_arrive_wrong_once_are_read_again(folder, store, start, kind):
    """When the index is built, and then for the batches; and they do not stay in the cache."""
    order = {"order": "sequential", "epochs": 1, "stages": ["decode_image", {"center_crop": {"size": [32, 32]}}]}
    spec = write_spec(folder / "k.json", **spec_of(kind, f"s3://bucket/{kind}/part-*", **order))
    store.wrong_bytes(1, how="body", key=f"bucket/{kind}/part-1")
    service = start()
    indexed = digest_of("cpp", spec, target=service.target)
    assert service.stop() == 0
    shutil.rmtree(object_sets.blocks_folder(folder / "cache"))
    if kind != "tar":  # whose members have no checksums
        store.wrong_bytes(1, how="body", key=f"bucket/{kind}/part-1")
        store.wrong_bytes(1, how="body", key=f"bucket/{kind}/part-2")
    service = start()
    assert digest_of("cpp", spec, target=service.target) == indexed
    seen = len(store.requests)
    assert digest_of("python", spec, target=service.target) == indexed
    assert not [request for request in store.requests[seen:] if request.method == "GET"]
    local = write_spec(folder / "l.json", **spec_of(kind, store.objects.bucket("bucket") / kind / "part-*", **order))
    assert digest_of("cpp", local) == indexed


def test_a_record_that_is_wrong_in_the_store_is_read_twice_and_no_more(folder, own_store, start):
    path = folder / "store/bucket/train/part-1.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    errors = {"errors": {"policy": "substitute", "max_fraction": 0.5}, "epochs": 4}
    spec = spec_of("train", TRAIN, **errors)
    service = start(workers=3)
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        for _ in loader:
            pass
        seen = len(own_store.requests)
        for _ in loader.stream():
            pass
        assert len(loader.substitutions) == 4
    assert not [request for request in own_store.requests[seen:] if request.method == "GET"]
    again = [request for request in own_store.requests if request.key.endswith("part-1.tfrecord") and request.method == "GET"
             and request.end - request.begin < 64 << 10]
    assert len(again) == 1, "the rest came as one range, for the index"


def test_counts_of_reads_are_the_service_s_and_not_the_process_s(store, start, spec, local):
    service = start()
    assert digest_of("cpp", spec, target=service.target) == local
    before = bulkhead.service_status(service.target)["object_reads"]
    kill_all(service.process.pid, "bulkhead-fetch")
    for _ in range(20):
        now = bulkhead.service_status(service.target)["object_reads"]
        for name in ("requests", "bytes_fetched", "cached_bytes"):
            assert now[name] >= before[name] > 0, (name, before, now)
        before = now
    assert digest_of("cpp", spec, target=service.target) == local


@contextlib.contextmanager
def starved(store, service, spec):
    """A stream whose batches are taken by a thread while the store gives next to nothing."""
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        batches = loader.stream()
        next(batches)
        store.rate(20_000)
        thread = threading.Thread(target=lambda: [None for _ in batches])
        thread.start()
        try:
            yield
        finally:
            store.rate(None)
            thread.join()


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1.1)  # looks at a status that are closer explain nothing


def test_a_stream_that_waits_for_the_store_says_so(store, start, spec):
    service = start(cache="0")

    def why():
        [stream] = bulkhead.service_status(service.target)["streams"]
        return stream["why"]

    with starved(store, service, spec):
        wait_until(lambda: "waits for the object store" in (said := why()) and "/s came, by " in said)


@pytest.mark.waits
def test_a_batch_that_waits_long_for_the_store_is_told_to_the_trainer(store, start, spec, caplog):
    with starved(store, start(cache="0"), spec):
        wait_until(lambda: "bytes of the next one are still read from the object store" in caplog.text)
