"""Shared memory with both clients and the real service: the same bytes, and what becomes of slots."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import PYTHON_PACKAGE, SERVER, Service, go_on
from data import range_spec, shuffled_records
from test_conformance import digest_of

sys.path.insert(0, str(PYTHON_PACKAGE))
import bulkhead  # noqa: E402


def eventually(condition, seconds=15):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def memory_files(service):
    """The arenas that the service's process still has."""
    names = pathlib.Path(f"/proc/{service.process.pid}/fd").iterdir()
    found = 0
    for name in names:
        try:
            found += "memfd:bulkhead-arena" in os.readlink(name)
        except OSError:
            continue
    return found


# The same batches.


def test_the_bytes_are_the_same_over_both_transports(client, service, folder):
    spec = shuffled_records(folder)
    by_transport = [client.ok(spec, service.target, transport=t) for t in ("auto", "shm", "grpc")]
    assert by_transport[0] == by_transport[1] == by_transport[2]
    assert by_transport[0]["samples"] == 900


@pytest.mark.parametrize("credits", [1, 2, 9, 64])
def test_any_number_of_credits(client, service, folder, credits):
    spec = range_spec(folder / "s.yaml", size=1000, batch=8)
    result = client.ok(spec, service.target, transport="shm", credit_batches=credits)
    assert result["digest"] == digest_of(range(1000))


def test_last_batches_padded_and_partial(client, service, folder):
    for last in ("pad", "partial"):
        spec = range_spec(folder / "s.yaml", size=50, batch={"size": 8, "last": last}, epochs=3)
        results = [client.ok(spec, service.target, transport=t) for t in ("shm", "grpc")]
        assert results[0] == results[1]


def test_an_embedded_service_has_a_door(client, folder, tmp_path):
    environment = {"XDG_RUNTIME_DIR": tmp_path, "XDG_CACHE_HOME": tmp_path}
    spec = range_spec(folder / "s.yaml", size=100)
    result = client.ok(spec, environment=environment, workers=1, threads=1, transport="shm")
    assert result["digest"] == digest_of(range(100))
    assert not list(tmp_path.glob("bulkhead-*")), "its folder is removed, the door in it too"


# It cannot be.


@pytest.fixture
def tcp_target(tmp_path, root):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{unused.getsockname()[1]}"
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [SERVER, "--listen", target, "--ready-fd", str(child_end), "--root", root,
         "--cache-dir", tmp_path / "cache", "--workers", "1", "--insecure-tcp"],
        pass_fds=(child_end,), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(child_end)
    with os.fdopen(ready) as said:
        assert said.readline().startswith("ready")
    yield target
    process.terminate()
    process.wait(40)


def test_over_tcp_auto_takes_grpc_and_shm_is_an_error(client, tcp_target, folder):
    spec = range_spec(folder / "s.yaml")
    alone = {"BULKHEAD_SERVER": "/none"}  # without bulkhead-receive, which Python would take
    assert client.ok(spec, tcp_target, environment=alone, transport="auto")["digest"] == digest_of(range(20))
    error = client.error(spec, tcp_target, environment=alone, transport="shm")
    assert (error["code"], error["reason"]) == ("FAILED_PRECONDITION", "TRANSPORT_UNAVAILABLE")


def test_without_a_door_auto_takes_grpc_and_shm_is_an_error(client, own_service, folder):
    os.unlink(own_service.target[len("unix:") :] + ".arena")
    spec = range_spec(folder / "s.yaml")
    assert client.ok(spec, own_service.target, transport="auto")["digest"] == digest_of(range(20))
    error = client.error(spec, own_service.target, transport="shm")
    assert (error["code"], error["reason"]) == ("FAILED_PRECONDITION", "TRANSPORT_UNAVAILABLE")


# Losses.


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_a_stopped_service_is_a_typed_error_in_time(client, own_service, folder, transport):
    spec = range_spec(folder / "s.yaml", size=10**9)
    process = client.pausing(
        spec, own_service.target, pause_after=2, timeout=60, reconnect_deadline=2,
        transport=transport,
    )  # fmt: skip
    own_service.process.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    go_on(process)
    result = client.finish(process, timeout=50)
    own_service.process.send_signal(signal.SIGCONT)
    assert result["error"]["code"] == "UNAVAILABLE", result["error"]
    assert time.monotonic() - started < 40
    assert result["digest"] == digest_of(range(result["batches"] * 8)), "what came is whole"


def test_a_killed_client_gives_everything_back(client, own_service, folder):
    spec = range_spec(folder / "s.yaml", size=10**9)
    before = memory_files(own_service)
    for _ in range(5):
        process = client.pausing(spec, own_service.target, pause_after=3, transport="shm")
        assert memory_files(own_service) > before
        process.kill()
        process.communicate()
    assert eventually(lambda: not bulkhead.service_status(own_service.target)["streams"])
    assert eventually(lambda: memory_files(own_service) <= before)


# What only a program that keeps arrays can see; the C++ client's own tests do the same.


def test_a_held_batch_stays_as_it_was_while_a_hundred_others_come(service, folder):
    spec = range_spec(folder / "s.yaml", size=10**6)
    with bulkhead.Loader(spec, service.target, transport="shm", copy_below=0) as loader:
        kept = loader.next_batch()["index"]
        for _ in range(100):
            loader.next_batch()
        assert kept.tolist() == list(range(8))
    assert kept.tolist() == list(range(8)), "also after close"


def test_all_slots_held_is_an_error_and_no_hang(service, folder):
    spec = range_spec(folder / "s.yaml", size=10**6)
    with bulkhead.Loader(spec, service.target, transport="shm", credits=3, copy_below=0) as loader:
        kept = [loader.next_batch() for _ in range(3)]
        with pytest.raises(bulkhead.SlotsExhausted):
            loader.next_batch(timeout=1)
        kept.pop(0)
        assert loader.next_batch(timeout=30)["index"][0] == 24


def test_batches_held_across_reconnects(own_service, folder):
    spec = range_spec(folder / "s.yaml", size=10**6)
    options = {"transport": "shm", "timeout": 30, "copy_below": 0}
    with bulkhead.Loader(spec, own_service.target, **options) as loader:
        kept = [loader.next_batch()]
        for round_ in range(2):
            own_service.restart()
            while loader.reconnects == round_:
                batch = loader.next_batch()
            kept.append(batch)
        for batch in kept:
            first = 8 * batch.sequence
            assert batch["index"].tolist() == list(range(first, first + 8))
        assert loader.transport == "shm", "another service's memory is no obstacle"


def test_services_of_a_session_keep_no_arena(tmp_path, root, folder):
    service = Service(tmp_path, root)
    spec = range_spec(folder / "s.yaml", size=400)
    before = memory_files(service)
    for _ in range(10):
        with bulkhead.Loader(spec, service.target, transport="shm") as loader:
            for batch in loader:
                del batch
    assert eventually(lambda: memory_files(service) <= before)
    service.stop()
