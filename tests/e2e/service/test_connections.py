"""The service's Unix socket, as clients of all kinds see it."""

import os
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import bulkhead
import grpc
import pytest
from conftest import Service, write_spec

CONNECTIONS = 1000


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_a_thousand_connections_leave_nothing_behind(folder):
    service = Service(folder, "--workers", "1")
    path = service.target.removeprefix("unix:")
    try:
        bulkhead.service_status(service.target)
        before = open_files(service.process.pid)
        for number in range(CONNECTIONS):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                # Some say nothing, some nonsense.
                if number % 2:
                    connection.sendall(b"not HTTP/2" * 10)
        # One at a time: gRPC shares the connections of channels that look alike.
        for _ in range(20):
            bulkhead.service_status(service.target)
        assert wait_until(lambda: open_files(service.process.pid) <= before + 3), open_files(service.process.pid) - before
    finally:
        service.stop()


def private_bytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def test_a_flood_of_openings_leaves_no_memory_behind(folder):
    # Understood by halves, at some cost of memory, and refused.
    spec = "source: {range: {size: 10}}\nstages:\n" + "- one_hot: {input: index, classes: 10}\n" * 10_000 + "- no\n"
    good = write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10})
    service = Service(folder, "--workers", "1", "--open-rate", "0")
    try:
        with bulkhead.Loader(good, service.target) as loader:
            loader.next_batch()

        def refused():
            with pytest.raises(bulkhead.BulkheadError):
                bulkhead.Loader(spec, service.target)

        before, highest = private_bytes(service.process.pid), peak_bytes(service.process.pid)
        for _ in range(2):
            flood = [threading.Thread(target=refused) for _ in range(10)]
            for caller in flood:
                caller.start()
            for caller in flood:
                caller.join()
        assert peak_bytes(service.process.pid) > highest + (8 << 20)
        assert wait_until(lambda: private_bytes(service.process.pid) < before + (4 << 20))
    finally:
        service.stop()


def peak_bytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def field(number, content):
    """A field of a message on the wire."""
    size, rest = bytearray(), len(content)
    while rest >= 0x80:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([number << 3 | 2, *size, rest]) + content


def refusal(service, call, request):
    with grpc.insecure_channel(service.target) as channel, pytest.raises(grpc.RpcError) as refused:
        list(channel.stream_stream(f"/bulkhead.v1.Loader/{call}")(iter([request])))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    return refused.value.details()


def test_a_request_of_empty_elements_is_refused_before_it_takes_memory(folder):
    # Files of code in a cursor, without name and digest: 2 bytes each, and 80 once they are parsed.
    request = field(1, field(2, field(12, b"") * 4_000_000))
    service = Service(folder, "--workers", "1")
    try:
        bulkhead.service_status(service.target)
        before = peak_bytes(service.process.pid)
        assert "more than 120000 fields" in refusal(service, "Stream", request)
        assert peak_bytes(service.process.pid) < before + (64 << 20)
    finally:
        service.stop()


def test_requests_are_understood_one_at_a_time(folder):
    # 30,000 stages that are all wrong: 250 KB on the wire.
    stage = field(9, field(1, b"index"))
    request = field(1, field(1, field(1, field(4, b"\x08\x0a")) + field(3, stage) * 30_000))
    service = Service(folder, "--workers", "1")
    pid = service.process.pid

    def growth(callers):
        with open(f"/proc/{pid}/clear_refs", "w") as peak:
            peak.write("5")  # from now on
        before = peak_bytes(pid)
        with ThreadPoolExecutor(callers) as pool:
            for answer in [pool.submit(refusal, service, "Describe", request) for _ in range(callers)]:
                assert "stages" in answer.result()
        return peak_bytes(pid) - before

    try:
        bulkhead.service_status(service.target)
        one = growth(1)
        assert one > 8 << 20
        assert growth(12) < 3 * one
    finally:
        service.stop()


def test_what_a_request_may_hold_is_bounded(folder):
    service = Service(folder, "--workers", "1")
    spec = write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10})
    try:
        bulkhead.Loader(spec, service.target, name="n" * 256).close()
        with pytest.raises(bulkhead.errors.InvalidArgument, match="name has 257 bytes; at most 256"):
            bulkhead.Loader(spec, service.target, name="n" * 257)
        with pytest.raises(bulkhead.errors.InvalidArgument, match=r'has a control character.*"train\\nstream'):
            bulkhead.Loader(spec, service.target, name="train\nstream gone")
        before = peak_bytes(service.process.pid)
        many = field(1, field(1, field(1, field(5, field(1, b"") * 119_000))))
        assert "has 119000; a mixture is of 2 to" in refusal(service, "Describe", many)
        assert "has 2000004 bytes; at most 1048576" in refusal(service, "Describe", field(1, field(1, field(9, b"x" * 2_000_000))))
        assert "at most 1m" in refusal(service, "Trace", field(1, b"\x08\x3d"))  # 61 s
        assert peak_bytes(service.process.pid) < before + (120 << 20)
    finally:
        service.stop()


def test_only_the_owner_may_connect(folder):
    service = Service(folder, "--workers", "1")
    try:
        mode = os.stat(service.target.removeprefix("unix:")).st_mode
        assert stat.S_IMODE(mode) == 0o600
    finally:
        service.stop()
    assert not os.path.exists(service.target.removeprefix("unix:"))


def test_health_and_reflection_answer(folder):
    service = Service(folder, "--workers", "1")
    try:
        with grpc.insecure_channel(service.target) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            assert check(b"", timeout=20) == b"\x08\x01"  # SERVING
            reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
            list_services = b"\x3a\x00"
            (answer,) = reflect(iter([list_services]), timeout=20)
            assert b"bulkhead.v1.Loader" in answer
    finally:
        service.stop()


def test_status_names_the_peer_by_its_kind_of_address(folder):
    spec = write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10})
    service = Service(folder, "--workers", "1")
    try:
        with bulkhead.Loader(spec, service.target) as loader:
            loader.next_batch()
            (stream,) = bulkhead.service_status(service.target)["streams"]
            assert stream["peer"] == "unix:"
    finally:
        service.stop()
