"""The folder where the processes of a job meet. tests/e2e/service/test_shared_service.py has real processes in it."""

import errno
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

import bulkhead
from bulkhead._service import (
    lock_file,
    rendezvous as rendezvous_module,
    service_process,
    shared_service,
)

MEETING = "bulkhead-0123456789abcdef"


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
import json, sys
sys.path[:] = json.loads(sys.argv[1])  # where it may import from makes another service
import bulkhead
with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
    print(loader.target, len(list(loader)), flush=True)
"""


def other_process():
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, json.dumps(sys.path)],
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


@pytest.fixture
def be_program(monkeypatch, tmp_path):
    """Makes a shell script the service's program."""

    def be(script):
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("BULKHEAD_SERVER", str(program))

    return be


def test_a_service_that_does_not_start_says_why_and_leaves_nothing(job, be_program):
    be_program("echo it is too cold >&2; exit 3")
    with pytest.raises(bulkhead.ServiceStartFailed, match="status 3.*it is too cold"):
        bulkhead.Loader({}, timeout=30)
    assert list(job.iterdir()) == []


def test_a_service_that_is_never_ready_meets_the_deadline_and_leaves_nothing(job, be_program):
    be_program("exec sleep 600")
    with pytest.raises(bulkhead.DeadlineExceeded, match="not ready within 0[.]"):
        bulkhead.Loader({}, timeout=0.5)
    assert list(job.iterdir()) == []


def join(loader, timeout=30.0, cancelled=lambda: False):
    """As another process would."""
    service = loader._endpoint.service
    return shared_service.SharedService(
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
        assert said.endswith("alas") and len(said) < service_process.LAST_WORDS_BYTES + 400


def test_a_replacement_has_the_same_cache_folder_wherever_the_program_went(job, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with bulkhead.Loader({}, cache_dir="own", timeout=30) as loader:
        first = loader._endpoint.service
        monkeypatch.chdir(tmp_path / "elsewhere")
        first.kill()
        loader._endpoint.revive(30, lambda: False)
        second = loader._endpoint.service
        assert second.pid != first.pid
        for service in (first, second):
            assert os.path.dirname(service.log) == str(tmp_path / "own/logs")
            assert service.command[service.command.index("--cache-dir") + 1] == str(tmp_path / "own")


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


@pytest.fixture
def starts(monkeypatch):
    """The programs that are started."""
    started = []
    start = service_process.start

    def noted(*arguments):
        process, ready = start(*arguments)
        started.append(process)
        return process, ready

    monkeypatch.setattr(service_process, "start", noted)
    return started


def refuse(monkeypatch, owner, name, number, times, when=lambda *arguments: True):
    """The next calls, so many of those that fit, raise OSError."""
    left = [times]
    real = getattr(owner, name)

    def call(*arguments, **options):
        if left[0] and when(*arguments):
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


def of_this_job(path):
    """Not one of the folders in /tmp, which other tests leave and whoever starts a service tidies up."""
    return not os.path.isabs(path) or str(path).startswith(os.environ["XDG_RUNTIME_DIR"] + "/")


def opens(part):
    return lambda path, *_: str(path).endswith(part) and of_this_job(path)


@pytest.mark.parametrize(
    "owner, name, number, when",
    [
        (rendezvous_module.Turn, "set_current", errno.ENOSPC, lambda *_: True),
        (os, "pidfd_open", errno.EMFILE, lambda pid: pid != os.getpid()),
        (os, "open", errno.ENOSPC, opens(".log")),
        (os, "open", errno.EMFILE, opens("0.lock")),
        (os, "open", errno.ENOSPC, opens("spawn")),
        (rendezvous_module.Turn, "sweep", errno.EMFILE, lambda turn: of_this_job(turn.folder)),
    ],
)
def test_where_a_service_cannot_be_shared_what_was_started_goes_and_each_has_its_own(
    job, monkeypatch, caplog, starts, owner, name, number, when
):
    monkeypatch.setattr(shared_service.secrets, "token_hex", lambda _: "abcde0")
    refuse(monkeypatch, owner, name, number, 1, when)
    with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
        assert "s.sock" in loader.target and len(list(loader)) == 1
        assert os.strerror(number) in caplog.text and "starts a service for itself" in caplog.text
        *shared, own = starts
        assert [process.returncode for process in shared] in ([], [-9])
        assert [folder for folder in job.iterdir() if rendezvous_module._NAME.fullmatch(folder.name)] == []
    assert own.returncode is not None
    rendezvous_module.remove_stale()
    assert list(job.iterdir()) == []


@pytest.mark.parametrize(
    "owner, name, when",
    [
        (os, "pidfd_open", lambda pid: pid != os.getpid()),
        (os, "open", opens(".lock")),
        (os, "open", opens(".log")),
        (shared_service, "_start_time", lambda pid: True),
    ],
)
def test_who_runs_out_of_descriptors_replaces_no_service_of_others(job, monkeypatch, owner, name, when):
    with bulkhead.Loader({"samples": 8}, timeout=30) as loader:
        refuse(monkeypatch, owner, name, errno.EMFILE, 1, when)
        with pytest.raises(rendezvous_module.CannotMeet, match="Too many open files"):
            join(loader)
        assert other_process() == [loader.target, "1"]
        assert loader._endpoint.service.alive()


def test_a_service_without_its_log_is_joined(job):
    with bulkhead.Loader({}, timeout=30) as loader:
        [log] = meeting_of(loader).glob("*.log")
        log.unlink()
        other = join(loader)
        assert other.pid == loader._endpoint.service.pid
        other.kill()
        assert f"(pid {other.pid}) ended" in other.post_mortem()
        other.stop()


def test_a_folder_that_is_gone_again_and_again_meets_the_deadline(job, monkeypatch):
    rendezvous = rendezvous_module.Rendezvous("job", ["program"])
    gone = str(job / rendezvous.name)
    monkeypatch.setattr(rendezvous, "_made_folder", lambda: gone)
    with pytest.raises(bulkhead.DeadlineExceeded, match="is being removed"):
        rendezvous.enter(time.monotonic() + 0.1, lambda: False)
    with pytest.raises(bulkhead.LoaderClosed):
        rendezvous.enter(float("inf"), lambda: True)


@pytest.mark.parametrize("wrong", ["mode", "link"])
@pytest.mark.parametrize("moment", ["open", "lock"])
def test_a_folder_that_another_user_puts_there_meanwhile_is_not_used(job, monkeypatch, wrong, moment):
    rendezvous = rendezvous_module.Rendezvous("job", ["program"])
    meeting, elsewhere = job / rendezvous.name, job / "elsewhere"

    def replace():
        if elsewhere.exists():
            return
        shutil.rmtree(meeting)
        elsewhere.mkdir(mode=0o777)
        if wrong == "link":
            meeting.symlink_to(elsewhere)
        else:
            meeting.mkdir()
            meeting.chmod(0o777)

    class Replacing(lock_file.LockFile):
        def __init__(self, *arguments):
            if moment == "open":
                replace()
            super().__init__(*arguments)

        def lock_exclusively(self):
            if moment == "lock":
                replace()
            return super().lock_exclusively()

    monkeypatch.setattr(rendezvous_module, "LockFile", Replacing)
    with pytest.raises(rendezvous_module.CannotMeet, match="is no folder of mode 0700 of this user"):
        rendezvous.enter(time.monotonic() + 30, lambda: False)
    assert list(elsewhere.iterdir()) == [] and list(meeting.iterdir()) == []


def test_who_leaves_leaves_the_folder_to_who_has_just_come(job, monkeypatch):
    rendezvous = rendezvous_module.Rendezvous("job", ["program"])
    unlink = rendezvous_module._unlink

    def unlink_and_come(path):
        unlink(path)
        if path.endswith("spawn"):
            open(path, "x").close()

    with rendezvous.enter(float("inf"), lambda: False) as turn:
        monkeypatch.setattr(rendezvous_module, "_unlink", unlink_and_come)
        turn.leave()
        assert os.listdir(turn.folder) == ["spawn"]


def test_who_waits_for_a_folder_that_is_removed_meanwhile_gets_a_new_one(job):
    rendezvous = rendezvous_module.Rendezvous("job", ["program"])
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
