"""What a service says beside its batches, and what both clients make of it; the service is a fake one."""

import sys

import pytest
from conftest import PYTHON_PACKAGE
from data import write_spec

sys.path[:0] = [str(PYTHON_PACKAGE / "tests")]
import fake_bulkheadd  # noqa: E402


@pytest.fixture(params=["grpc", "shm"])
def transport(request):
    return request.param


@pytest.fixture
def fake(tmp_path, transport):
    service, server, _ = fake_bulkheadd.serve(f"unix:{tmp_path}/s.sock", door=transport == "shm")
    service.target = f"unix:{tmp_path}/s.sock"
    yield service
    service.stopping.set()
    server.stop(None).wait(30)
    if service.door is not None:
        service.door.close()


def beats(tmp_path, silent, **more):
    beat = {"supervisor_silent": {"seconds": silent}}
    return write_spec(tmp_path / "s.json", samples=80, beat_after=2, beat=beat, **more)


def test_a_supervisor_that_answers_nothing_is_a_loss_and_healed(client, tmp_path, fake, transport):
    spec = beats(tmp_path, 12, beats=1)
    result = client.ok(spec, fake.target, transport=transport, silence_deadline=1)
    assert (result["batches"], result["samples"], result["reconnects"]) == (10, 80, 1)


def test_a_consumer_says_when_it_was_made_and_stays_itself(client, tmp_path, fake, transport):
    spec = beats(tmp_path, 12, beats=1)
    for _ in range(2):
        client.ok(spec, fake.target, transport=transport, silence_deadline=1)
    made = [(open.machine_boot, open.since_boot, open.incarnation) for open in fake.opens]
    [first, healed, *other] = made
    assert first == healed and len(first[0]) == 16 and 0 < first[1]
    # Of the same boot, and younger by both clocks.
    [(boot, since, wall)] = other
    assert boot == first[0] and since > first[1] and wall > first[2]


def test_without_healing_it_is_an_error(client, tmp_path, fake, transport):
    spec = beats(tmp_path, 12)
    error = client.error(
        spec, fake.target, transport=transport, silence_deadline=1, reconnect_deadline=0
    )
    assert (error["code"], error["reason"]) == ("UNAVAILABLE", "SERVICE_SILENT")
    assert f"{fake.target} says that its supervisor has been silent for " in error["message"]


def test_a_supervisor_that_was_silent_for_less_is_waited_for(client, tmp_path, fake, transport):
    spec = beats(tmp_path, 6)
    error = client.error(spec, fake.target, timeout=2, transport=transport, reconnect_deadline=0)
    assert error["reason"] == "DEADLINE_EXCEEDED" and "the workers" not in error["message"]


def test_a_deadline_says_what_the_workers_are_at(client, tmp_path, fake, transport):
    activity = "worker 0 has been at stages[1] python of a.tfrecord@7 for 21 s"
    spec = write_spec(tmp_path / "s.json", samples=80, beat_after=1, beat={"activity": activity})
    error = client.error(spec, fake.target, timeout=2, transport=transport)
    assert error["reason"] == "DEADLINE_EXCEEDED"
    assert error["message"].endswith(f"; activity of the workers: {activity}")


def test_a_hang_is_told(client, tmp_path, fake, transport):
    spec = write_spec(tmp_path / "s.json", samples=20, mode="hang")
    result = client.ok(spec, fake.target, transport=transport)
    assert (result["batches"], result["hangs"]) == (3, 1)


def test_lines_for_the_trainers_log_are_told(client, tmp_path, fake, transport):
    notes = [{"level": 3, "stage": "stages[1] python (a:b)", "text": "dark\n  | image"}, {"text": "1 worker died"}]
    spec = write_spec(tmp_path / "s.json", samples=20, notes=notes)
    result = client.ok(spec, fake.target, transport=transport)
    assert result["batches"] == 3
    assert result["notes"] == ["WARNING stages[1] python (a:b): dark\n  | image", "INFO 1 worker died"]


REFUSALS = ["BUDGET_EXCEEDED", "TOO_MANY_CALLS", "STORAGE_STALLED"]


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_while_healing_is_asked_again(client, tmp_path, fake, transport, reason):
    spec = write_spec(tmp_path / "s.json", samples=80, lose_after=3, refused=[2, 4], refused_reason=reason)
    result = client.ok(spec, fake.target, transport=transport)
    assert (result["batches"], result["reconnects"], len(fake.opens)) == (10, 1, 5)


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_that_stays_is_the_error_as_it_is(client, tmp_path, fake, transport, reason):
    spec = write_spec(tmp_path / "s.json", samples=80, lose_after=3, refused=[2, 1000], refused_reason=reason)
    error = client.error(spec, fake.target, transport=transport, reconnect_deadline=0.5)
    assert error == {
        "code": "RESOURCE_EXHAUSTED",
        "reason": reason,
        "message": "1 of 2 MiB are left",
        "metadata": {},
    }
    assert len(fake.opens) > 3


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_of_the_first_opening_is_an_error_at_once(client, tmp_path, fake, transport, reason):
    spec = write_spec(tmp_path / "s.json", refused=[1, 1000], refused_reason=reason)
    error = client.error(spec, fake.target, transport=transport)
    assert error["reason"] == reason and len(fake.opens) == 1


def test_an_opening_that_comes_too_soon_is_tried_again(client, tmp_path, fake, transport):
    spec = write_spec(tmp_path / "s.json", samples=80, refused=[1, 7], refused_reason="OPENED_TOO_OFTEN")
    result = client.ok(spec, fake.target, transport=transport)
    assert (result["batches"], len(fake.opens)) == (10, 8)


def test_openings_that_stay_refused_are_the_error_as_it_is(client, tmp_path, fake, transport):
    spec = write_spec(tmp_path / "s.json", refused=[1, 1000], refused_reason="OPENED_TOO_OFTEN")
    error = client.error(spec, fake.target, transport=transport, reconnect_deadline=0.5)
    assert error == {
        "code": "RESOURCE_EXHAUSTED",
        "reason": "OPENED_TOO_OFTEN",
        "message": "1 of 2 MiB are left",
        "metadata": {},
    }
    assert len(fake.opens) > 1


CODE = [{"name": 'augment/"r".py', "digest": "0123456789abcdef"}, {"name": "b.py", "digest": "aa"}]


def test_the_code_of_a_pipeline_goes_through_cursors(client, tmp_path, fake, transport):
    spec = write_spec(tmp_path / "s.json", samples=80, code=CODE)
    cursor = client.ok(spec, fake.target, batches=3, transport=transport)["cursor"]
    assert cursor["code"] == CODE
    rest = client.ok(spec, fake.target, cursor=cursor, transport=transport)
    assert rest["batches"] == 7 and rest["cursor"]["code"] == CODE
    assert [{"name": file.name, "digest": file.digest} for file in fake.opens[-1].cursor.code] == CODE


def test_code_that_is_loaded_later_is_in_the_cursors_from_then_on(client, tmp_path, fake, transport):
    late = {"name": "a/late.py", "digest": "bb", "later": True}
    spec = write_spec(tmp_path / "s.json", samples=80, code=CODE, code_later=[late], lose_after=3)
    assert client.ok(spec, fake.target, batches=1, transport=transport)["cursor"]["code"] == CODE
    fake.opens.clear()
    result = client.ok(spec, fake.target, batches=3, transport=transport)
    assert result["cursor"]["code"] == sorted([late, *CODE], key=lambda file: file["name"])
    # A lost stream is opened again with it, and what is told twice is there once.
    fake.opens.clear()
    result = client.ok(spec, fake.target, transport=transport)
    assert result["reconnects"] == 1 and result["samples"] == 80
    resumed = [(file.name, file.digest, file.later) for file in fake.opens[1].cursor.code]
    assert resumed.count(("a/late.py", "bb", True)) == 1 and len(resumed) == 3
    assert result["cursor"]["code"] == sorted([late, *CODE], key=lambda file: file["name"])
