"""Deaths and a store that fails cost time: nothing is lost, nothing comes twice, no byte is another one."""

import os
import select
import signal
import threading

import bulkhead
import object_sets
import pytest
from conftest import digest_of, finish_digest, program_of, start_digest, write_spec
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


def wait_for_pause(process):
    for line in process.stdout:
        if line.strip() == "paused":
            return


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


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
        if store.count() >= asked + 3:
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
