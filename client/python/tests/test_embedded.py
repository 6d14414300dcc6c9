import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import bulkhead
from bulkhead._service import embedded, runtime_folder, service_process

PACKAGE = str(pathlib.Path(bulkhead.__file__).resolve().parents[1])


def folder_of(loader):
    return os.path.dirname(loader.target[len("unix:") :])


def test_a_service_is_started_shared_and_ended_with_the_last_loader(fake_program):
    first = bulkhead.Loader({"samples": 20}, timeout=30)
    second = bulkhead.Loader({"samples": 20}, timeout=30)
    assert first.target == second.target
    assert os.stat(folder_of(first)).st_mode & 0o777 == 0o700
    pid = first._endpoint.service.pid
    first.close()
    assert len(list(second)) == 3
    second.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not os.path.exists(folder_of(first))


def test_other_options_mean_another_service(fake_program):
    with bulkhead.Loader({}, timeout=30) as first:
        with bulkhead.Loader({}, timeout=30, workers=1, threads=2) as second:
            assert first.target != second.target


def test_a_killed_service_is_started_again_for_all_its_loaders(fake_program, caplog):
    with bulkhead.Loader({"samples": 40}, timeout=30, credits=1) as first:
        with bulkhead.Loader({"samples": 40}, timeout=30, credits=1) as second:
            assert [int(b["index"][0]) for b in (first.next_batch(), second.next_batch())] == [0, 0]
            old = first.target
            os.kill(first._endpoint.service.pid, signal.SIGKILL)
            for loader in (first, second):
                batches = [(int(batch["index"][0]), batch.sequence) for batch in loader]
                assert batches == [(8, 1), (16, 2), (24, 3), (32, 4)]
                assert loader.reconnects == 1
            assert first.target == second.target != old
            assert "the loader connects again by itself" in caplog.text and "cursor" not in caplog.text
            assert not os.path.exists(os.path.dirname(old[len("unix:") :]))


def test_a_service_that_keeps_dying_is_explained_and_replaced(fake_program):
    # With one credit over gRPC it lives until the first batch was handed out.
    spec = {"mode": "die_again", "samples": 800}
    with bulkhead.Loader(spec, timeout=30, transport="grpc", credits=1) as loader:
        assert loader.next_batch().sequence == 0
        with pytest.raises(bulkhead.ServiceUnavailable) as caught:
            loader.next_batch()
        assert "killed by signal 9" in str(caught.value)
        assert f"; its log is {loader._endpoint.service.log}" in str(caught.value)
        assert "the disk is on fire" in str(caught.value)
        with bulkhead.Loader({"samples": 8}, timeout=30) as other:
            assert other.target != loader.target
            assert len(list(other)) == 1


def test_a_service_that_does_not_start_says_why(fake_program):
    with pytest.raises(bulkhead.ServiceStartFailed, match="status 1.*cache folder 'refuse'"):
        bulkhead.Loader({}, cache_dir="refuse", timeout=30)


def test_a_service_that_is_never_ready_meets_the_deadline(fake_program):
    with pytest.raises(bulkhead.DeadlineExceeded, match="not ready within 0[.]"):
        bulkhead.Loader({}, cache_dir="never-ready", timeout=0.5)


def test_without_a_program_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("BULKHEAD_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(bulkhead.ServiceNotFound, match="install Bulkhead's server"):
        bulkhead.Loader({})
    monkeypatch.setenv("BULKHEAD_SERVER", str(tmp_path / "none"))
    with pytest.raises(bulkhead.ServiceNotFound, match="BULKHEAD_SERVER names"):
        bulkhead.Loader({})


def test_a_program_of_a_relative_path_is_found_from_elsewhere_too(monkeypatch, tmp_path):
    program = tmp_path / "bin/bulkheadd"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.delenv("BULKHEAD_SERVER", raising=False)
    monkeypatch.setattr(service_process, "_OF_THE_WHEEL", "/none")
    monkeypatch.setenv("PATH", "bin:/usr/bin")
    monkeypatch.chdir(tmp_path)
    assert service_process.find_program() == str(program)


def test_a_long_runtime_folder_is_passed_over(fake_program, monkeypatch, tmp_path):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with bulkhead.Loader({}, timeout=30) as loader:
        assert folder_of(loader).startswith("/tmp/bulkhead-")


@pytest.mark.parametrize("ending", ["pass", "raise KeyboardInterrupt", "loader.next_batch()"])
def test_the_interpreter_ends_cleanly_with_a_loader_open(fake_program, ending):
    code = f"import bulkhead; loader = bulkhead.Loader({{'samples': 9999}}); print(loader.target); {ending}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = -signal.SIGINT if "Keyboard" in ending else 0
    assert done.returncode == expected, done.stderr
    assert not os.path.exists(os.path.dirname(done.stdout.strip()[len("unix:") :]))


def test_dropping_a_loader_takes_no_lock_and_does_not_wait(fake_program):
    loader = bulkhead.Loader({"samples": 9999}, timeout=30)
    loader.next_batch()
    service, box = loader._endpoint.service, [loader]
    del loader
    dropped = threading.Event()

    def drop():
        box.clear()
        dropped.set()

    # As if the collector ran in another thread while this one is at work.
    with embedded._lock, box[0]._stream._changed, box[0]._stream._stream._changed:
        threading.Thread(target=drop).start()
        assert dropped.wait(5)
        assert service._process.poll() is None
    assert service._process.wait(20) == 0, "but it ends soon"


def test_a_service_that_starts_slowly_keeps_only_its_own_kind_waiting(fake_program):
    outcome = []

    def slow():
        with pytest.raises(bulkhead.DeadlineExceeded):
            bulkhead.Loader({}, cache_dir="never-ready", timeout=8)
        outcome.append("slow")

    threads = [threading.Thread(target=slow) for _ in range(2)]
    for thread in threads:
        thread.start()
    with bulkhead.Loader({"samples": 8}, timeout=30) as quick:
        assert len(list(quick)) == 1
    assert outcome == []
    for thread in threads:
        thread.join()
    assert outcome == ["slow", "slow"], "the second of a kind waits no longer than it may"


def test_two_loaders_at_once_start_one_service(fake_program):
    targets = []

    def open_and_note():
        with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
            targets.append(loader.target)
            both.wait(30)

    both = threading.Barrier(2)
    threads = [threading.Thread(target=open_and_note) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(targets) == 2 and len(set(targets)) == 1


# Folders that a crash left behind.


@pytest.fixture
def runtime(monkeypatch, tmp_path):
    """An empty $XDG_RUNTIME_DIR with a short name."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="bh", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    yield path
    shutil.rmtree(path)


def stray(runtime, name="bulkhead-abcdefgh", lock=True, listening=False, age=0.0):
    folder = runtime / name
    folder.mkdir(mode=0o700)
    if lock:
        (folder / "lock").touch()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "s.sock"))
    if listening:
        listener.listen()
    else:
        listener.close()
    os.utime(folder, (time.time() - age,) * 2)
    return folder, listener


def test_what_killed_processes_left_is_removed_by_the_next(fake_program, runtime):
    code = (
        "import os, signal, bulkhead; loader = bulkhead.Loader({'samples': 9999})\n"
        "print(loader.target, flush=True)\n"
        "os.kill(loader._endpoint.service.pid, signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    left = pathlib.Path(done.stdout.strip()[len("unix:") :]).parent
    assert left.parent == runtime and left.is_dir()
    while runtime_folder.listens(str(left / "s.sock")):  # SIGKILL takes a moment
        time.sleep(0.01)
    with bulkhead.Loader({}, timeout=30) as loader:
        assert [str(path) for path in runtime.iterdir()] == [folder_of(loader)]
    assert list(runtime.iterdir()) == []


def test_a_live_services_folder_is_left_alone(fake_program, runtime):
    with bulkhead.Loader({"samples": 9999}, timeout=30) as first:
        os.utime(folder_of(first), (0, 0))
        with bulkhead.Loader({}, timeout=30, workers=3) as second:
            assert {str(path) for path in runtime.iterdir()} == {folder_of(first), folder_of(second)}
        first._endpoint.service.kill()  # nobody listens, but this process locks
        runtime_folder.remove_stale([str(runtime)])
        assert os.path.isdir(folder_of(first))


@pytest.mark.parametrize(
    "left, options",
    [
        (False, {}),
        (True, {"listening": True}),
        (False, {"name": "bulkhead-abc123"}),
        (True, {"lock": False}),
        (False, {"lock": False, "age": 3600}),
        (True, {"lock": False, "age": 3600, "listening": True}),
        (True, {"name": "bulkhead-of-mine", "age": 3600}),
    ],
)
def test_only_what_nobody_uses_is_removed(runtime, left, options):
    folder, listener = stray(runtime, **options)
    runtime_folder.remove_stale([str(runtime)])
    assert folder.exists() == left
    listener.close()


def test_what_is_not_certainly_ours_is_left(runtime):
    folder, _ = stray(runtime, age=3600)
    (folder / "thesis.txt").touch()
    os.utime(folder, (0, 0))
    other, _ = stray(runtime, "bulkhead-open1234", age=3600)
    other.chmod(0o755)
    (runtime / "bulkhead-link1234").symlink_to(stray(runtime, "elsewhere", age=3600)[0])
    new = runtime / "bulkhead-newborn1"
    new.mkdir(mode=0o700)
    (new / "lock").touch()
    before = sorted(runtime.rglob("*"))
    runtime_folder.remove_stale([str(runtime)])
    assert sorted(runtime.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_another_users_folder_is_left(runtime):
    folder, _ = stray(runtime, age=3600)
    os.chown(folder, 12345, 12345)
    runtime_folder.remove_stale([str(runtime)])
    assert folder.exists()
