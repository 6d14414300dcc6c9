"""A system that gives no more threads costs a typed error, and the loader goes on when it gives some again."""

import os
import tempfile
import threading

import bulkhead
import pytest
from bulkhead._service import service_process
from bulkhead._stream import healing


@pytest.fixture
def refuse(monkeypatch):
    """`refuse(name)`: the next thread of that name is not started."""
    refused = []
    start = threading.Thread.start

    def start_or_refuse(thread):
        if thread.name in refused:
            refused.remove(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_refuse)
    yield refused.append
    assert not refused, "that thread was never asked for"


@pytest.fixture
def runtime(monkeypatch):
    """An empty $XDG_RUNTIME_DIR with a short name."""
    with tempfile.TemporaryDirectory(prefix="bh", dir="/tmp") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield path


@pytest.mark.parametrize("shared", [False, True])
def test_a_service_without_a_thread_for_it_is_ended(fake_program, runtime, refuse, monkeypatch, shared):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    if shared:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "threads")
    started = []
    start = service_process.start
    monkeypatch.setattr(
        service_process, "start", lambda *arguments: started.append(start(*arguments)) or started[-1]
    )
    refuse("bulkhead-service" if shared else "bulkhead-stderr")
    with pytest.raises(bulkhead.OutOfThreads, match="the embedded service cannot be"):
        bulkhead.Loader({}, timeout=30)
    [(process, _)] = started
    assert process.returncode == -9
    assert os.listdir(runtime) == []
    with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
        assert len(list(loader)) == 1


@pytest.mark.parametrize("name, words", [("bulkhead-call", "a call cannot be made"), ("bulkhead-reader", "cannot read its stream")])
def test_opening_without_a_thread(fake, refuse, name, words):
    refuse(name)
    with pytest.raises(bulkhead.OutOfThreads, match=words):
        fake.open(samples=80)
    assert fake.open(samples=80).next_batch() is not None


def test_reconnecting_is_tried_again(fake, refuse):
    loader = fake.open(samples=80, lose_after=4)
    values = [loader.next_batch().sequence for _ in range(4)]
    refuse("bulkhead-reconnect")
    with pytest.raises(bulkhead.OutOfThreads, match="cannot reconnect"):
        while True:
            values.append(loader.next_batch().sequence)
    values += [loader.next_batch().sequence for _ in range(10 - len(values))]
    assert values == list(range(10)) and loader.reconnects == 1


def test_a_reconnection_without_a_reader_is_tried_again(fake, refuse):
    loader = fake.open(samples=80, lose_after=4)
    refuse("bulkhead-reader")
    assert [loader.next_batch().sequence for _ in range(10)] == list(range(10))
    assert loader.reconnects == 1


@pytest.mark.parametrize("started", [False, True])
def test_an_interrupt_while_the_reconnecting_thread_starts_costs_nothing(fake, monkeypatch, started):
    loader = fake.open(samples=80, lose_after=4)
    values = [loader.next_batch().sequence for _ in range(4)]
    start = threading.Thread.start

    def interrupted(thread):
        if thread.name == "bulkhead-reconnect":
            monkeypatch.undo()
            if started:
                start(thread)
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        while True:
            values.append(loader.next_batch().sequence)
    values += [loader.next_batch().sequence for _ in range(10 - len(values))]
    assert values == list(range(10)) and loader.reconnects == 1


def test_closing_does_not_wait_for_ever_for_a_lock_that_an_interrupt_left_locked(fake, monkeypatch):
    monkeypatch.setattr(healing, "_HEALER_END_SECONDS", 0.1)
    loader = fake.open(samples=10**6)
    fake.server.stop(None).wait(30)
    with pytest.raises(bulkhead.DeadlineExceeded, match="is being reconnected"):
        while True:
            loader.next_batch(timeout=0.5)
    healer = loader._stream._healer
    with loader._stream._changed:  # as an interrupt right after the acquisition leaves it
        loader.close()
        assert healer.is_alive()
    healer.join(30)
    assert not healer.is_alive()
