"""What heartbeats and events say, and what the loader makes of it."""

import pytest

import bulkhead
from bulkhead import errors
from bulkhead._adapters import ranks as ranks_module
from bulkhead._rpc import proto
from bulkhead._stream import silence
from bulkhead._stream import stream as stream_module


@pytest.fixture
def short_silence(monkeypatch):
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(silence, "TICK_SECONDS", 0.05)


def beats(silent, **more):
    return {"samples": 80, "beat_after": 2, "beat": {"supervisor_silent": {"seconds": silent}}, **more}


def test_a_supervisor_that_answers_nothing_is_a_loss_and_healed(fake, short_silence):
    loader = fake.open(**beats(12, beats=1))
    assert [int(batch["index"][0]) for batch in loader] == list(range(0, 80, 8))
    assert loader.reconnects == 1


def test_without_healing_it_is_an_error_that_says_how_long(fake, short_silence):
    loader = fake.open(**beats(12), loader={"reconnect_timeout": 0})
    loader.next_batch(), loader.next_batch()
    with pytest.raises(bulkhead.ServiceUnavailable, match="its supervisor has been silent") as caught:
        loader.next_batch()
    assert caught.value.reason == "SERVICE_SILENT"
    assert float(caught.value.metadata["silent_seconds"]) >= 1


def test_a_supervisor_that_was_silent_for_less_is_waited_for(fake, monkeypatch):
    monkeypatch.setattr(silence, "TICK_SECONDS", 0.05)
    loader = fake.open(**beats(6), loader={"reconnect_timeout": 0})
    loader.next_batch(), loader.next_batch()
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=1)


def test_each_stream_gives_a_silent_supervisor_the_whole_time(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(silence.time, "monotonic", lambda: clock[0])
    watch = silence.SilenceWatch(from_the_beginning=False)
    watch.told(50.0)
    clock[0] += 9
    assert watch.supervisor_seconds == 9
    clock[0] += 90
    assert watch.supervisor_seconds == 50
    watch.told(0.0)
    assert watch.supervisor_seconds == 0


def test_a_batch_outdates_what_heartbeats_said(fake):
    loader = fake.open(mode="stall")
    stream = loader._stream._stream
    stream._silence.told(50.0)
    stream._activity = "an old story"
    stream._deliver(proto.BatchHeader(sample_count=8, valid_count=8, next_consumed=8), {})
    assert (stream._silence.supervisor_seconds, stream._activity) == (0.0, "")


def test_a_deadline_says_what_the_workers_are_at(fake):
    activity = "worker 0 has been at stages[1] python of a.tfrecord@7 for 21 s"
    loader = fake.open(samples=80, beat_after=1, beat={"activity": activity})
    loader.next_batch()
    with pytest.raises(bulkhead.DeadlineExceeded) as caught:
        loader.next_batch(timeout=2)
    assert str(caught.value).endswith(f"within 2 s; activity of the workers: {activity}")


@pytest.mark.parametrize("beat_after", [0, 1])
def test_the_log_says_once_why_the_first_batch_takes_long(fake, caplog, monkeypatch, beat_after):
    monkeypatch.setattr(stream_module, "_LONG_WAIT", 0.5)
    loader = fake.open(samples=80, beat_after=beat_after, beat={"activity": "worker 0 has been starting for 21 s"})
    if beat_after:
        loader.next_batch()
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=3)  # several heartbeats
    told = caplog.text.count("the first batch takes more than 0.5 s: worker 0 has been starting for 21 s")
    assert told == (0 if beat_after else 1)


def test_a_stream_whose_workers_serve_others_is_logged_once(fake, caplog):
    loader = fake.open(samples=80, beat_after=1, beat={"idle": True})
    loader.next_batch()
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=2)  # several heartbeats
    assert caplog.text.count("lends this stream's workers to others until a batch is taken") == 1


def test_a_hang_is_logged_and_listed(fake, caplog):
    loader = fake.open(mode="hang")
    assert len(list(loader)) == 3
    assert loader.hangs == [bulkhead.Hang(0, 5, "f.py:7: sleep")]
    assert "epoch 0, position 5: a worker hung and was ended: f.py:7: sleep" in caplog.text


def test_a_refusal_while_healing_is_asked_again(fake):
    loader = fake.open(samples=80, lose_after=3, refused=[2, 3])
    assert [int(batch["index"][0]) for batch in loader] == list(range(0, 80, 8))
    assert loader.reconnects == 1 and len(fake.opens) == 4


def test_a_refusal_that_stays_is_raised_as_it_is(fake):
    loader = fake.open(
        samples=80, lose_after=3, refused=[2, 1000], loader={"reconnect_timeout": 2}
    )
    with pytest.raises(bulkhead.BudgetExceeded) as caught:
        list(loader)
    assert (caught.value.message, caught.value.code) == ("1 of 2 MiB are left", "RESOURCE_EXHAUSTED")
    assert len(fake.opens) > 2, "it was tried again"


def test_a_refusal_of_the_first_opening_is_an_error_at_once(fake):
    with pytest.raises(bulkhead.BudgetExceeded):
        fake.open(refused=[1, 1000])
    assert len(fake.opens) == 1


def test_refusals_do_not_count_as_deaths_of_an_embedded_service(fake_program):
    spec = {"samples": 80, "lose_after": 3, "refused": [2, 9]}
    with bulkhead.Loader(spec, timeout=60) as loader:
        assert [int(batch["index"][0]) for batch in loader] == list(range(0, 80, 8))


CODE = [{"name": "augment/rotate.py", "digest": "0123456789abcdef"}, {"name": "b.py", "digest": "aa"}]


def test_the_code_of_a_pipeline_is_in_its_cursors(fake):
    loader = fake.open(samples=80, code=CODE)
    assert loader.state_dict()["code"] == CODE
    state = loader.next_batch().cursor
    assert state["code"] == CODE == loader.state_dict()["code"]
    state["code"][0]["digest"] = "changed"
    assert loader.state_dict()["code"] == CODE, "a state is the caller's own"
    again = fake.open(samples=80, code=CODE, loader={"cursor": loader.state_dict()})
    assert [dict(name=f.name, digest=f.digest) for f in fake.opens[-1].cursor.code] == CODE
    assert again.state_dict() == loader.state_dict()


LATE = {"name": "a.py", "digest": "cc", "later": True}


def test_code_that_is_loaded_later_joins_the_cursor_with_its_batch(fake):
    loader = fake.open(samples=80, code=CODE, code_later=[LATE])
    batches = loader.stream()
    assert next(batches).cursor["code"] == CODE == loader.state_dict()["code"]
    assert next(batches).cursor["code"] == [LATE, *CODE] == loader.state_dict()["code"]
    assert next(batches).cursor["code"] == [LATE, *CODE]
    fake.open(samples=80, code=CODE, loader={"cursor": loader.state_dict()})
    assert [file.later for file in fake.opens[-1].cursor.code] == [True, False, False]


def test_code_of_an_unordered_stream_joins_whichever_batch_tells_of_it(fake):
    loader = fake.open(samples=80, reverse=3, code_later=[LATE])
    assert ["code" in batch.cursor for batch in loader] == [False] + 9 * [True]


def test_a_cursor_without_code_has_no_such_member(fake):
    assert "code" not in fake.open().next_batch().cursor


@pytest.mark.parametrize("code", [5, ["a.py"], [{"file": "a.py"}]])
def test_a_cursor_whose_code_is_no_code_is_refused(fake, code):
    state = {**fake.open().state_dict(), "code": code}
    with pytest.raises(bulkhead.InvalidArgument, match="not one that a batch gave"):
        fake.open(loader={"cursor": state})


def test_ranks_that_run_other_code_are_told_the_file(fake):
    mine = fake.open(code=CODE).state_dict()
    other = {**mine, "code": [CODE[0], {"name": "b.py", "digest": "bb"}]}
    ranks = [ranks_module.Standing(cursor, "", {}) for cursor in (mine, other)]
    with pytest.raises(bulkhead.CursorMismatch, match="rank 1 has code of b.py 'bb', rank 0 has 'aa'"):
        ranks_module._common_cursor(ranks)
    assert ranks_module._common_cursor([ranks[0], ranks[0]]) == mine


def test_ranks_may_have_loaded_more_or_less_of_the_code(fake):
    mine = fake.open(code=CODE).state_dict()
    later = {**mine, "code": [LATE, *CODE]}
    other = {**mine, "code": [{**LATE, "digest": "dd"}, *CODE]}

    def common(*cursors):
        return ranks_module._common_cursor([ranks_module.Standing(cursor, "", {}) for cursor in cursors])

    assert common(mine, later, mine) == common(later, mine) == later
    with pytest.raises(bulkhead.CursorMismatch, match="rank 1 has code of a.py 'dd', rank 0 has 'cc'"):
        common(later, other)


@pytest.mark.parametrize(
    "reason,expected",
    [
        ("CODE_CHANGED", bulkhead.CodeChanged),
        ("STREAM_IDLE", bulkhead.StreamIdle),
        ("STORAGE_STALLED", bulkhead.DataError),
    ],
)
def test_reasons_have_classes(reason, expected):
    assert errors._class_of(reason, "UNAVAILABLE") is expected
