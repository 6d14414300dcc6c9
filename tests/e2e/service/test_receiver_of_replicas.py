"""Several replicas on other hosts: one bulkhead-receive for all."""

import os
import signal

import numpy as np
import pytest
from receiving import PROGRAM, programs, receivers, serve  # noqa: F401  (programs and serve are fixtures)
from replicas import history, history_of, range_spec, targets

import bulkhead
from bulkhead import errors
from bulkhead._fleet import fleet_stream
from bulkhead._service.receiver import Receivers
from bulkhead._stream import silence


@pytest.fixture
def fleet(serve):
    return [serve() for _ in range(3)]


@pytest.fixture
def stream_of(folder, fleet):
    """stream_of(**options): a loader over the fleet's shared memory, and what its whole stream has to be."""

    def start(**options):
        spec = range_spec(folder, size=1600)
        expected = history(spec, fleet[0].target, transport="grpc")
        loader = bulkhead.Loader(spec, targets(fleet), timeout=60, copy_below=0, **options)
        assert loader.transport == "shm" and f"{PROGRAM} (pid {receivers()[0]})" in loader.transport_reason
        return loader, expected

    return start


@pytest.mark.parametrize("transport", ["auto", "shm"])
def test_replicas_have_one_receiver(stream_of, transport):
    loader, expected = stream_of(transport=transport)
    with loader:
        assert [history_of(batch) for batch in loader.stream()] == expected
        assert len(receivers()) == 1 and loader.transport == "shm"
    assert not receivers()


def test_a_trainer_of_several_replicas_may_keep_all_batches(stream_of):
    """Where one service would say SLOTS_EXHAUSTED, it gets copies: the batches of others are behind one that waits for a slot."""
    loader, expected = stream_of(credits=1)
    with loader:
        kept = []
        for batch in loader.stream():
            kept.append((batch["index"], batch["index"].copy()))
            assert history_of(batch) == expected[len(kept) - 1]
        assert len(kept) == len(expected) and 0 < loader.held_slots < len(kept) / 2
        for array, before in kept:
            np.testing.assert_array_equal(array, before)


def test_replicas_with_fewer_slots_than_may_be_asked_for(stream_of, fleet, serve, monkeypatch):
    """As when many join: what waits for its turn gives way to the batch that all wait for."""
    monkeypatch.setattr(fleet_stream, "_SLOTS_TO_KEEP", -10)
    loader, expected = stream_of(credits=6)  # a window of 12
    with loader:
        seen, kept = [], []
        for number in range(len(expected)):
            batch = loader.next_batch()
            seen.append(history_of(batch))
            kept = [*kept[-6:], (batch["index"], batch["index"].copy())]
            if number % 40 == 20:
                fleet[1].kill()
            if number % 40 == 39:
                fleet[1] = fleet[1].again()
                serve.also(fleet[1])
            for array, before in kept:
                np.testing.assert_array_equal(array, before)
        assert seen == expected and loader.transport == "shm"


def test_a_killed_receiver_of_several_replicas_is_replaced(stream_of):
    loader, expected = stream_of()
    with loader:
        seen, kept = [], []
        for batch in loader.stream():
            seen.append(history_of(batch))
            if len(seen) in (30, 200):
                kept.append((batch["index"], batch["index"].copy()))
                [first] = receivers()
                os.kill(first, signal.SIGKILL)
        assert seen == expected and receivers() != [first] and loader.transport == "shm"
        for array, before in kept:
            np.testing.assert_array_equal(array, before)


@pytest.mark.waits
def test_a_stopped_receiver_of_several_replicas_is_replaced(stream_of, monkeypatch):
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 3.0)
    loader, expected = stream_of()
    with loader:
        seen = [history_of(loader.next_batch()) for _ in range(30)]
        [stopped] = receivers()
        os.kill(stopped, signal.SIGSTOP)
        seen += [history_of(batch) for batch in loader.stream()]
        assert seen == expected and stopped not in receivers()


def test_receiver_and_replicas_killed(stream_of, fleet, serve):
    loader, expected = stream_of()
    with loader:
        seen = [history_of(loader.next_batch()) for _ in range(30)]
        for replica in fleet[:2]:
            replica.kill()
        os.kill(receivers()[0], signal.SIGKILL)
        seen += [history_of(loader.next_batch()) for _ in range(30)]
        for replica in fleet[:2]:
            serve.also(replica.again())
        seen += [history_of(batch) for batch in loader.stream()]
        assert seen == expected and loader.transport == "shm" and len(receivers()) == 1


def test_replicas_behind_a_receiver_that_dies_again_and_again(stream_of, monkeypatch):
    monkeypatch.setattr(Receivers, "brought_batch", lambda self: None)
    loader, expected = stream_of()
    with loader:
        seen = []
        while loader.transport == "shm" and len(seen) < 180:
            os.kill(receivers()[0], signal.SIGKILL)
            seen += [history_of(loader.next_batch()) for _ in range(60)]
        assert loader.transport == "grpc" and "killed by signal 9" in loader.transport_reason and not receivers()
        assert seen + [history_of(batch) for batch in loader.stream()] == expected


def test_replicas_without_the_program(folder, fleet, programs):
    with bulkhead.Loader(range_spec(folder), targets(fleet), timeout=60) as loader:
        assert loader.transport == "grpc" and f"there is no {PROGRAM}" in loader.transport_reason
        assert len(list(loader.stream())) == 100
    with pytest.raises(errors.TransportUnavailable, match=f"there is no {PROGRAM}"):
        bulkhead.Loader(range_spec(folder), targets(fleet), timeout=60, transport="shm")
