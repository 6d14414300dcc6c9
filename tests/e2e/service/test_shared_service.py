"""One embedded service for the processes of a job on a host, whoever of them comes, goes or is killed."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from conftest import HERE, PYTHON_PACKAGE, children_of, wait_until, write_spec

from bulkhead._service import rendezvous

JOB = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
ELASTIC = {"TORCHELASTIC_RUN_ID": "run-7", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29501"}


class Rank:
    """A process that does what it is told; `rank.take(3)` is the answer of take(3) there."""

    def __init__(self, environment):
        job = {name: value for name, value in os.environ.items() if name not in {*JOB, *ELASTIC}}
        self.process = subprocess.Popen(
            [sys.executable, HERE / "shared_rank.py"],
            env={**job, "PYTHONPATH": str(PYTHON_PACKAGE), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.say(name, *arguments, **options)
            return self.answer()

        return call

    def say(self, name, /, *arguments, **options):
        self.process.stdin.write(json.dumps([name, arguments, options]) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)

    def end(self):
        """The interpreter's end, with the loader open; gives what it wrote to standard error."""
        errors = self.process.communicate(timeout=60)[1]
        assert self.process.returncode == 0, errors
        return errors

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def runtime(monkeypatch):
    """An empty $XDG_RUNTIME_DIR with a short name; whatever a test leaves there, the next one can remove."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="bh", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))

    def is_empty():
        rendezvous.remove_stale()
        return os.listdir(path) == []

    yield path
    try:
        wait_until(is_empty, f"{os.listdir(path)} cannot be removed")
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def ranks(runtime, folder):
    """ranks(environment) starts a process."""
    started = []

    def start(environment=JOB):
        started.append(Rank(environment))
        return started[-1]

    yield start
    for rank in started:
        rank.kill()


@pytest.fixture
def spec(folder):
    return str(write_spec(folder / "spec.yaml", source={"range": {"size": 100000}}, batch={"size": 2}))


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def nothing_is_left(runtime, *services):
    wait_until(lambda: not any(map(runs, services)), "a service runs without anybody who uses it")
    wait_until(lambda: os.listdir(runtime) == [], "a folder is left")
    return True


@pytest.mark.parametrize("environment", [JOB, ELASTIC])
def test_processes_of_a_job_share_one_service_and_the_last_ends_it(ranks, runtime, spec, environment):
    first, second, third = (ranks(environment) for _ in range(3))
    for rank in (first, second, third):  # all at once: one of them starts it
        rank.say("open_loader", spec)
    [service] = {rank.answer() for rank in (first, second, third)}
    assert len(children_of(service)) == 1, "one worker for all, as each of them asked for"
    for rank in (first, second, third):
        assert rank.take(3) == [0, 1, 2, 3, 4, 5]
    first.close()
    second.end()
    assert third.take(1) == [6, 7] and runs(service)
    third.close()
    assert not runs(service), "it was ended, and waited for"
    assert os.listdir(runtime) == []


@pytest.mark.parametrize("other", [{}, {**JOB, "MASTER_PORT": "29600"}, {**JOB, "MASTER_ADDR": "node1"},
                                   {**JOB, "TORCHELASTIC_RUN_ID": "run-7"}, {"MASTER_ADDR": JOB["MASTER_ADDR"]}])
def test_other_jobs_and_processes_without_one_have_their_own(ranks, spec, other):
    services = {ranks(environment).open_loader(spec) for environment in (JOB, other, other)}
    assert len(services) == (2 if "MASTER_PORT" in other else 3)


def test_a_run_with_an_id_is_known_by_that_wherever_its_master_is(ranks, spec):
    runs = [{**ELASTIC, "MASTER_PORT": port} for port in ("1", "2")]
    assert len({ranks(run).open_loader(spec) for run in runs}) == 1


def test_a_run_without_an_id_is_known_by_its_master(ranks, spec):
    runs = [{**JOB, "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": port} for port in ("1", "1", "2")]
    assert len({ranks(run).open_loader(spec) for run in runs}) == 2


def test_what_makes_another_service_within_a_process_does_between_them(ranks, spec, monkeypatch, tmp_path):
    first = ranks().open_loader(spec)
    assert ranks().open_loader(spec, workers=2) != first
    assert ranks().open_loader(spec, threads=2) != first
    assert ranks().open_loader(spec, cache_dir=str(tmp_path / "c")) != first
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert ranks().open_loader(spec) != first


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_process_that_is_bound_to_other_cpus_has_a_service_there(ranks, spec):
    everywhere = os.sched_getaffinity(0)
    first = ranks().open_loader(spec)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        bound = ranks()
    finally:
        os.sched_setaffinity(0, everywhere)
    assert bound.open_loader(spec) != first


@pytest.mark.parametrize("leave", ["close", "end", "kill"])
def test_the_one_that_started_it_may_leave_first(ranks, runtime, spec, leave):
    starter, other = ranks(), ranks()
    service = starter.open_loader(spec)
    assert other.open_loader(spec) == service
    assert other.take(1) == [0, 1]
    getattr(starter, leave)()
    late = ranks()
    assert late.open_loader(spec) == service
    assert other.take(300) == list(range(2, 602)) and other.reconnects() == 0
    late.end()
    other.end()
    assert nothing_is_left(runtime, service)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_service_that_dies_is_replaced_once_for_all(ranks, runtime, spec, number):
    three = [ranks() for _ in range(3)]
    [old] = {rank.open_loader(spec) for rank in three}
    for rank in three:
        assert rank.take(2) == [0, 1, 2, 3]
    os.kill(old, number)
    for rank in three:
        rank.say("take", 500)
    for rank in three:
        assert rank.answer() == list(range(4, 1004)), "exactly once, in order"
    [new] = {rank.service() for rank in three}
    assert new != old
    assert [rank.reconnects() for rank in three] == [1, 1, 1]
    assert ranks().open_loader(spec) == new
    three[0].close()
    assert len(os.listdir(runtime)) == 1
    for rank in three[1:]:
        rank.close()
    assert runs(new), "the fourth uses it"


def test_ranks_may_call_their_loaders_the_same(ranks, spec):
    first, second = ranks(), ranks()
    assert first.open_loader(spec, name="val") == second.open_loader(spec, name="val")
    for rank in (first, second, first, second):
        rank.say("take", 300)
        assert len(rank.answer()) == 600
    assert [rank.reconnects() for rank in (first, second)] == [0, 0]
    assert first.called() == second.called() == "val"


def test_whoever_uses_it_can_tell_how_it_ended(ranks, spec):
    starter, other = ranks(), ranks()
    service = starter.open_loader(spec)
    other.open_loader(spec)
    os.kill(children_of(service)[0], signal.SIGKILL)  # which the log warns of
    log = pathlib.Path(other.log())
    wait_until(lambda: other.take(1) and "killed by signal 9" in log.read_text(), "the log warns of the worker")
    os.kill(service, signal.SIGKILL)
    assert starter.post_mortem().startswith(f"the embedded service (pid {service}) was killed by signal 9")
    said = other.post_mortem()
    assert said.startswith(f"the embedded service (pid {service}) ended; its log is ")
    assert "; its last words: " in said
    assert "worker 0 of pipeline" in said and "killed by signal 9" in said


def test_when_all_are_killed_the_service_ends_by_itself(ranks, runtime, spec):
    two = [ranks(), ranks()]
    [service] = {rank.open_loader(spec) for rank in two}
    workers = children_of(service)
    two[0].kill()
    assert two[1].take(2) == [0, 1, 2, 3]
    two[1].kill()
    assert nothing_is_left(runtime, service, *workers)


def test_what_is_left_when_the_service_is_killed_with_them_goes_with_the_next(ranks, runtime, spec):
    rank = ranks()
    service = rank.open_loader(spec)
    os.kill(service, signal.SIGKILL)
    rank.kill()
    wait_until(lambda: not runs(service), "SIGKILL did not end it")
    assert len(os.listdir(runtime)) == 1
    other = ranks({**JOB, "MASTER_PORT": "29600"})
    other.open_loader(spec)
    other.close()
    wait_until(lambda: os.listdir(runtime) == [], "a folder is left")


def test_a_service_that_lost_its_users_and_is_stuck_is_not_joined(ranks, runtime, spec):
    rank = ranks()
    stuck = rank.open_loader(spec)
    os.kill(stuck, signal.SIGSTOP)
    rank.kill()
    after = ranks()
    assert after.open_loader(spec) != stuck
    assert after.take(1) == [0, 1]
    after.close()
    assert nothing_is_left(runtime, stuck)


def test_a_number_that_another_process_has_by_now_is_not_taken_for_the_service(ranks, runtime, spec):
    rank = ranks()
    service = rank.open_loader(spec)
    [meeting] = runtime.iterdir()
    id, _, started = json.loads((meeting / "current").read_text())
    os.kill(service, signal.SIGSTOP)  # so that it does not see that it is alone, and tidy up
    rank.kill()
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        (meeting / "current").write_text(json.dumps([id, bystander.pid, started]))
        assert ranks().open_loader(spec) not in (service, bystander.pid)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
        os.kill(service, signal.SIGCONT)


def test_a_forked_child_keeps_no_service_alive(ranks, runtime, spec):
    rank = ranks()
    service = rank.open_loader(spec)
    child = rank.fork()
    rank.process.kill()
    rank.process.wait()
    try:
        assert nothing_is_left(runtime, service)
        assert runs(child)
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("wrong", ["mode", "link", "file"])
def test_where_others_could_meddle_nothing_is_shared(ranks, runtime, spec, wrong):
    probe = ranks()
    probe.open_loader(spec)
    [meeting] = runtime.iterdir()
    probe.close()
    if wrong == "mode":
        meeting.mkdir()
        meeting.chmod(0o755)
    elif wrong == "link":
        (runtime / "elsewhere").mkdir(mode=0o700)
        meeting.symlink_to(runtime / "elsewhere")
    else:
        meeting.touch(mode=0o700)
    first, second = ranks(), ranks()
    assert first.open_loader(spec) != second.open_loader(spec)
    assert first.take(1) == [0, 1]
    assert f"{meeting} is no folder of mode 0700 of this user" in first.end()
    if wrong == "mode":
        meeting.rmdir()
    else:
        meeting.unlink()
    if wrong == "link":
        (runtime / "elsewhere").rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_the_folder_of_another_user_is_not_used(ranks, runtime, spec):
    probe = ranks()
    probe.open_loader(spec)
    [meeting] = runtime.iterdir()
    probe.close()
    meeting.mkdir(mode=0o700)
    os.chown(meeting, 12345, 12345)
    first, second = ranks(), ranks()
    assert first.open_loader(spec) != second.open_loader(spec)
    assert "starts a service for itself" in first.end()
    assert meeting.stat().st_uid == 12345
    meeting.rmdir()
