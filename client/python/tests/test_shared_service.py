"""The folder where the processes of a job meet. tests/e2e/test_shared_service.py has real processes in it."""

import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

import bulkhead
from bulkhead import _lock_file, _rendezvous, _service_process, _shared_service

PACKAGE = str(pathlib.Path(bulkhead.__file__).resolve().parents[1])
MEETING = "bulkhead-0123456789abcdef"


@pytest.fixture
def runtime(monkeypatch):
    """An empty $XDG_RUNTIME_DIR with a short name."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="bh", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def job(fake_program, runtime, monkeypatch):
    """This process is one of a job; gives the folder where sockets are made."""
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    return runtime


def meeting_of(loader):
    return pathlib.Path(loader.target[len("unix:") :]).parent


OTHER_PROCESS = """
import sys, bulkhead
with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
    print(loader.target, len(list(loader)), flush=True)
"""


def other_process():
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2] + [PACKAGE])},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_service_that_keeps_dying_is_explained_by_its_log(job):
    spec = {"mode": "die_again", "samples": 800}
    with bulkhead.Loader(spec, timeout=30, transport="grpc", credits=1) as loader:
        assert loader.next_batch().sequence == 0
        with pytest.raises(bulkhead.ServiceUnavailable) as caught:
            loader.next_batch()
        assert "killed by signal 9" in str(caught.value)
        assert "the disk is on fire" in str(caught.value)
    assert list(job.iterdir()) == []


def test_a_service_that_does_not_start_says_why_and_leaves_nothing(job, monkeypatch, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho it is too cold >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("BULKHEAD_SERVER", str(program))
    with pytest.raises(bulkhead.ServiceStartFailed, match="status 3.*it is too cold"):
        bulkhead.Loader({}, timeout=30)
    assert list(job.iterdir()) == []


def test_a_service_that_is_never_ready_meets_the_deadline_and_leaves_nothing(job, monkeypatch, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("BULKHEAD_SERVER", str(program))
    with pytest.raises(bulkhead.DeadlineExceeded, match="not ready within 0.[45]"):
        bulkhead.Loader({}, timeout=0.5)
    assert list(job.iterdir()) == []


def join(loader, timeout=30.0, cancelled=lambda: False):
    """As another process would."""
    service = loader._endpoint.service
    return _shared_service.SharedService(
        service.options, service.rendezvous, service.command, timeout, cancelled
    )


def test_a_starter_that_is_stuck_meets_the_others_deadline(job):
    with bulkhead.Loader({}, timeout=30) as loader:
        with open(meeting_of(loader) / "spawn") as spawn:
            fcntl.flock(spawn, fcntl.LOCK_EX)
            with pytest.raises(bulkhead.DeadlineExceeded, match="spawn is locked"):
                join(loader, timeout=0.2)
            with pytest.raises(bulkhead.LoaderClosed):
                join(loader, cancelled=lambda: True)


def test_another_process_joins_and_lets_go(job):
    with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
        assert other_process() == [loader.target, "1"]
        assert len(list(loader)) == 1
        assert loader.reconnects == 0
    assert list(job.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "[", "{}", '["../../x", 1, 1]', '["abcdef", "1", 1]', '["abcdef", -1, 1]']
)
def test_nonsense_about_the_current_service_means_another(job, content):
    with bulkhead.Loader({}, timeout=30) as loader:
        (meeting_of(loader) / "current").write_text(content)
        other = join(loader)
        assert other.pid != loader._endpoint.service.pid
        other.stop()
        assert loader._endpoint.service.alive()


def test_who_comes_while_a_service_ends_waits_and_gets_another(job):
    with bulkhead.Loader({}, timeout=30) as loader:
        old = loader._endpoint.service
        old._users.lock_exclusively()  # as the service has it when it ends
        other = join(loader)
        assert other.pid != old.pid and not old.alive()
        other.stop()
        assert not other.alive()


def test_a_starter_whose_children_are_reaped_by_others_lets_go_all_the_same(job):
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
            assert len(list(loader)) == 1
    finally:
        signal.signal(signal.SIGCHLD, previous)
    assert list(job.iterdir()) == []


def test_the_log_is_kept_for_whoever_still_has_the_service(job):
    with bulkhead.Loader({}, timeout=30) as loader:
        service = loader._endpoint.service
        [log] = meeting_of(loader).glob("*.log")
        with log.open("a") as file:
            file.write("x" * 9000 + " alas")
        log.unlink()
        service.kill()
        said = service.post_mortem()
        assert said.endswith("alas") and len(said) < _service_process.LAST_WORDS_BYTES + 200


def test_a_path_that_is_too_long_for_sockets_is_passed_over(job, monkeypatch, tmp_path):
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with bulkhead.Loader({}, timeout=30) as loader:
        assert meeting_of(loader).parent == pathlib.Path("/tmp")


def test_a_service_for_itself_without_pidfds(job, monkeypatch, caplog):
    def refuse(pid):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
        assert len(list(loader)) == 1
        assert meeting_of(loader).name != MEETING and "s.sock" in loader.target
    assert "processes cannot be watched here" in caplog.text


def test_who_waits_for_a_folder_that_is_removed_meanwhile_gets_a_new_one(job):
    rendezvous = _rendezvous.Rendezvous("job", ["program"])
    first = rendezvous.enter(float("inf"), lambda: False)

    def let_go():  # asked while the second waits
        first.leave()
        first.close()
        return False

    with rendezvous.enter(float("inf"), let_go) as second:
        assert [folder.name for folder in job.iterdir()] == [rendezvous.name]
        assert os.listdir(second.folder) == ["spawn"]
        asked = []
        with pytest.raises(bulkhead.LoaderClosed):
            rendezvous.enter(float("inf"), lambda: asked.append(1) or len(asked) > 3)


# Locks.


def test_a_lock_ends_with_its_file_and_not_with_a_child_that_was_forked(tmp_path):
    path = str(tmp_path / "lock")
    first = _lock_file.LockFile(path, os.O_CREAT)
    second = _lock_file.LockFile(path)
    assert first.lock_shared() and second.lock_shared()
    assert not second.lock_exclusively()
    assert first.lock_exclusively(), "who asks for more in vain loses what it had"
    assert not second.lock_shared()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"x")
        while True:
            signal.pause()
    try:
        os.read(read, 1)
        first.close()
        assert second.lock_exclusively()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def test_a_lock_file_that_was_replaced_is_not_in_place(tmp_path):
    path = str(tmp_path / "lock")
    file = _lock_file.LockFile(path, os.O_CREAT)
    assert file.is_in_place()
    os.rename(path, path + ".old")
    assert not file.is_in_place()
    _lock_file.LockFile(path, os.O_CREAT).close()
    assert not file.is_in_place()


# Folders that a crash left behind.


def stray(runtime, *parts, name=MEETING):
    folder = runtime / name
    folder.mkdir(mode=0o700)
    for part in parts:
        (folder / part).touch()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "abcdef.sock"))
    return folder, listener


SERVICE = ("abcdef.lock", "abcdef.log", "spawn", "current")


def test_a_meeting_folder_without_users_is_removed(runtime):
    stray(runtime, *SERVICE)[1].close()
    (runtime / "bulkhead-0123456789abcde0").mkdir(mode=0o700)
    _rendezvous.remove_stale()
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize("held", ["spawn", "abcdef.lock"])
def test_a_meeting_folder_with_somebody_in_it_is_left(runtime, held):
    folder, listener = stray(runtime, *SERVICE)
    listener.close()
    before = sorted(runtime.rglob("*"))
    with open(folder / held) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        _rendezvous.remove_stale()
        assert sorted(runtime.rglob("*")) == before


def test_a_meeting_folder_whose_service_has_not_yet_seen_that_it_is_alone_is_left(runtime):
    folder, listener = stray(runtime, *SERVICE)
    listener.listen()
    before = sorted(runtime.rglob("*"))
    _rendezvous.remove_stale()
    assert sorted(runtime.rglob("*")) == before
    listener.close()


@pytest.mark.parametrize(
    "extra, name",
    [
        ("thesis.txt", MEETING),
        ("abcdeg.lock", MEETING),
        ("abcdef.lock", "bulkhead-of-mine12345678"),
    ],
)
def test_what_is_not_certainly_a_meeting_folder_is_left(runtime, extra, name):
    stray(runtime, *SERVICE, extra, name=name)[1].close()
    before = sorted(runtime.rglob("*"))
    _rendezvous.remove_stale()
    assert sorted(runtime.rglob("*")) == before


def test_what_others_may_read_is_left(runtime):
    folder, listener = stray(runtime, *SERVICE)
    listener.close()
    folder.chmod(0o755)
    _rendezvous.remove_stale()
    assert (folder / "abcdef.lock").exists()
