"""Whoever reads the log, or does not: nobody waits for it."""

import contextlib
import os
import signal
import subprocess
import sys

import bulkhead
import pytest
from conftest import BIN, children_of, write_spec

LINES, LINE_BYTES = 400, 1000


@pytest.fixture
def unread(folder):
    """unread(*options) starts a service whose standard error and output are pipes that nobody reads."""
    started = []

    def start(*options):
        target = f"unix:{folder}/s.sock"
        ready, child_end = os.pipe()
        pipe, pipe_end = os.pipe()
        process = subprocess.Popen(
            [BIN / "bulkheadd", "--listen", target, "--ready-fd", str(child_end), "--cache-dir", folder / "cache",
             "--workers", "2", *map(str, options)],
            pass_fds=(child_end,), stdout=pipe_end, stderr=pipe_end,
        )
        os.close(child_end)
        os.close(pipe_end)
        started.append((process, pipe))
        with os.fdopen(ready) as said:
            assert said.readline().startswith("ready")
        return process, pipe, target

    yield start
    for process, pipe in started:
        process.kill()
        process.wait()
        os.close(pipe)


def check_end(process, pipe):
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    said = b""
    while part := os.read(pipe, 1 << 16):
        said += part
    return said


def test_prints_of_workers_that_nobody_reads_stop_nothing(unread, folder):
    (folder / "loud.py").write_text(
        "import os, sys\n\n\n"
        "def loud(index):\n"
        f"    print('o' * {LINE_BYTES})\n"
        f"    print('e' * {LINE_BYTES}, file=sys.stderr)\n"
        f"    os.write(1, b'1' * {LINE_BYTES} + b'\\n')\n"
        f"    os.write(2, b'2' * {LINE_BYTES} + b'\\n')\n"
        "    return index\n"
    )
    stage = {"function": "loud:loud", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    spec = write_spec(folder / "s.json", source={"range": {"size": LINES}}, stages=[{"python": stage}], batch={"size": 8}, epochs=4)
    process, pipe, target = unread("--python", sys.executable, "--python-path", folder)
    with bulkhead.Loader(spec, target, timeout=120) as loader:
        found = [int(index) for batch in loader.stream() for index in batch["index"]]
    assert sorted(found) == sorted(4 * list(range(LINES)))
    # 6 MiB were said, of which the pipe takes 64 KiB and the service keeps two times 1 MiB.
    status = bulkhead.service_status(target)
    assert int(status["log_lines_dropped"]) > LINES
    said = check_end(process, pipe)
    assert said.count(b"\n") < 3 * LINES


def test_warnings_of_the_service_that_nobody_reads_stop_nothing(unread, folder):
    spec = write_spec(folder / "s.json", source={"range": {"size": 64}}, batch={"size": 8}, epochs="forever")
    process, pipe, target = unread()
    # What others have written there leaves no room for a single line.
    full = os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, b"x" * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, b"x")
    os.close(full)
    killed = set()
    with bulkhead.Loader(spec, target, timeout=120) as loader:
        for batch in loader.stream():
            for worker in set(children_of(process.pid)) - killed:
                with contextlib.suppress(ProcessLookupError):  # one that ended by itself
                    os.kill(worker, signal.SIGKILL)  # of which the service warns
                    killed.add(worker)
            if len(killed) >= 5:
                break
        assert bulkhead.service_status(target)["pid"] == process.pid
    check_end(process, pipe)
