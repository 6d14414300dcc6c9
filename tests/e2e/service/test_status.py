"""What a running service says of itself."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import time

import bulkhead
import pytest
from conftest import BIN, Service, write_spec
from test_connections import wait_until


def test_status_names_workers_streams_and_memory(folder):
    spec = write_spec(
        folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10}, epochs=1
    )
    service = Service(folder, "--workers", "2")
    try:
        with bulkhead.Loader(spec, service.target, name="watched") as loader:
            loader.next_batch()
            status = bulkhead.service_status(service.target)
            assert status["pid"] == service.process.pid
            assert {worker["pid"] for worker in status["workers"]} == set(service.workers())
            assert status["workers"][0]["state"].startswith("WORKER_STATE_")
            assert [stream["name"] for stream in status["streams"]] == ["watched"]
            assert status["streams"][0]["transport"] == "TRANSPORT_SHM"
            assert status["streams"][0]["arena"]["slots"] == 5
            assert status["supervisor"]["memory_bytes"] > 1 << 20
            assert isinstance(status["samples_produced"], int)
            assert status["start_time"] > os.stat(folder / "s.json").st_mtime - 60
    finally:
        service.stop()


def test_memory_is_read_anew_when_asked_for(folder):
    """A worker so large that a reading takes several ms, and else serves for 20 times as long."""
    (folder / "large.py").write_text("HELD = bytearray(b'x') * (500 << 20)\n\n\ndef f(index):\n    return index\n")
    spec = {
        "source": {"range": {"size": 1000}}, "batch": {"size": 8},
        "stages": [{"python": {"function": "large:f", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}}],
    }  # fmt: skip
    service = Service(folder, "--workers", "1", "--worker-quota", "1GiB", "--python", "/usr/bin/python3", "--python-path", folder)
    try:
        with bulkhead.Loader(spec, service.target) as loader:
            loader.next_batch()
            ages, read_anew = [], []
            for fresh in 20 * [False, True]:
                began = time.monotonic()
                [worker] = bulkhead.service_status(service.target, fresh=fresh)["workers"]
                usage = worker["usage"]
                assert usage["memory_bytes"] > 500 << 20
                if fresh:
                    read_anew.append(usage["age_seconds"] < time.monotonic() - began + 0.1)
                else:
                    ages.append(usage["age_seconds"])
                time.sleep(0.12)
            assert max(ages) > 0.12, "other readings serve for longer"
            assert sum(read_anew) > 10, "where one takes 0.1 s, it serves for as long"
    finally:
        service.stop()


def test_counters_of_a_place_go_on_over_its_workers(folder):
    """As a monitoring system sees them, while each worker makes a few hundred of the samples."""
    spec = write_spec(
        folder / "s.json",
        source={"range": {"size": 20_000}},
        stages=[{"one_hot": {"input": "index", "classes": 20_000}}],
        batch={"size": 20},
        epochs=1,
    )
    service = Service(folder, "--workers", "1", "--recycle-samples", "300")
    try:
        with bulkhead.Loader(spec, service.target) as loader:
            generations, last = set(), {}
            for number, _ in enumerate(loader):
                if number % 10:
                    continue
                status = bulkhead.service_status(service.target)
                generations.update(worker["generation"] for worker in status["workers"])
                [place] = status["places"]
                runs = {stage["stage"]: stage["runs"] for stage in place["stages"]}
                now = {"samples": place["samples"], "cpu": place["cpu_seconds"], **runs}
                assert all(now[name] >= value for name, value in last.items())
                last = now
            assert len(generations) > 3
            # The stream has ended; what was being made then has been counted.
            [place] = bulkhead.service_status(service.target)["places"]
    finally:
        service.stop()
    assert place["samples"] == 20_000
    # Samples for warming up a successor run through the stages, too, and are delivered to nobody.
    for stage in place["stages"]:
        if stage["stage"] in ("source", "stages[0] one_hot"):
            assert 20_000 <= stage["runs"] < 21_000


def waits(service, while_open):
    """The shares of waiting for workers and for the trainer while the trainer does something for some seconds."""
    [before] = bulkhead.service_status(service.target)["streams"]
    began = time.monotonic()
    while_open()
    [after] = bulkhead.service_status(service.target)["streams"]
    seconds = time.monotonic() - began
    return [
        (after[name] - before[name]) / seconds
        for name in ("waiting_for_workers_seconds", "waiting_for_trainer_seconds")
    ], after


def test_a_starved_trainer_waits_for_workers(folder):
    spec = write_spec(
        folder / "s.yaml", source={"range": {"size": 100_000}}, stages=[{"fault": {"slow": 0.02}}], batch={"size": 10}
    )
    service = Service(folder, "--workers", "1", "--allow-fault-stages")
    try:
        with bulkhead.Loader(spec, service.target, name="starved", credits=2) as loader:
            loader.next_batch()
            (workers, trainer), stream = waits(service, lambda: [loader.next_batch() for _ in range(15)])
            assert workers > 0.8 and trainer < 0.2
            assert stream["why"].startswith("waits for workers ")
            assert "stages[0] fault takes" in stream["why"]
            assert stream["peer_pid"] == os.getpid()
            assert stream["spec"] == str(spec) and stream["fingerprint"] == loader.state_dict()["bytes_fingerprint"]
            gaps = stream["batch_gaps"]
            assert sum(gaps["counts"]) == stream["batches_sent"] - 1 and gaps["sum"] > 0
            assert stream["samples_sent"] == 10 * stream["batches_sent"]
            [place] = bulkhead.service_status(service.target)["places"]
            [fault] = [stage for stage in place["stages"] if stage["stage"] == "stages[0] fault"]
            times = fault["run_times"]
            assert sum(times["counts"]) == fault["runs"] and times["sum"] == fault["busy_seconds"]
            quicker = [count for bound, count in zip(times["bounds"], times["counts"]) if bound <= 0.01]
            assert sum(quicker) == 0, "none takes less than 20 ms"
    finally:
        service.stop()


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_workers_wait_for_a_trainer_that_is_slower(folder, transport):
    spec = write_spec(folder / "s.json", source={"range": {"size": 100_000}}, batch={"size": 10})
    service = Service(folder, "--workers", "1")
    try:
        with bulkhead.Loader(spec, service.target, name="slow", credits=2, transport=transport) as loader:
            def train():
                for _ in range(10):
                    loader.next_batch()
                    time.sleep(0.2)  # the training step

            train()
            (workers, trainer), stream = waits(service, train)
            assert workers < 0.1 and trainer > 0.9
            assert stream["why"].startswith("waits for the trainer ")
    finally:
        service.stop()


def test_streams_are_counted_by_what_became_of_them(folder):
    spec = write_spec(folder / "s.json", source={"range": {"size": 20}}, batch={"size": 10}, epochs=1)
    service = Service(folder, "--workers", "1")

    def counts():
        found = bulkhead.service_status(service.target)["stream_counts"]
        return {(one["event"].removeprefix("EVENT_").lower(), one["reason"]): one["count"] for one in found}

    try:
        with bulkhead.Loader(spec, service.target, name="whole") as loader:
            assert len(list(loader)) == 2
        endless = write_spec(folder / "endless.json", source={"range": {"size": 20}}, batch={"size": 10})
        with bulkhead.Loader(endless, service.target, name="left") as loader:
            loader.next_batch()
        with pytest.raises(bulkhead.SpecError):
            bulkhead.Loader({"source": {"nothing": {}}}, service.target)
        while sum(count for (event, _), count in counts().items() if event == "ended") < 2:
            time.sleep(0.1)
        found = counts()
        assert found["opened", "new"] == 2 and found["refused", "SPEC_INVALID"] == 1
        assert found["ended", "finished"] == 1
        assert found.get(("ended", "closed"), 0) + found.get(("ended", "gone"), 0) == 1
    finally:
        service.stop()


def test_a_stream_that_is_open_is_there(folder):
    # The first slot takes a while to be touched.
    spec = write_spec(folder / "s.json", source={"range": {"size": 4_000_000}}, batch={"size": 4_000_000}, epochs=1)
    service = Service(folder, "--workers", "1")
    try:
        for number in range(10):
            with bulkhead.Loader(spec, service.target, name=f"number {number}"):
                names = [stream["name"] for stream in bulkhead.service_status(service.target)["streams"]]
                assert f"number {number}" in names
    finally:
        service.stop()


def test_no_service_is_a_clear_error(folder):
    with pytest.raises(bulkhead.ServiceUnavailable, match="nobody.sock|does not say"):
        bulkhead.service_status(f"unix:{folder}/nobody.sock", timeout=2)


def top(*options, **more):
    return subprocess.run([BIN / "bulkhead", "top", *options], capture_output=True, text=True, timeout=60, check=False, **more)


def test_top_prints_a_screen_or_refuses_where_there_is_no_terminal(folder):
    spec = write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10})
    service = Service(folder, "--workers", "1")
    try:
        with bulkhead.Loader(spec, service.target, name="watched") as loader:
            loader.next_batch()
            # All that the window holds is made, also on a busy machine.
            assert wait_until(lambda: bulkhead.service_status(service.target)["streams"][0]["why"].startswith("waits for the trainer "))
            once = top("--once", "--target", service.target)
            assert once.returncode == 0 and once.stderr == ""
            assert "stream watched, rank 0 of 1: waits for the trainer " in once.stdout
            assert "\x1b" not in once.stdout
            piped = top("--target", service.target)
            assert piped.returncode == 1 and "bulkhead top --once" in piped.stderr
    finally:
        service.stop()


def test_top_prints_json_lines(folder):
    spec = write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10})
    service = Service(folder, "--workers", "1")
    command = ["--json", "--target", service.target]
    try:
        with bulkhead.Loader(spec, service.target, name="watched") as loader:
            loader.next_batch()
            [line] = top(*command, "--once").stdout.splitlines()
            again = subprocess.Popen([BIN / "bulkhead", "top", *command, "--every", "0.1"], stdout=subprocess.PIPE, text=True)
            with again:
                lines = [line, again.stdout.readline(), again.stdout.readline()]
                again.terminate()
            assert [json.loads(line)["streams"][0]["name"] for line in lines] == ["watched"] * 3
    finally:
        service.stop()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_top_leaves_the_terminal_as_it_was(folder, end):
    service = Service(folder, "--workers", "1")
    mine, its = pty.openpty()
    try:
        process = subprocess.Popen([BIN / "bulkhead", "top", "--target", service.target], stdin=its, stdout=its, stderr=its)
        os.close(its)
        shown = b""
        while b"(no streams)" not in shown:
            shown += os.read(mine, 4096)
        assert shown.startswith(b"\x1b[?1049h\x1b[?25l")
        process.send_signal(end)
        assert process.wait(30) == 0
        shown = b""
        with contextlib.suppress(OSError):  # the other end is gone
            while True:
                shown += os.read(mine, 4096)
        assert shown.endswith(b"\x1b[?25h\x1b[?1049l")
    finally:
        os.close(mine)
        service.stop()
