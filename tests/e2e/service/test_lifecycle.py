"""What an operator, systemd and probes ask of the service."""

import os
import pathlib
import signal
import socket
import subprocess
import time

import bulkhead
import grpc
import pytest
from conftest import BIN, tool, write_spec
from google.protobuf import descriptor_pb2, descriptor_pool
from test_connections import field, wait_until


class Manager:
    """A service manager's socket, as systemd has one."""

    def __init__(self, folder):
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(60)

    def environment(self):
        return {**os.environ, "NOTIFY_SOCKET": str(self.path)}

    def told(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())


@pytest.fixture
def manager(folder):
    manager = Manager(folder)
    yield manager
    manager.socket.close()


def test_a_service_manager_is_told_what_happens(folder, services, manager):
    service = services(folder, "--workers", "1", env=manager.environment())
    assert manager.told() == {"READY": "1", "STATUS": f"listening on {service.target}"}
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    service.process.send_signal(signal.SIGHUP)
    reloading = manager.told()
    assert reloading["RELOADING"] == "1"
    assert before <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert manager.told()["READY"] == "1"
    assert service.stop() == 0
    assert manager.told() == {"STOPPING": "1"}


def test_neither_workers_nor_embedded_services_tell_a_service_manager(folder, services, manager, monkeypatch):
    spec = write_spec(folder / "s.json", source={"range": {"size": 100}}, batch={"size": 10})
    service = services(folder, "--workers", "1", "--worker-env", "NOTIFY_SOCKET", env=manager.environment())
    manager.told()
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        next(loader.stream())
        [worker] = service.workers()
        assert b"NOTIFY_SOCKET" not in pathlib.Path(f"/proc/{worker}/environ").read_bytes()
    service.stop()
    manager.told()
    monkeypatch.setenv("NOTIFY_SOCKET", str(manager.path))
    with bulkhead.Loader(spec, timeout=120) as loader:
        next(loader.stream())
    manager.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.told()


# What runs at the exit of a process that tears down: OpenSSL's own handler does so under threads that still use it.
AT_EXIT = r"""
#include <stdlib.h>
#include <unistd.h>
static void at_exit(void) { _exit(77); }
__attribute__((constructor)) static void first(void) { atexit(at_exit); }
"""


def test_the_service_ends_without_tearing_down_what_its_threads_use(folder, services, preloaded):
    assert services(folder, env=preloaded(AT_EXIT)).stop() == 0


def test_sigusr1_logs_what_the_service_is_doing(folder, services):
    service = services(folder, "--workers", "2")
    log = folder / "service.log"
    spec = write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10})
    service.process.send_signal(signal.SIGUSR1)
    assert wait_until(lambda: "SIGUSR1: 0 streams, 0 workers" in log.read_text()), log.read_text()
    with bulkhead.Loader(spec, service.target, timeout=120, name="train\u202e2026 info forged") as loader:
        next(loader.stream())
        service.process.send_signal(signal.SIGUSR1)
        assert wait_until(lambda: "SIGUSR1: worker 1 of pipeline" in log.read_text()), log.read_text()
    text = log.read_text()
    assert "SIGUSR1: memory: supervisor 48MiB + arenas" in text
    assert "SIGUSR1: stream train\\xe2\\x80\\xae2026 info forged rank 0 of 1" in text
    assert "leases" in text and "slots:" in text
    # Many at once stop nothing.
    for _ in range(100):
        service.process.send_signal(signal.SIGUSR1)
    assert bulkhead.service_status(service.target)["pid"] == service.process.pid
    assert service.stop() == 0


def test_health_for_probes(folder, services, tmp_path):
    service = services(folder, "--workers", "1")
    assert tool("health", "--target", service.target) == f"the service at {service.target} serves\n"
    assert service.stop() == 0
    assert "bulkhead health: the service at" in tool("health", "--target", service.target, code=1)
    said = tool("health", "--target", service.target, "--wait", "0.5", code=1)
    assert said.startswith("bulkhead health: not within 0.5 s: the service at")
    # Something that accepts and says nothing.
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        deaf.listen()
        assert "bulkhead health: " in tool("health", "--target", f"unix:{tmp_path}/deaf", "--timeout", "0.2", code=1)


def test_health_waits_for_a_service(folder, services, tmp_path):
    target = f"unix:{tmp_path}/later.sock"
    waiting = subprocess.Popen([BIN / "bulkhead", "health", "--target", target, "--wait", "120"])
    try:
        services(folder, "--workers", "1", listen=target)
        assert waiting.wait(150) == 0
    finally:
        waiting.kill()
        waiting.wait()


def fields_of(message, wanted):
    """The contents of the length-delimited fields with that number."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        size = varint()
        if key & 7 == 2:
            if key >> 3 == wanted:
                found.append(message[at : at + size])
            at += size
    return found


def files_of(answer):
    """The FileDescriptorProtos of a ServerReflectionResponse."""
    (listed,) = fields_of(answer, 4)
    return [descriptor_pb2.FileDescriptorProto.FromString(file) for file in fields_of(listed, 1)]


def add_with_imports(pool, files, name):
    for needed in files[name].dependency:
        add_with_imports(pool, files, needed)
    pool.Add(files[name])


def test_health_and_reflection_name_the_loader(folder, services):
    service = services(folder, "--workers", "1")
    with grpc.insecure_channel(service.target) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(field(1, b"bulkhead.v1.Loader"), timeout=20) == b"\x08\x01"  # SERVING
        with pytest.raises(grpc.RpcError) as unknown:
            check(field(1, b"no.such.Service"), timeout=20)
        assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
        reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        # As grpcurl does: the file of the service, then each file that one imports.
        wanted, seen = [field(4, b"bulkhead.v1.Loader"), field(4, b"grpc.health.v1.Health")], {}
        while wanted:
            (answer,) = reflect(iter([wanted.pop()]), timeout=20)
            for file in files_of(answer):
                if file.name in seen:
                    continue
                seen[file.name] = file
                wanted += [field(3, name.encode()) for name in file.dependency if name not in seen]
        assert "bulkhead/v1/loader.proto" in seen
        pool = descriptor_pool.DescriptorPool()
        add_with_imports(pool, seen, "bulkhead/v1/loader.proto")
        methods = [method.name for method in pool.FindServiceByName("bulkhead.v1.Loader").methods]
        assert methods == ["Describe", "Stream", "GetStatus", "Recycle", "Quarantine", "Trace", "PutDataset"]
        add_with_imports(pool, seen, "grpc/health/v1/health.proto")
        assert [method.name for method in pool.FindServiceByName("grpc.health.v1.Health").methods] == ["Check", "Watch"]
