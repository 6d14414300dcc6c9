"""What a trainer's process does - fork, spawn, fail, import twice - and what is left of it."""

import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import bulkhead

HERE = pathlib.Path(__file__).resolve().parent

# What newer versions of gRPC say about forks; not about errors.
GRPC_LOG = re.compile(r"^[IW]\d{4} .*\n", re.MULTILINE)

PRELUDE = """
import json, multiprocessing, os, signal, sys, threading
import bulkhead

SPEC = {"samples": 40, "batch": 8, "epochs": 9}

def count(loader):
    return sum(batch.sample_count for batch in loader)

def in_child(answers):
    try:
        with bulkhead.Loader(SPEC, timeout=30) as loader:
            answers.put(count(loader))
    except bulkhead.BulkheadError as error:
        answers.put(error.reason)

def ask_child(method):
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=in_child, args=(answers,))
    child.start()
    answer = answers.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0, child.exitcode
    return answer

def main():
"""


@pytest.fixture
def script(tmp_path, fake_program):
    """Runs code as a program of its own, with the fake as its embedded service."""

    def run(body, code=0, interrupt=False):
        path = tmp_path / "trainer.py"
        path.write_text(
            PRELUDE
            + textwrap.indent(textwrap.dedent(body), "    ")
            + "\nif __name__ == '__main__':\n    main()\n"
        )
        runtime = tmp_path / "run"
        runtime.mkdir(mode=0o700)
        process = subprocess.Popen(
            [sys.executable, str(path)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent), "XDG_RUNTIME_DIR": str(runtime)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = ""
        if interrupt:
            said = process.stdout.readline()
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=100)
        assert process.returncode == code, errors
        assert list(runtime.iterdir()) == [], "a service was left behind"
        return said + out, GRPC_LOG.sub("", errors)

    return run


def test_a_child_forked_beside_an_open_loader_is_refused_and_harms_nobody(script):
    out, errors = script(
        """
        loader = bulkhead.Loader(SPEC)
        loader.next_batch()
        print(ask_child("fork"), count(loader), count(loader))
        """
    )
    assert out.split() == ["FORKED", "32", "40"] and errors == ""


def test_a_child_forked_while_a_lock_of_a_loader_is_held_ends(script):
    out, _ = script(
        """
        loader = bulkhead.Loader(SPEC)
        held, forked = threading.Event(), threading.Event()

        def hold():
            with loader._stream._changed:
                held.set()
                forked.wait()

        threading.Thread(target=hold).start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            sys.exit(7)
        forked.set()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), count(loader))
        """
    )
    assert out.split() == ["7", "40"]


def test_an_interrupt_while_a_call_begins_ends_the_program(script):
    out, _ = script(
        """
        with bulkhead.Loader(SPEC) as loader:  # gRPC is loaded
            loader.next_batch()
        channel = sys.modules["grpc._channel"]
        begin = channel._run_channel_spin_thread

        def interrupted(*arguments):
            os.kill(os.getpid(), signal.SIGINT)
            begin(*arguments)

        channel._run_channel_spin_thread = interrupted
        signal.alarm(60)
        try:
            bulkhead.Loader(SPEC)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert out.split() == ["interrupted"]


@pytest.mark.parametrize("before", ["pass", "bulkhead.Loader(SPEC).close()"])
def test_a_child_forked_without_an_open_loader_opens_its_own(script, before):
    out, _ = script(
        f"""
        {before}
        print(ask_child("fork"), ask_child("fork"))
        with bulkhead.Loader(SPEC) as loader:
            print(count(loader))
        """
    )
    assert out.split() == ["40", "40", "40"]


def test_grpc_is_loaded_with_the_first_connection(script):
    out, _ = script(
        """
        before = "grpc" in sys.modules
        with bulkhead.Loader(SPEC):
            print(before, "grpc" in sys.modules)
        """
    )
    assert out.split() == ["False", "True"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_spawned_child_opens_its_own(script, method):
    out, errors = script(
        f"""
        loader = bulkhead.Loader(SPEC)
        loader.next_batch()
        print(ask_child("{method}"), count(loader))
        """
    )
    assert out.split() == ["40", "32"] and errors == ""


def test_a_forked_child_does_not_ask_for_a_status_either(fake):
    loader = fake.open()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            bulkhead.service_status(loader.target)
        except bulkhead.BulkheadError as error:
            os.write(writer, error.reason.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"FORKED"
    os.close(reader)


@pytest.mark.parametrize(
    "opening", ["with bulkhead.Loader(SPEC) as loader:", "if (loader := bulkhead.Loader(SPEC)):"]
)
def test_an_exception_in_the_loop_is_all_that_is_said(script, opening):
    _, errors = script(
        f"""
        {opening}
            for batch in loader:
                raise RuntimeError("of the model")
        """,
        code=1,
    )
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("RuntimeError: of the model")


@pytest.mark.parametrize("place", ["loader.next_batch()", "threading.Event().wait()"])
def test_ctrl_c_ends_a_trainer_and_its_service(script, place):
    _, errors = script(
        f"""
        loader = bulkhead.Loader({{**SPEC, "mode": "stall"}})
        print("ready", flush=True)
        while True:
            {place}
        """,
        code=-signal.SIGINT,
        interrupt=True,
    )
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")


def test_ctrl_c_in_the_midst_of_giving_a_slot_back_is_not_lost(fake_shm, monkeypatch):
    loader = fake_shm.open(samples=400, batch=8)
    batch = loader.next_batch()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loader._stream._shm.door, "release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        del batch
        threading.Event().wait(30)


def test_ctrl_c_in_a_wait_leaves_a_loader_that_goes_on(fake):
    loader = fake.open(mode="stall", samples=20, loader={"timeout": 60})
    stream = loader._stream._stream
    main = threading.main_thread().ident
    waits = threading.Event()
    wait = stream._wait_a_while

    def noted(*arguments):
        waits.set()
        return wait(*arguments)

    stream._wait_a_while = noted

    def interrupt():
        waits.wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        loader.next_batch()
    thread.join()
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=0.1)
    loader.load_state_dict(loader.state_dict())


def test_two_loaders_take_turns_and_end_on_their_own(script):
    out, _ = script(
        """
        train, check = bulkhead.Loader(SPEC), bulkhead.Loader({**SPEC, "samples": 16})
        assert train.target == check.target
        for _ in range(2):
            print(count(train), count(check), end=" ")
        check.close()
        print(count(train))
        """
    )
    assert out.split() == ["40", "16", "40", "16", "40"]


def test_each_thread_may_have_a_loader(fake):
    answers = []

    def use():
        values = [
            int(value) for batch in fake.open(samples=200, batch=8) for value in batch["index"]
        ]
        answers.append(values == list(range(200)))

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [True] * 6


def test_a_loader_may_go_from_one_thread_to_another(fake):
    loader = fake.open(samples=40, batch=8)
    taken = [loader.next_batch().sequence]
    thread = threading.Thread(target=lambda: taken.append(loader.next_batch().sequence))
    thread.start()
    thread.join(30)
    taken.append(loader.next_batch().sequence)
    assert taken == [0, 1, 2]


def test_a_cell_that_is_run_again_replaces_its_loader(script):
    out, errors = script(
        """
        pids = []
        for _ in range(3):
            loader = bulkhead.Loader(SPEC)      # the one before goes, with its service or without
            loader.next_batch()
            pids.append(loader._endpoint.service.pid)
        print(count(loader), len(set(pids)))
        """
    )
    assert out.split() == ["32", "1"] and errors == ""


@pytest.mark.parametrize(
    "again",
    [
        "importlib.reload(bulkhead)",
        "[sys.modules.pop(name) for name in list(sys.modules) if name.split('.')[0] == 'bulkhead']",
    ],
)
def test_a_package_that_is_imported_again_works_beside_the_first(script, again):
    out, errors = script(
        f"""
        import importlib
        first = bulkhead.Loader(SPEC)
        first.next_batch()
        {again}
        fresh = importlib.import_module("bulkhead")
        with fresh.Loader({{**fresh.Pipeline.from_dict({{}}).to_dict(), **SPEC}}) as second:
            print(count(first), count(second))
        """
    )
    assert out.split() == ["32", "40"] and errors == ""


def test_a_loader_is_not_pickled_and_says_what_to_do(fake):
    with pytest.raises(TypeError, match="a Pipeline can be pickled"):
        pickle.dumps(fake.open())


def test_a_batch_travels_as_a_copy(fake):
    batch = fake.open(samples=20).next_batch()
    copy = pickle.loads(pickle.dumps(batch))
    assert copy["pix"].tolist() == batch["pix"].tolist()
    assert copy.positions == batch.positions and copy.cursor == batch.cursor
