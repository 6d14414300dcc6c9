"""What a stream notes while it is opened, and what it is told of samples."""

import logging
import types

import pytest

from bulkhead import Progress
from bulkhead._rpc import proto
from bulkhead._stream import opening
from bulkhead._stream.events import Events


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(opening, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def progress(done, eta=None):
    message = proto.StreamResponse(progress=dict(files_done=done, files_total=9)).progress
    if eta is not None:
        message.eta.FromMilliseconds(int(eta * 1000))
    return message


def test_only_progress_that_moves_is_time_of_preparation(clock):
    state = opening.Opening()
    clock.seconds += 3
    state.note(progress(1))
    assert state.seconds == 3
    clock.seconds += 4
    state.note(progress(1, eta=2.5))  # a new estimate is no step
    assert state.seconds == 3
    clock.seconds += 1
    state.done()
    assert state.seconds == 8


def test_the_newest_progress_is_told_once(clock):
    state = opening.Opening()
    state.note(progress(1))
    state.note(progress(2, eta=2.5))
    assert state.take() == Progress(2, 9, 0, 2.5, "")
    assert state.take() is None


def test_each_event_is_noted_and_logged_once(caplog):
    events = Events()
    with caplog.at_level(logging.WARNING, "bulkhead"):
        for _ in range(2):
            for event in (
                dict(kind=proto.KIND_SUBSTITUTED, epoch=1, position=3, substitute_position=4, message="bad@7"),
                dict(kind=proto.KIND_QUARANTINED, record="z@1"),
            ):
                events.note(proto.StreamResponse(event=event).event)
    assert [tuple(s) for s in events.substitutions] == [(1, 3, 4, "bad@7")]
    assert events.quarantined == {"z@1": ""} and len(caplog.records) == 2
