"""What a daemon is to its surroundings: health, status, order at its end."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import grpc
import pytest

import bulkhead
from bulkhead._rpc import proto
from bulkhead._stream import incarnation
from conftest import AUGMENTED, BIN, HERE, PYTHON_PACKAGE, Service, children_of, wait_until, write_spec


@pytest.fixture
def service(folder):
    service = Service(folder, "--root", folder, "--workers", 2)
    yield service
    if service.process.poll() is None:
        service.stop()


def endless(folder):
    return write_spec(folder / "endless.yaml", source={"range": {"size": 1000}}, batch={"size": 10})


def call(target, method, request=b""):
    with grpc.insecure_channel(target) as channel:
        return channel.unary_unary(method)(request, timeout=10)


def test_health_says_serving(service):
    # grpc.health.v1.HealthCheckResponse{status = 1: SERVING = 1}
    assert call(service.target, "/grpc.health.v1.Health/Check") == b"\x08\x01"


def test_reflection_lists_the_loader(service):
    with grpc.insecure_channel(service.target) as channel:
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        list_services = b"\x3a\x00"  # ServerReflectionRequest{list_services = 7: ""}
        [response] = channel.stream_stream(method)(iter([list_services]), timeout=10)
    assert b"bulkhead.v1.Loader" in response


def status_of(service):
    status = proto._message("bulkhead.v1.GetStatusResponse")()
    status.ParseFromString(call(service.target, "/bulkhead.v1.Loader/GetStatus"))
    return status


def trainer(spec, **options):
    """A program that has taken a batch; not a fork of this one, whose threads may hold locks."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import bulkhead; loader = bulkhead.Loader({str(spec)!r}, **{options!r})\n"
         "next(loader.stream()); print('taken', flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "taken\n"
    return process


def kill(process):
    process.kill()
    process.communicate()


def test_a_vanished_client_gives_its_slots_back(service, folder):
    kill(trainer(endless(folder), target=service.target))
    wait_until(lambda: len(status_of(service).streams) == 0, "the stream of a dead client stays open")


def test_streams_that_are_closed_early_leave_the_workers_to_others(service, folder):
    for _ in range(20):  # far more leases than the workers may hold
        with bulkhead.Loader(endless(folder), service.target, timeout=20) as loader:
            next(loader.stream())


def test_a_newer_consumer_takes_the_stream_over(service, folder):
    with bulkhead.Loader(endless(folder), service.target, name="train") as older:
        batches = older.stream()
        next(batches)
        with bulkhead.Loader(endless(folder), service.target, name="train") as newer:
            next(newer.stream())
            with pytest.raises(bulkhead.Superseded):
                while True:
                    next(batches)


@pytest.mark.parametrize("fault", ["spec", "data", "cursor", "budget", "function"])
def test_a_newer_consumer_that_is_refused_ends_nobody(folder, services, fault):
    service = services(folder / "service", "--root", folder, "--workers", 1, "--memory-budget", "1GiB", "--worker-quota", "256MiB",
                       "--python-path", HERE)
    good = {"source": {"range": {"size": 1000}}, "batch": {"size": 10}}
    no_function = {"function": "user_functions:not_there", "inputs": ["index"], "outputs": [{"name": "x", "dtype": "int64"}]}
    spec, reason = {
        "spec": (good | {"stages": ["no_such_stage"]}, "SPEC_INVALID"),
        "data": (good | {"source": {"image_folder": {"path": f"{folder}/none"}}, "stages": AUGMENTED}, "FILE_NOT_FOUND"),
        "cursor": (good | {"seed": 99}, "CURSOR_MISMATCH"),
        "budget": (good | {"batch": {"size": 2**24}}, "BUDGET_EXCEEDED"),
        "function": (good | {"stages": [{"python": no_function}]}, "STAGE_UNUSABLE"),
    }[fault]
    with bulkhead.Loader(endless(folder), service.target, name="train", transport="grpc") as older:
        batches = older.stream()
        next(batches)
        options = {"cursor": older.state_dict()} if fault == "cursor" else {}
        with pytest.raises(bulkhead.BulkheadError) as caught:
            bulkhead.Loader(write_spec(folder / "bad.json", **spec), service.target, name="train", **options)
        assert caught.value.reason == reason
        for _ in range(100):  # far more than had arrived
            next(batches)
        assert older.reconnects == 0


def test_a_trainer_that_restarts_after_the_clock_was_set_back_is_the_newer_one(service, folder, monkeypatch):
    with bulkhead.Loader(endless(folder), service.target, name="train") as older:
        batches = older.stream()
        next(batches)
        wall = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: wall - 3_600 * 10**9)
        monkeypatch.setattr(incarnation, "_last", incarnation.Incarnation(0, b"", 0))  # as another process
        with bulkhead.Loader(endless(folder), service.target, name="train") as newer:
            next(newer.stream())
            with pytest.raises(bulkhead.Superseded):
                while True:
                    next(batches)
            assert next(newer.stream()) is not None


def test_sigterm_ends_streams_with_a_typed_error_and_leaves_no_worker(service, folder):
    with bulkhead.Loader(endless(folder), service.target, reconnect_timeout=0) as loader:
        batches = loader.stream()
        next(batches)
        workers = service.workers()
        assert len(workers) == 2
        service.process.send_signal(signal.SIGTERM)
        with pytest.raises(bulkhead.ServiceUnavailable):
            while True:
                next(batches)
    assert service.process.wait(30) == 0
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers),
               "a worker outlived its service")


def test_a_trainer_that_pauses_does_not_hold_up_the_end_of_its_service(service, folder):
    with bulkhead.Loader(endless(folder), service.target, reconnect_timeout=0) as loader:
        next(loader.stream())
        wait_until(lambda: status_of(service).streams[0].arena.slots_ready > 0
                   or status_of(service).streams[0].arena.slots_sending > 0, "nothing is queued")
        assert service.stop() == 0
        with pytest.raises(bulkhead.ServiceUnavailable) as caught:
            for _ in range(100):
                loader.next_batch()
    assert "shutting down" in str(caught.value)  # said by the service; it was not cut off after its drain


IDLE = """
import sys
import time

import bulkhead

spec, target, transport = sys.argv[1:]
loaders = [bulkhead.Loader(spec, target, name=f"idle{number}", transport=transport) for number in range(8)]
for loader in loaders:
    loader.next_batch()
print("idle", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_clients_that_are_stopped_do_not_hold_up_the_end_of_their_service(service, folder, transport):
    idle = subprocess.Popen([sys.executable, "-c", IDLE, endless(folder), service.target, transport],
                            env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)}, stdout=subprocess.PIPE, text=True)
    try:
        assert idle.stdout.readline() == "idle\n"
        idle.send_signal(signal.SIGSTOP)
        assert service.stop() == 0
        assert "are cut off" not in (folder / "service.log").read_text()
    finally:
        idle.kill()
        idle.wait()


def test_workers_die_with_a_service_that_is_killed(service, folder):
    with bulkhead.Loader(endless(folder), service.target, reconnect_timeout=0) as loader:
        batches = loader.stream()
        next(batches)
        workers = service.workers()
        service.process.kill()
        with pytest.raises(bulkhead.ServiceUnavailable):
            while True:
                next(batches)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers),
               "a worker outlived its service")


def test_an_embedded_service_ends_with_its_trainer(folder, monkeypatch):
    with tempfile.TemporaryDirectory() as run:  # short enough for a socket's address
        monkeypatch.setenv("XDG_RUNTIME_DIR", run)
        process = trainer(endless(folder), workers=1)
        [service] = children_of(process.pid)
        assert len(os.listdir(run)) == 1
        kill(process)
        wait_until(lambda: not os.path.exists(f"/proc/{service}"), "the service outlived its trainer")
        assert os.listdir(run) == []


@pytest.fixture
def subreaper():
    """Makes orphans our children, as they are those of process 1 in a container that runs a trainer."""
    prctl, pr_set_child_subreaper = ctypes.CDLL(None).prctl, 36
    assert prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0
    yield
    assert prctl(pr_set_child_subreaper, 0, 0, 0, 0) == 0


def zombies():
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] == "Z" and int(fields[1]) == os.getpid():
            found.append(stat.parent.name)
    return found


def test_a_service_that_ends_has_reaped_its_workers(folder, subreaper):
    with bulkhead.Loader(endless(folder), workers=3) as loader:
        next(loader.stream())
    assert zombies() == []


# Describe and GetStatus.


def describe(service, spec, **request):
    """The Progress messages and the Description that the service answers."""
    message = proto._message("bulkhead.v1.DescribeRequest")()
    message.spec.text.text = spec.read_text()
    message.spec.base_dir = str(spec.parent)
    for key, value in request.items():
        setattr(message, key, value)
    progress = []
    with grpc.insecure_channel(service.target) as channel:
        method = channel.unary_stream("/bulkhead.v1.Loader/Describe")
        for data in method(message.SerializeToString(), timeout=30):
            response = proto._message("bulkhead.v1.DescribeResponse")()
            response.ParseFromString(data)
            if response.WhichOneof("response") == "description":
                return progress, response.description
            progress.append(response.progress)
    raise AssertionError("the answer ended without a description")


def record_spec(photos, folder, files="records-*.tfrecord"):
    for path in photos.glob("records-*.tfrecord"):
        shutil.copy(path, folder)
    return write_spec(folder / "spec.yaml", source={"tfrecord": {"files": files}},
                      features={"label": {"int64": {}}}, batch={"size": 16}, seed=1)


def test_describe_counts_what_is_selected(photos, folder, service):
    record_spec(photos, folder)
    split = {"parts": {"train": 0.7, "test": 0.3}, "use": "train"}
    spec = write_spec(folder / "some.yaml", source={"tfrecord": {"files": "records-*.tfrecord"}},
                      features={"label": "int64"}, batch={"size": 4}, filter={"feature": "label", "max": 4},
                      split=split, skip=5, take=20)
    progress, description = describe(service, spec)
    assert progress[-1].files_done == progress[-1].files_total
    [counts] = description.selections
    assert 150 == counts.records > counts.in_part > counts.kept > counts.samples == 20
    assert (description.samples_per_epoch, description.batches_per_epoch) == (20, 5)
    said = subprocess.run([BIN / "bulkhead", "validate", "--data", "--target", service.target, spec],
                          capture_output=True, text=True, check=True).stdout
    assert f": 20 of 150 records: {counts.in_part} in the part `train`, {counts.kept} that the filter keeps" in said
    _, outline = describe(service, spec, schema_only=True)
    assert not outline.selections and not outline.HasField("samples_per_epoch")
    ranged = write_spec(folder / "range.yaml", source={"range": {"size": 10}}, batch={"size": 2}, skip=3)
    _, outline = describe(service, ranged, schema_only=True)
    assert outline.samples_per_epoch == 7, "the spec alone tells"


def test_describe_says_what_batches_will_be(photos, folder, service):
    spec = record_spec(photos, folder)
    progress, description = describe(service, spec, world_size=2)
    assert progress and progress[-1].records == 150
    assert progress[-1].files_done == progress[-1].files_total
    assert description.samples_per_epoch == 150
    assert description.batches_per_epoch == 5  # 150 samples on 2 ranks: 4 full batches and a smaller one
    [label] = description.schema.tensors
    assert (label.name, label.sample_bytes, list(label.shape)) == ("label", 8, [])
    assert len(description.order_fingerprint) == len(description.bytes_fingerprint) == 64
    memory = description.memory
    assert memory.arena_bytes == memory.slot_bytes * memory.slot_count > 0
    assert (memory.workers, memory.threads_per_worker) == (2, 1)
    assert memory.worker_quota_bytes == 512 << 20
    assert not description.selections
    assert description.spec.batch.size == 16


def test_describe_with_schema_only_touches_no_file(photos, folder, service):
    spec = record_spec(photos, folder, "missing-*.tfrecord")
    progress, description = describe(service, spec, schema_only=True)
    assert progress == []
    assert description.schema.batch_size == 16
    assert not description.HasField("samples_per_epoch")
    assert description.order_fingerprint == "" and len(description.bytes_fingerprint) == 64


@pytest.mark.parametrize("content, code", [
    ("{}", grpc.StatusCode.INVALID_ARGUMENT),
    ("{source: {tfrecord: {files: none}}, features: {a: {int64: {}}}, batch: {size: 1}}",
     grpc.StatusCode.NOT_FOUND),
])
def test_describe_refuses_what_a_stream_would(folder, service, content, code):
    (folder / "spec.yaml").write_text(content)
    with pytest.raises(grpc.RpcError) as caught:
        describe(service, folder / "spec.yaml")
    assert caught.value.code() == code


def test_status_shows_workers_streams_and_arenas(folder, service):
    with bulkhead.Loader(endless(folder), service.target, name="train", rank=1,
                         world_size=2) as loader:
        next(loader.stream())
        deadline = time.monotonic() + 60
        while "WORKER_STATE_STARTING" in str(status := status_of(service)):
            assert time.monotonic() < deadline, status
            time.sleep(0.05)
        assert status.pid == service.process.pid and status.boot_id
        assert status.supervisor.memory_bytes > 1 << 20
        assert sorted(worker.pid for worker in status.workers) == sorted(service.workers())
        for worker in status.workers:
            assert worker.role == "pipeline" and worker.generation == 1
            assert worker.quota_bytes == 512 << 20 and worker.quota_level in ("kernel-total", "kernel-private")
            assert worker.usage.memory_bytes > 1 << 20
        [stream] = status.streams
        assert (stream.name, stream.rank, stream.world_size) == ("train", 1, 2)
        assert stream.arena.slots == 5 and stream.arena.bytes > 0
        assert stream.batches_sent >= 1
