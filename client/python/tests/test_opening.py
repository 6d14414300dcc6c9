"""What a stream notes while it is opened, and what it is told of samples."""

import io
import logging
import sys
import types

import pytest

from bulkhead import Progress
from bulkhead._rpc import proto
from bulkhead._stream import line_limit, opening
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


@pytest.mark.parametrize("name", ["stderr", "stdout"])
def test_what_a_stage_prints_goes_to_stderr_and_nowhere_else(monkeypatch, name):
    """Also where the program has none."""
    log = logging.getLogger("bulkhead")
    monkeypatch.setattr(log, "level", logging.NOTSET)
    monkeypatch.setattr(log, "hasHandlers", lambda: False)
    monkeypatch.setattr(sys, "stderr", None)
    written = io.StringIO()
    monkeypatch.setattr(sys, name, written)
    Events().log_note(proto.StreamResponse(note=dict(stage="s", text="hello")).note)
    assert written.getvalue() == ("s: hello\n" if name == "stderr" else "")


def test_each_event_is_noted_and_logged_once(caplog):
    events = Events()
    with caplog.at_level(logging.DEBUG, "bulkhead"):
        for _ in range(2):
            for event in (
                dict(kind=proto.KIND_SUBSTITUTED, epoch=1, position=3, substitute_position=4, message="bad@7"),
                dict(kind=proto.KIND_QUARANTINED, record="z@1"),
            ):
                events.note(proto.StreamResponse(event=event).event)
    assert [tuple(s) for s in events.substitutions] == [(1, 3, 4, "bad@7")]
    assert events.quarantined == {"z@1": ""} and len(caplog.records) == 2


def note(text, stage="stages[0] python (a:b)", level=proto.LEVEL_WARNING):
    return proto.StreamResponse(note=dict(text=text, stage=stage, level=level)).note


def test_lines_of_a_stage_forge_none_and_hide_nothing(caplog):
    events = Events()
    with caplog.at_level(logging.INFO, "bulkhead"):
        events.log_note(note("a\n2026-11-23 ERROR forged\u202e\x1b[2J\r"))
        events.log_note(note("traced\n  | Traceback\n  | ValueError"))
        events.log_note(note("x" * 100000))
        events.note(
            proto.StreamResponse(
                event=dict(kind=proto.KIND_HUNG, epoch=0, position=1, message="f.py\u2066\n7")
            ).event
        )
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "stages[0] python (a:b): a\n  | 2026-11-23 ERROR forged\\u202e\\x1b[2J\\x0d"
    assert lines[1] == "stages[0] python (a:b): traced\n  | Traceback\n  | ValueError"
    assert len(lines[2]) == 2048
    assert lines[3] == "epoch 0, position 1: a worker hung and was ended: f.py\\u2066\n  | 7"


def test_a_service_that_floods_the_log_is_cut_short_and_counted(caplog):
    now = types.SimpleNamespace(seconds=0.0)
    events = Events()
    events._limit = line_limit.LineLimit(lambda: now.seconds)
    with caplog.at_level(logging.INFO, "bulkhead"):
        for number in range(1000):
            events.log_note(note(f"line {number}"))
        assert len(caplog.records) == line_limit.AT_ONCE
        now.seconds += 1.5 / line_limit.PER_SECOND
        for _ in range(2):
            events.note(
                proto.StreamResponse(event=dict(kind=proto.KIND_HUNG, position=len(caplog.records))).event
            )
    said = [record.getMessage() for record in caplog.records[line_limit.AT_ONCE :]]
    assert said[0] == "800 lines were left out here" and said[1].endswith("a worker hung and was ended: ")
    assert len(said) == 2 and len(events.hangs) == 2  # what is not logged is known all the same


def test_a_flood_that_goes_on_is_counted_once_a_minute(caplog):
    now = types.SimpleNamespace(seconds=0.0)
    events = Events()
    events._limit = line_limit.LineLimit(lambda: now.seconds)
    sent, seconds = 0, 150
    with caplog.at_level(logging.INFO, "bulkhead"):
        for _ in range(seconds * 10):
            now.seconds += 0.1
            for _ in range(20):
                events.log_note(note("a line"))
                sent += 1
        now.seconds += 100
        events.log_note(note("the last"))
    said = [record.getMessage() for record in caplog.records]
    counts = [int(text.split()[0]) for text in said if text.endswith("lines were left out here")]
    assert len(counts) == 4  # after 0, 60 and 120 s, and at the end
    assert sum(counts) + len(said) - len(counts) == sent + 1
