"""A service that says nothing is lost, however its connection looks."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import types

import pytest

import bulkhead
import fake_bulkheadd
from bulkhead._service.endpoint import Endpoint
from bulkhead._stream import silence, stream as stream_module, transport
from bulkhead._stream.healing import HealingStream


@pytest.fixture
def short_silence(monkeypatch):
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 1.0)


@pytest.fixture
def program(tmp_path):
    """The fake service as a process of its own, which a test may stop."""
    target = f"unix:{tmp_path}/p.sock"
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, fake_bulkheadd.__file__, "--embedded", "--watch-pid", str(os.getpid()),
         "--listen", target, "--ready-fd", str(child_end)],
        pass_fds=(child_end,),
    )
    os.close(child_end)
    with os.fdopen(ready) as said:
        assert said.readline().startswith("ready")
    process.target = target
    yield process
    process.kill()
    process.wait()


def test_heartbeats_are_enough(fake, short_silence):
    loader = fake.open(mode="stall")
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=2.5)
    assert loader.reconnects == 0


def test_silence_in_mid_stream_is_a_loss_that_says_whose_and_how_long(fake, short_silence):
    loader = fake.open(samples=80, mute_after=2, loader={"reconnect_timeout": 0})
    loader.next_batch()
    loader.next_batch()
    fake.muted.set()
    for _ in range(2):
        with pytest.raises(bulkhead.ServiceUnavailable) as caught:
            loader.next_batch()
        assert caught.value.reason == "SERVICE_SILENT"
        assert loader.target in str(caught.value) and "has said nothing for 1" in str(caught.value)
        assert caught.value.metadata["target"] == loader.target
        loader._stream._stream._reader.join(10)  # what ends it afterwards does not hide the cause


def test_silence_is_healed_like_any_loss(fake, short_silence):
    loader = fake.open(samples=80, mute_after=2)
    values = [int(loader.next_batch()["index"][0]) for _ in range(2)]
    fake.muted.set()  # and so, two batches later, are all the streams that follow
    values += [int(loader.next_batch()["index"][0]) for _ in range(8)]
    assert values == list(range(0, 80, 8))
    assert loader.reconnects >= 3


def test_short_waits_add_up_to_silence(fake, short_silence):
    loader = fake.open(samples=80, mute_after=1, loader={"reconnect_timeout": 0})
    loader.next_batch()
    fake.muted.set()
    with pytest.raises(bulkhead.ServiceUnavailable):
        for _ in range(100):
            try:
                loader.next_batch(timeout=0.05)
            except bulkhead.DeadlineExceeded:
                pass


def test_a_service_that_never_said_a_word_meets_the_deadline_instead(fake, short_silence):
    with pytest.raises(bulkhead.DeadlineExceeded, match="1.5 s while opening"):
        fake.open(mode="silent", loader={"timeout": 1.5})


@pytest.mark.parametrize(
    "reconnect,reason,tried", [(0, "SERVICE_SILENT", False), (1, "SERVICE_UNAVAILABLE", True)]
)
def test_silence_while_it_prepares(fake, short_silence, reconnect, reason, tried):
    with pytest.raises(bulkhead.ServiceUnavailable) as caught:
        fake.open(
            progress=2, progress_seconds=5, loader={"timeout": 30, "reconnect_timeout": reconnect}
        )
    assert caught.value.reason == reason and ("tried to reconnect" in str(caught.value)) == tried


def test_a_trainer_that_was_suspended_does_not_blame_its_service(fake, monkeypatch):
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 2.0)
    slept = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + slept[0])
    loader = fake.open(mode="stall", loader={"reconnect_timeout": 0})
    fake.muted.set()  # suspended, the trainer hears nothing either
    monkeypatch.setattr(stream_module, "time", clock)
    wakes = threading.Timer(0.1, slept.__setitem__, [0, 1000.0])
    wakes.start()
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=100)
    fake.muted.clear()
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=0.5)


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_a_stopped_service_is_one_typed_error_within_the_deadline(program, short_silence, transport):
    with bulkhead.Loader(
        json.dumps({"samples": 10**6}), program.target, transport=transport, timeout=60,
        reconnect_timeout=4,
    ) as loader:
        loader.next_batch()
        program.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(bulkhead.ServiceUnavailable, match="tried to reconnect for"):
            while True:
                loader.next_batch()
        assert time.monotonic() - started < 20
        with pytest.raises(bulkhead.ServiceUnavailable):
            loader.next_batch()


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_a_service_that_goes_on_is_found_again(program, short_silence, transport):
    with bulkhead.Loader(
        json.dumps({"samples": 4000}), program.target, transport=transport, timeout=60
    ) as loader:
        values = [int(loader.next_batch()["index"][0])]
        program.send_signal(signal.SIGSTOP)
        goes_on = threading.Timer(2.5, program.send_signal, [signal.SIGCONT])
        goes_on.start()
        values += [int(batch["index"][0]) for batch in loader]
        goes_on.join()
        assert values == list(range(0, 4000, 8))
        assert loader.reconnects >= 1 and loader.transport == transport


def test_a_stopped_embedded_service_is_replaced(fake_program, short_silence):
    with bulkhead.Loader({"samples": 4000}, timeout=60) as loader:
        values = [int(loader.next_batch()["index"][0])]
        old = loader._endpoint.service
        os.kill(old.pid, signal.SIGSTOP)
        values += [int(batch["index"][0]) for batch in loader]
        assert values == list(range(0, 4000, 8))
        assert loader.reconnects == 1 and not old.alive()
        assert loader._endpoint.service.pid != old.pid


def test_a_stopped_service_is_killed_once_and_not_its_successor(fake_program, short_silence, monkeypatch):
    killed, attempts = [], []
    kill, reconnect = Endpoint.kill, HealingStream._reconnect

    def counted(endpoint):
        killed.append(endpoint.service.pid)
        kill(endpoint)

    def unusable_at_first(stream, *arguments):
        attempts.append(1)
        healed = reconnect(stream, *arguments)
        if len(attempts) == 1:
            raise transport.UnusableArena("no room for it")
        return healed

    monkeypatch.setattr(Endpoint, "kill", counted)
    monkeypatch.setattr(HealingStream, "_reconnect", unusable_at_first)
    with bulkhead.Loader({"samples": 4000}, timeout=60) as loader:
        values = [int(loader.next_batch()["index"][0])]
        old = loader._endpoint.service.pid
        os.kill(old, signal.SIGSTOP)
        values += [int(batch["index"][0]) for batch in loader]
        assert values == list(range(0, 4000, 8))
        assert len(attempts) == 2 and killed == [old]


def test_close_does_not_wait_for_a_stopped_embedded_service(fake_program):
    loader = bulkhead.Loader({"samples": 4000}, timeout=60)
    os.kill(loader._endpoint.service.pid, signal.SIGSTOP)
    started = time.monotonic()
    loader.close()
    assert time.monotonic() - started < 8
