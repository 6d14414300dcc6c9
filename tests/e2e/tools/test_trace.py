"""`bulkhead trace`: what a service did, on one time line, in the Trace Event Format."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import bulkhead
from conftest import BIN, HERE, PYTHON, Service, tool, write_spec

SLOW = "stages[1] fault"
BATCH, LEASE = 32, 16  # samples


def slow_spec(folder, seconds=0.002):
    stages = [{"one_hot": {"input": "index", "classes": 10_000}}, *([{"fault": {"slow": seconds}}] if seconds else [])]
    return write_spec(folder / "s.json", source={"range": {"size": 10_000}}, stages=stages, batch={"size": BATCH})


@contextlib.contextmanager
def training(spec, target, pause=0.0, **options):
    """A trainer that takes batches, and computes for a while on each, until the block is left."""
    stop, error = threading.Event(), []

    def train():
        try:
            with bulkhead.Loader(spec, target, **options) as loader:
                for _batch in loader.stream():
                    running.set()
                    if stop.wait(pause):
                        return
        except Exception as raised:  # noqa: BLE001
            error.append(raised)
            running.set()

    running = threading.Event()
    thread = threading.Thread(target=train)
    thread.start()
    assert running.wait(60)
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not error, error


def traced(service, out, *words, code=0):
    said = tool("trace", "--target", service.target, "--out", out, *words, code=code)
    return said, json.loads(out.read_text())


def check_format(trace):
    """What the Trace Event Format asks of its JSON objects, and of complete, instant and metadata events."""
    assert trace["displayTimeUnit"] in ("ms", "ns")
    assert trace["otherData"]["dropped_events"] == 0
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and event["name"]
        assert type(event["pid"]) is int and type(event["tid"]) is int
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert set(event["args"]) <= {"name", "sort_index"}
            assert event["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
            continue
        assert event["ph"] in ("X", "i")
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0 and isinstance(event["cat"], str)
        else:
            assert event["s"] in ("g", "p", "t")


def nanos(micros):
    return round(micros * 1000)


def check_nesting(events):
    """Spans of a thread lie in each other or beside each other."""
    threads = collections.defaultdict(list)
    for event in events:
        begin = nanos(event["ts"])
        threads[event["pid"], event["tid"]].append((begin, -nanos(event["dur"]), event))
    for spans in threads.values():
        open_ends = []
        for begin, minus, event in sorted(spans, key=lambda span: span[:2]):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or begin - minus <= open_ends[-1], event
            open_ends.append(begin - minus)


def by_category(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def within(inner, outer):
    return (inner["pid"], inner["tid"]) == (outer["pid"], outer["tid"]) and nanos(outer["ts"]) <= nanos(
        inner["ts"]
    ) and nanos(inner["ts"]) + nanos(inner["dur"]) <= nanos(outer["ts"]) + nanos(outer["dur"])


def finished(events, end):
    """Those that began and ended in the trace."""
    return [
        event for event in events
        if event["ts"] > 0 and event["ts"] + event["dur"] < end and "unfinished" not in event["args"]
    ]


def test_a_trace_has_every_lease_and_stage_once_and_the_slow_stage_is_the_longest(folder):
    service = Service(folder, "--workers", "2", "--threads", "2", "--allow-fault-stages")
    try:
        with training(slow_spec(folder), service.target, name="train"):
            said, trace = traced(service, folder / "t.json", "--seconds", "1.5")
    finally:
        service.stop()
    check_format(trace)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    check_nesting(spans)
    end = max(event["ts"] + event["dur"] for event in spans)
    leases = [event for event in by_category(trace, "lease") if event["name"] == "lease"]
    numbers = collections.Counter(event["args"]["lease"] for event in leases)
    assert set(numbers.values()) == {1}, "every lease once"
    held = {event["args"]["lease"]: event for event in finished(by_category(trace, "lease held"), end - 100_000)}
    # Those that a worker had when the trace began, it may have finished just before; and it notes one just after it reports
    # it, which the trace's end may come before.
    missing = {number: event for number, event in held.items() if event["ts"] > 50_000 and number not in numbers}
    assert missing == {}, "and none is missing"
    # A worker learns a moment after the trace began that it shall note its stages.
    whole = [lease for lease in finished(leases, end) if lease["ts"] > 50_000]
    assert len(whole) > 50
    samples, stages = by_category(trace, "sample"), by_category(trace, "stage")
    for lease in whole[:20]:
        inside = [sample for sample in samples if sample["args"]["lease"] == lease["args"]["lease"]]
        assert len(inside) == LEASE and all(within(sample, lease) for sample in inside)
        assert len({sample["args"]["position"] for sample in inside}) == LEASE
        for sample in inside[:3]:
            at = [stage["name"] for stage in stages if within(stage, sample)]
            assert sorted(at) == sorted(["source", "stages[0] one_hot", SLOW])
    total = collections.Counter()
    for stage in stages:
        total[stage["name"]] += stage["dur"]
    assert total.most_common(1)[0][0] == SLOW
    assert max(finished(stages, end), key=lambda stage: stage["dur"])["name"] == SLOW
    # The supervisor's view agrees: a worker's thread works on a lease while the worker holds it.
    for lease in whole:
        if (given := held.get(lease["args"]["lease"])) is not None:
            assert given["ts"] <= lease["ts"] <= given["ts"] + given["dur"]
    # Two leases make a batch, which goes from the workers to the client and back.
    batches = finished([event for event in by_category(trace, "batch") if event["name"] == "batch"], end)
    assert len(batches) > 20
    for batch in batches[8:12]:
        number = batch["args"]["batch"]
        assert sum(lease["args"].get("batch") == number for lease in leases) == BATCH // LEASE
        phases = [e for e in by_category(trace, "batch") if e["args"]["batch"] == number and e is not batch]
        assert [phase["name"] for phase in sorted(phases, key=lambda phase: phase["ts"])] == [
            "is made", "is ready", "is with the client"]
        assert sum(nanos(phase["dur"]) for phase in phases) == nanos(batch["dur"])
    # The trainer is fast: it waits for the workers.
    waits = sum(e["dur"] for e in by_category(trace, "client") if e["name"] == "waits for a batch")
    assert waits > 0.5 * end
    assert f"\n  {SLOW} " in said and "1 stream and 2 workers" in said
    assert "https://ui.perfetto.dev" in said


def test_a_slow_trainer_holds_batches_while_workers_wait(folder):
    service = Service(folder, "--workers", "1", "--allow-fault-stages")
    try:
        with training(slow_spec(folder, seconds=0), service.target, pause=0.1, name="train", transport="grpc"):
            time.sleep(0.5)  # until its queue is full
            _said, trace = traced(service, folder / "t.json", "--seconds", "1")
    finally:
        service.stop()
    check_format(trace)
    end = 1e6
    has_all = sum(e["dur"] for e in by_category(trace, "client") if e["name"] == "has all that it may hold")
    assert has_all > 0.8 * end
    waits = sum(e["dur"] for e in by_category(trace, "wait") if e["name"] == "waits for a lease")
    assert waits > 0.5 * end
    held = [e for e in by_category(trace, "batch") if e["name"] == "is with the client"]
    assert held, "also a copy is the client's until its release"


def test_only_the_batches_and_streams_that_were_asked_for(folder):
    service = Service(folder, "--workers", "1", "--allow-fault-stages")
    spec = slow_spec(folder)
    try:
        with training(spec, service.target, name="train"), training(spec, service.target, name="valid"):
            _said, trace = traced(service, folder / "t.json", "--seconds", "1", "--stream", "valid")
            processes = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
            assert {name for name in processes if name.startswith("stream ")} == {"stream valid, rank 0"}
            assert by_category(trace, "lease")
            [valid] = [s for s in bulkhead.service_status(service.target)["streams"] if s["name"] == "valid"]
            first = valid["batches_sent"] + 20
            began = time.monotonic()
            _said, trace = traced(
                service, folder / "b.json", "--seconds", "30", "--stream", "valid", "--batch", f"{first}-{first + 1}")
            assert time.monotonic() - began < 20, "it ends with them"
            assert "no stream else was open meanwhile" in tool(
                "trace", "--target", service.target, "--out", folder / "n.json", "--seconds", "0.1", "--stream", "else",
                code=1)
            assert not (folder / "n.json").exists(), "an older trace stays"
    finally:
        service.stop()
    check_format(trace)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    check_nesting(spans)
    assert {e["args"]["batch"] for e in spans if "batch" in e["args"]} == {first, first + 1}
    assert len(by_category(trace, "lease")) == 2 * BATCH // LEASE
    assert len(by_category(trace, "sample")) == 2 * BATCH


def test_the_workers_of_another_pipeline_are_not_counted(folder):
    service = Service(folder, "--workers", "1", "--allow-fault-stages")
    (folder / "other").mkdir()
    try:
        with bulkhead.Loader(slow_spec(folder / "other", seconds=0.001), service.target, name="other") as other:
            other.next_batch()
            with training(slow_spec(folder), service.target, name="train"):
                said = tool("trace", "--target", service.target, "--out", folder / "t.json", "--seconds", "1", "--stream", "train", "--json")
    finally:
        service.stop()
    summary = json.loads(said)
    assert summary["workers"] == 1
    assert next(share for share in summary["shares"] if share["name"] == SLOW)["share"] > 0.5


def test_a_worker_that_is_killed_ends_in_the_trace_and_its_successor_follows(folder):
    service = Service(folder, "--workers", "1", "--allow-fault-stages")
    try:
        with training(slow_spec(folder, seconds=0.02), service.target, name="train"):
            process = subprocess.Popen(
                [BIN / "bulkhead", "trace", "--target", service.target, "--out", folder / "t.json", "--seconds", "3"],
                stdout=subprocess.DEVNULL)
            time.sleep(1)
            [killed] = service.workers()
            os.kill(killed, signal.SIGKILL)
            assert process.wait(60) == 0
    finally:
        service.stop()
    trace = json.loads((folder / "t.json").read_text())
    check_format(trace)
    check_nesting([event for event in trace["traceEvents"] if event["ph"] == "X"])
    [end] = [event for event in trace["traceEvents"] if event["ph"] == "i"]
    assert end["pid"] == killed and "killed by signal 9" in end["args"]["why"]
    last = [e for e in by_category(trace, "stage") if e["pid"] == killed and "unfinished" in e["args"]]
    assert [stage["name"] for stage in last] == [SLOW], "what it was at"
    assert {e["pid"] for e in by_category(trace, "lease")} - {killed}, "another one goes on"


def test_threads_wait_for_the_interpreter_and_python_stages_are_traced(folder):
    stage = {"function": "user_functions:waits_a_little", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    spec = write_spec(folder / "p.json", source={"range": {"size": 10_000}}, stages=[{"python": stage}], batch={"size": 32})
    service = Service(
        folder, "--workers", "1", "--threads", "2", "--python", PYTHON, "--python-path", HERE)
    try:
        with training(spec, service.target, name="train"):
            _said, trace = traced(service, folder / "t.json", "--seconds", "1")
    finally:
        service.stop()
    check_format(trace)
    check_nesting([event for event in trace["traceEvents"] if event["ph"] == "X"])
    stages = by_category(trace, "stage")
    assert max(stages, key=lambda stage: stage["dur"])["name"] == "stages[0] python"
    turns = [event for event in by_category(trace, "wait") if event["name"] == "waits for the interpreter"]
    assert turns, "one thread at a time runs Python"
    assert all(any(within(turn, stage) for stage in stages) for turn in turns[:20])


def test_one_trace_at_a_time_and_a_client_that_goes_makes_room(folder):
    service = Service(folder, "--workers", "1", "--allow-fault-stages")
    try:
        with training(slow_spec(folder), service.target, name="train"):
            command = [BIN / "bulkhead", "trace", "--target", service.target, "--out", folder / "a.json", "--seconds"]
            first, refused = None, ""
            while "traced already" not in refused:
                if first is None or first.poll() is not None:  # the other was before it
                    first = subprocess.Popen([*command, "60"], stderr=subprocess.DEVNULL)
                refused = subprocess.run([*command, "0.1"], capture_output=True, text=True).stderr
            deadline = time.monotonic() + 20
            first.kill()
            first.wait()
            while subprocess.run(
                [BIN / "bulkhead", "trace", "--target", service.target, "--out", folder / "b.json", "--seconds", "0.1"],
                capture_output=True).returncode != 0:
                assert time.monotonic() < deadline
    finally:
        service.stop()
    check_format(json.loads((folder / "b.json").read_text()))


def test_a_trace_is_bounded(folder):
    service = Service(folder, "--workers", "1")
    try:
        said = tool("trace", "--target", service.target, "--out", folder / "t.json", "--seconds", "61", code=2)
    finally:
        service.stop()
    assert "--seconds: '61' is no number of seconds, 0.1 to 60" in said
