"""A record at which a Python stage hangs: who is told of it, and that the training goes on without it."""

import pathlib
import re
import threading

import grpc
import pytest

import bulkhead
from bulkhead._rpc import proto
from conftest import HERE, PYTHON, Service, error_of
from python_stages import number, over_range


@pytest.fixture
def start(folder):
    """Starts services that allow user_functions.py."""
    started = []

    def start_one(*options):
        started.append(Service(folder, "--root", folder, "--python", PYTHON, "--python-path", HERE, *options))
        return started[-1]

    yield start_one
    for service in started:
        service.stop()


def hanging(folder, at):
    return over_range(
        folder, "hangs", [number("label")], size=24, batch=8, order="sequential",
        errors={"policy": "substitute", "max_fraction": 0.5}, stage={"arguments": {"at": at}},
    )


def responses(service, spec):
    """What the service says of a stream whose batches nobody gives back, one after another."""
    request = proto.StreamRequest()
    request.open.name = "test"
    request.open.transport = proto.TRANSPORT_GRPC
    request.open.spec.text.text = pathlib.Path(spec).read_text()
    request.open.spec.text.name = str(spec)
    with grpc.insecure_channel(service.target) as channel:
        call = channel.stream_stream(
            "/bulkhead.v1.Loader/Stream",
            request_serializer=proto.StreamRequest.SerializeToString,
            response_deserializer=proto.StreamResponse.FromString,
        )
        enough = threading.Event()

        def requests():
            yield request
            enough.wait()  # closing this side would end the stream

        try:
            yield from call(requests(), timeout=120)
        finally:
            enough.set()


def test_it_is_told_with_its_stack_and_quarantined(folder, start):
    service = start("--workers", 2, "--worker-hang-timeout", 1)
    spec = hanging(folder, at=11)
    hung, quarantined = [], []
    for response in responses(service, spec):
        if response.WhichOneof("response") == "event":
            (hung if response.event.kind == 3 else quarantined).append(response.event)
        if response.event.kind == 1:  # its substitution: the batch is there
            break
    # Once in company, unless its worker held nothing else, then three times alone.
    assert len(hung) in (3, 4)
    assert {(event.record, event.position, event.epoch) for event in hung} == {("range@11", 11, 0)}
    for event in hung:
        assert "stages[0] python (user_functions:hangs) of range@11" in event.message
        assert f"{HERE}/user_functions.py" in event.message
        assert "in _wait_for_ever; called from" in event.message and "in hangs" in event.message
    assert [event.record for event in quarantined[:1]] == ["range@11"]
    reasons = [end["reason"] for end in bulkhead.service_status(service.target)["recent_exits"]]
    assert sum("no progress for 1s; Python was at" in reason for reason in reasons) == len(hung)
    log = (folder / "service.log").read_text()
    assert "_wait_for_ever" in log and "range@11" in log


def test_while_it_hangs_heartbeats_say_what_the_workers_are_at(folder, start):
    service = start("--workers", 2)
    for response in responses(service, hanging(folder, at=3)):
        activity = response.heartbeat.activity
        if activity:
            break
    assert "has been at stages[0] python (user_functions:hangs) of range@3 for " in activity


def crashing(folder, at):
    return over_range(folder, "crashes", [number("label")], size=24, batch=8, order="sequential",
                      errors={"policy": "substitute", "max_fraction": 0.5}, stage={"arguments": {"at": at}})


def test_a_crash_names_the_function_and_its_line(folder, start):
    service = start("--workers", 2)
    with bulkhead.Loader(crashing(folder, at=11), service.target, timeout=120) as loader:
        labels = [int(label) for batch in loader for label in batch["label"]]
    assert labels == [*range(11), 12, *range(12, 24)]
    for text in [end["reason"] for end in bulkhead.service_status(service.target)["recent_exits"]]:
        assert re.search(rf"\(Python was at .*; called from {HERE}/user_functions.py:\d+ in crashes\)", text), text
    assert "in stages[0] python (user_functions:crashes) at position 11 of epoch 0" in (folder / "service.log").read_text()


def test_code_that_ends_workers_at_every_record_is_to_blame_and_not_the_records(folder, start):
    service = start("--workers", 2)
    error = error_of(service, crashing(folder, at=-1))
    assert error.reason == "WORKER_CRASH_LOOP"
    assert "3 different records ended 3 workers each in stages[0] python (user_functions:crashes)" in str(error)
    assert "bulkhead.try_stage" in str(error)


def test_threads_that_wait_for_the_interpreter_do_not_hang(folder, start):
    service = start("--workers", 1, "--threads", 4, "--worker-hang-timeout", 3)
    spec = over_range(folder, "takes_a_second", [number("label")], size=8, batch=1)
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        labels = sorted(int(batch["label"][0]) for batch in loader)
    assert labels == list(range(8))
    assert bulkhead.service_status(service.target).get("recent_exits", []) == []
