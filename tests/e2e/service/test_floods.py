"""Clients that ask for too much, and one that does not: it goes on."""

import contextlib
import itertools
import json
import os
import resource
import socket
import threading
import time

import bulkhead
import grpc
import pytest
from conftest import Service, tool, write_spec
from test_connections import field, open_files, wait_until


@pytest.fixture
def service(folder, services):
    # So slow that little more than a burst is let through, however long a flood takes.
    return services(folder, "--workers", "1", "--open-rate", "0.1")


@pytest.fixture
def spec(folder):
    return write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10}, epochs=1)


def read_all(service, spec, **options):
    with bulkhead.Loader(spec, service.target, timeout=120, **options) as loader:
        return sum(len(batch["index"]) for batch in loader.stream())


def describe_request(spec):
    text = field(1, spec.read_bytes())
    return field(1, field(2, text))


def describe(channel, request):
    call = channel.unary_stream("/bulkhead.v1.Loader/Describe")
    return call(request, timeout=120)


def outcome(call):
    """OK, or the code and text of a refusal."""
    try:
        for _ in call:
            pass
    except grpc.RpcError as refused:
        return refused.code(), refused.details()
    return grpc.StatusCode.OK, ""


def refused_too_often(outcomes):
    return [text for code, text in outcomes if code == grpc.StatusCode.RESOURCE_EXHAUSTED and "too often" in text]


def connection(service):
    """A channel with a connection of its own."""
    return grpc.insecure_channel(service.target, [("grpc.use_local_subchannel_pool", 1)])


def flood(service, spec, calls):
    with connection(service) as channel:
        request = describe_request(spec)
        return [outcome(call) for call in [describe(channel, request) for _ in range(calls)]]


def test_a_connection_that_describes_without_end_is_refused_in_words(service, spec):
    outcomes = flood(service, spec, 200)
    assert outcomes.count((grpc.StatusCode.OK, "")) >= 64
    refused = refused_too_often(outcomes)
    assert len(refused) >= 50
    assert refused[0].startswith(f"process {os.getpid()} opens streams and describes specs too often on one connection")
    assert "this service takes 0.1 a second (bulkheadd's --open-rate). Wait a second" in refused[0]


def test_a_process_that_makes_new_connections_is_refused_too(service, spec):
    outcomes = [result for _ in range(8) for result in flood(service, spec, 60)]
    assert outcomes.count((grpc.StatusCode.OK, "")) >= 256
    assert "on one connection" not in refused_too_often(outcomes)[0]


def test_an_honest_client_goes_on_beside_a_flood(service, spec):
    """From another process: the client of a Unix socket is its process."""
    stop = threading.Event()
    outcomes = []

    def endlessly():
        while not stop.is_set():
            outcomes.extend(flood(service, spec, 100))

    with bulkhead.Loader(spec, service.target, timeout=120) as before:
        batches = before.stream()
        next(batches)
        flooder = threading.Thread(target=endlessly)
        flooder.start()
        try:
            assert wait_until(lambda: refused_too_often(outcomes))
            report = json.loads(tool("bench", "run", "--spec", spec, "--target", service.target, "--json"))
            assert report["batches"] > 0
            assert 10 + sum(len(batch["index"]) for batch in batches) == 1000
        finally:
            stop.set()
            flooder.join()


def test_clients_wait_until_they_may_open_again(folder, spec):
    service = Service(folder, "--workers", "1", "--open-rate", "0.2")
    try:
        assert wait_until(lambda: refused_too_often(flood(service, spec, 60)))
        # The burst of this process is used up.
        with pytest.raises(bulkhead.BulkheadError) as refused:
            for _ in range(100):
                read_all(service, spec, reconnect_timeout=0)
        assert read_all(service, spec) == 1000
        assert (refused.value.reason, refused.value.code) == ("OPENED_TOO_OFTEN", "RESOURCE_EXHAUSTED")
    finally:
        service.stop()


def test_the_rate_can_be_unlimited(folder, spec):
    service = Service(folder, "--workers", "1", "--open-rate", "0")
    try:
        outcomes = [result for _ in range(6) for result in flood(service, spec, 100)]
        assert outcomes == 600 * [(grpc.StatusCode.OK, "")]
    finally:
        service.stop()


def test_refused_calls_wait_and_end_with_the_service(folder, spec):
    service = Service(folder, "--workers", "1", "--open-rate", "0.001")
    try:
        flood(service, spec, 60)
        with connection(service) as channel:
            calls = [describe(channel, describe_request(spec)) for _ in range(249)]
            begun = time.monotonic()
            calls.append(describe(channel, describe_request(spec)))
            assert calls[-1].code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert time.monotonic() - begun >= 1
            more = [describe(channel, describe_request(spec)) for _ in range(250)]
            assert service.stop() == 0
            for call in more:
                assert call.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    finally:
        service.process.kill()


def test_a_connection_without_a_call_is_closed_and_clients_make_another(folder, spec):
    service = Service(folder, "--workers", "1", "--connection-idle-timeout", "0.5")
    path = service.target.removeprefix("unix:")
    try:
        bulkhead.service_status(service.target)
        before = open_files(service.process.pid)
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(50)]
            for connection in silent:
                connection.connect(path)
            for connection in silent:
                connection.settimeout(60)
                while connection.recv(1 << 16):  # until the service closes it
                    pass
            assert wait_until(lambda: open_files(service.process.pid) <= before + 3)
        # A stream keeps its connection, however long its trainer pauses.
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            batches = loader.stream()
            next(batches)
            time.sleep(1.5)  # the pause is what is tested
            assert 10 + sum(len(batch["index"]) for batch in batches) == 1000
            assert loader.stats.reconnects == 0
        assert read_all(service, spec) == 1000
    finally:
        service.stop()


def test_connections_leave_the_service_files_of_its_own(folder, spec):
    few = 256
    service = Service(
        folder, "--workers", "1",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (few, few)),
    )
    path = service.target.removeprefix("unix:")
    try:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader, contextlib.ExitStack() as stack:
            batches = loader.stream()
            next(batches)
            for _ in range(few):
                connection = stack.enter_context(socket.socket(socket.AF_UNIX))
                connection.connect(path)
            log = folder / "service.log"
            assert wait_until(lambda: "connections are closed as soon as they are made" in log.read_text())
            assert open_files(service.process.pid) < few - 32
            assert 10 + sum(len(batch["index"]) for batch in batches) == 1000
        assert wait_until(lambda: open_files(service.process.pid) < few / 2)
        assert read_all(service, spec) == 1000
    finally:
        service.stop()


@contextlib.contextmanager
def silent_streams(channel, count):
    """Calls of Stream that say nothing."""
    ended = threading.Event()

    def say_nothing():
        ended.wait()
        yield from ()

    calls = [channel.stream_stream("/bulkhead.v1.Loader/Stream")(say_nothing()) for _ in range(count)]
    try:
        yield calls
    finally:
        for call in calls:
            call.cancel()
        ended.set()


def test_streams_that_say_nothing_leave_places_for_others(service, spec):
    with connection(service) as channel, silent_streams(channel, 300) as calls:
        assert wait_until(lambda: refused_too_often([(call.code(), call.details()) for call in calls if call.done()]))
        assert len(bulkhead.service_status(service.target)["workers"]) == 0
        assert tool("bench", "run", "--spec", spec, "--target", service.target)
def wait_for_place(service, spec, free, take=None):
    """Until this process has all the calls that it may have, or with `free` less.

    The call that asks may have had the place that another wanted, which was refused; `take()` makes one more.
    """
    said = []

    def is_so():
        said[:] = flood(service, spec, 1)
        code, text = said[0]
        full = f"for process {os.getpid()} this service already serves 128 calls" in text
        so = free != (full and code == grpc.StatusCode.RESOURCE_EXHAUSTED)
        if not so and take:
            take()
        return so

    assert wait_until(is_so), said


def test_the_129th_call_of_a_connection_waits_until_another_has_ended(folder, services, spec):
    service = services(folder, "--workers", "1", "--open-rate", "0")
    with connection(service) as channel, silent_streams(channel, 128) as calls, contextlib.ExitStack() as more:
        waiting = channel.unary_unary("/bulkhead.v1.Loader/GetStatus").future(b"")
        wait_for_place(service, spec, free=False, take=lambda: more.enter_context(silent_streams(channel, 1)))
        assert not waiting.done() or any(call.done() for call in calls)
        assert bulkhead.service_status(service.target)["pid"] == service.process.pid
        calls[0].cancel()
        assert waiting.result(timeout=60)


def test_a_process_that_takes_all_the_calls_it_can_leaves_some_to_others(folder, services, spec):
    service = services(folder, "--workers", "1", "--open-rate", "0")
    with connection(service) as channel, silent_streams(channel, 128), contextlib.ExitStack() as more:
        wait_for_place(service, spec, free=False, take=lambda: more.enter_context(silent_streams(channel, 1)))
        assert tool("bench", "run", "--spec", spec, "--target", service.target)


def test_questions_beyond_a_burst_are_answered_too(service):
    assert {bulkhead.service_status(service.target)["pid"] for _ in range(130)} == {service.process.pid}


def test_health_checks_beyond_a_burst_wait(service):
    """100 at once, then 100 a second: none can be answered sooner, and all are."""
    with grpc.insecure_channel(service.target) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        begun = time.monotonic()
        answers = [check(b"", timeout=60) for _ in range(250)]
        took = time.monotonic() - begun
    assert set(answers) == {b"\x08\x01"}  # SERVING
    assert took >= 1.4


def frame(kind, flags, stream, content):
    """Of HTTP/2."""
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def header(name, value):
    """As HPACK has a field that is in no table."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
ONE_MORE_BYTE = frame(8, 0, 0, (1).to_bytes(4, "big"))  # may be sent
PING, PONG = frame(6, 0, 0, b"bulkhead"), frame(6, 1, 0, b"bulkhead")
HEADERS = frame(1, 4, 1, b"".join(itertools.starmap(header, [
    (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"localhost"), (b":path", b"/bulkhead.v1.Loader/Stream"),
    (b"content-type", b"application/grpc"), (b"te", b"trailers"),
])))
MESSAGE = frame(0, 0, 1, b"\0" + (100).to_bytes(4, "big") + bytes(100))


def test_descriptors_that_come_with_a_request_do_not_stay_in_the_service(service):
    path = service.target.removeprefix("unix:")
    before = open_files(service.process.pid)
    with socket.socket(socket.AF_UNIX) as connection, open(os.devnull) as sent:
        connection.connect(path)
        connection.settimeout(60)
        for said in [BEGIN, *[ONE_MORE_BYTE] * 200, PING]:
            assert socket.send_fds(connection, [said], [sent.fileno()] * 8) == len(said)
        answer = b""
        while PONG not in answer:
            answer += connection.recv(4096)
        assert open_files(service.process.pid) < before + 50


@contextlib.contextmanager
def connections_that_say(service, count, said):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(service.target.removeprefix("unix:"))
            client.sendall(said)
        yield


def most_memory(service):
    """Bytes that it has held at most."""
    with open(f"/proc/{service.process.pid}/status") as status:
        (most,) = (line for line in status if line.startswith("VmHWM:"))
    return int(most.split()[1]) << 10


def test_a_message_of_any_length_takes_no_more_than_there_is_for_requests(folder, services, spec):
    service = services(folder, "--open-rate", "0")
    endless = bytes(400 << 20)
    with bulkhead.Loader(spec, service.target, transport="grpc", timeout=120) as loader:
        batches = loader.stream()
        read = [*next(batches)["index"]]
        for _ in range(3):
            channel = grpc.insecure_channel(
                service.target, [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
            )
            with channel:
                code, _ = outcome(channel.stream_stream("/bulkhead.v1.Loader/Stream")(iter([endless]), timeout=120))
            assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
        assert most_memory(service) < 320 << 20
        # gRPC may have ended this stream, too.
        read += [index for batch in batches for index in batch["index"]]
    assert sorted(read) == list(range(1000))


def test_half_requests_take_nobodys_place(service, spec):
    with connections_that_say(service, 300, BEGIN), connections_that_say(service, 300, BEGIN + HEADERS[:-10]):
        assert read_all(service, spec) == 1000


def test_half_messages_have_a_place_until_their_connection_ends(folder, services, spec):
    service = services(folder, "--workers", "1", "--open-rate", "0")
    half = BEGIN + HEADERS + MESSAGE[:-10]
    with connections_that_say(service, 128, half), contextlib.ExitStack() as more:
        wait_for_place(service, spec, free=False, take=lambda: more.enter_context(connections_that_say(service, 1, half)))
    wait_for_place(service, spec, free=True)
    assert read_all(service, spec) == 1000
