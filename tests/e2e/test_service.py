"""What a daemon is to its surroundings: health, status, order at its end."""

import os
import signal
import time

import grpc
import pytest

import bulkhead
from conftest import Service, children_of, write_spec


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


def wait_until(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_vanished_client_gives_its_slots_back(service, folder):
    pid = os.fork()
    if pid == 0:
        loader = bulkhead.Loader(endless(folder), service.target)
        next(loader.stream())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    from bulkhead import _proto

    def streams():
        status = _proto._message("bulkhead.v1.GetStatusResponse")()
        status.ParseFromString(call(service.target, "/bulkhead.v1.Loader/GetStatus"))
        return len(status.streams)

    wait_until(lambda: streams() == 0, "the stream of a dead client stays open")


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


def test_an_embedded_service_ends_with_its_trainer(folder):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        loader = bulkhead.Loader(endless(folder), workers=1)
        next(loader.stream())
        [service] = children_of(os.getpid())
        os.write(write, str(service).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    service = int(os.read(read, 100))
    wait_until(lambda: not os.path.exists(f"/proc/{service}"), "the service outlived its trainer")
