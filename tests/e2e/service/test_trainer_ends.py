"""However a trainer ends, nothing is left of the service that it started: no process and no folder."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from conftest import BIN, PYTHON_PACKAGE

PRELUDE = """
import json, multiprocessing, os, pathlib, signal, sys, threading
import bulkhead

SPEC = {"source": {"range": {"size": 64}}, "batch": {"size": 8}}

# A shell's background job, and its children, would not be interrupted otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)

def descendants(pid):
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text(errors="replace")
        except OSError:
            continue
        if int(words.rpartition(")")[2].split()[1]) == pid:
            child = int(stat.parent.name)
            yield child, words.partition("(")[2].rpartition(")")[0]
            yield from descendants(child)

def open_loader():
    loader = bulkhead.Loader(SPEC, timeout=60)
    loader.next_batch()
    # In one write: several processes say it.
    os.write(1, (json.dumps(list(descendants(os.getpid()))) + "\\n").encode())
    return loader

def child(ending):
    loader = open_loader()
    if ending == "raise":
        raise RuntimeError("of the child")
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)

def run_child(method, ending):
    process = multiprocessing.get_context(method).Process(target=child, args=(ending,))
    process.start()
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode

def main():
"""


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.fixture
def trainer(tmp_path):
    """Runs a trainer; `services` of them told of their processes, of which none is left in the end."""

    def run(body, code=0, services=1, interrupt=False):
        program = tmp_path / "trainer.py"
        program.write_text(
            PRELUDE + textwrap.indent(textwrap.dedent(body), "    ") + "\nif __name__ == '__main__':\n    main()\n"
        )
        runtime = tmp_path / "run"
        runtime.mkdir(mode=0o700)
        process = subprocess.Popen(
            [sys.executable, str(program)],
            env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE), "BULKHEAD_SERVER": str(BIN / "bulkheadd"),
                 "XDG_RUNTIME_DIR": str(runtime), "XDG_CACHE_HOME": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = ""
        if interrupt:
            said = process.stdout.readline()
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == code, errors
        told = [json.loads(line) for line in (said + out).splitlines()]
        assert len(told) == services, errors
        for processes in told:
            names = [name for _, name in processes]
            assert "bulkheadd" in names and "bulkhead-worker" in names
        pids = {pid for processes in told for pid, _ in processes}
        # One that was killed with its trainer notices by itself.
        until = time.monotonic() + 60
        while any(map(is_alive, pids)) or any(runtime.iterdir()):
            assert time.monotonic() < until, ([pid for pid in pids if is_alive(pid)], list(runtime.iterdir()))
            time.sleep(0.01)
        return errors

    return run


@pytest.mark.parametrize("opening", ["with open_loader() as loader:", "if (loader := open_loader()):"])
def test_an_exception_in_the_loop(trainer, opening):
    errors = trainer(
        f"""
        {opening}
            for batch in loader:
                raise RuntimeError("of the model")
        """,
        code=1,
    )
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("RuntimeError: of the model")


# Python may miss a signal that comes as it begins to wait for a lock, until the wait is over: so that one is short.
@pytest.mark.parametrize("place", ["loader.next_batch()", "threading.Event().wait(0.5)"])
def test_ctrl_c(trainer, place):
    errors = trainer(
        f"""
        loader = open_loader()
        while True:
            {place}
        """,
        code=-signal.SIGINT,
        interrupt=True,
    )
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    "ending,code",
    [("pass", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)],
)
def test_an_exit_without_close(trainer, ending, code):
    assert trainer(f"loader = open_loader(); batch = loader.next_batch()\n{ending}", code) == ""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
@pytest.mark.parametrize(
    "ending,code", [("leave", 0), ("raise", 1), ("kill", -signal.SIGKILL)]
)
def test_a_child_with_a_loader_of_its_own(trainer, method, ending, code):
    errors = trainer(f"assert run_child('{method}', '{ending}') == {code}")
    assert ("of the child" in errors) == (ending == "raise")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_child_beside_its_parents_loader(trainer, method):
    assert trainer(
        f"""
        loader = open_loader()
        assert run_child('{method}', 'leave') == 0
        assert loader.next_batch() is not None
        """,
        services=2,
    ) == ""


def test_a_child_forked_beside_its_parents_loader(trainer):
    errors = trainer(
        """
        loader = open_loader()
        assert run_child("fork", "leave") == 1
        assert loader.next_batch() is not None
        """
    )
    assert "this process was forked from one that had an open loader" in errors
