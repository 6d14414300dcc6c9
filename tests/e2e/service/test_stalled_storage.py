"""Storage that stops answering, as a dead network share does: what needs it says so, all else goes on."""

import concurrent.futures
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import bulkhead
import grpc
import numpy
import pytest
from conftest import BIN, Service, write_spec
from stalling_fs import Mount, need_fuse
from test_connections import wait_until
from test_floods import describe, describe_request, outcome

RANGE = {"source": {"range": {"size": 1000}}, "batch": {"size": 8}, "epochs": "forever"}


OWN = {"source": {"range": {"size": 1000}}, "batch": {"size": 8}, "stages": [
    {"python": {"function": "own:same", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}},
]}  # fmt: skip


@pytest.fixture
def mount(folder):
    need_fuse()
    mount = Mount(folder)
    yield mount
    mount.end()


def end(service, mount=None):
    """The exit code of a service that is told to end. Threads that hang in the kernel keep a process that has ended until
    the storage of `mount` answers; all else of it is gone by then."""
    service.process.send_signal(signal.SIGTERM)
    pid = service.process.pid
    deadline = time.monotonic() + 60
    while mount is not None and state_of(pid) != "Z" and service.process.poll() is None:
        assert time.monotonic() < deadline, "it does not end"
        time.sleep(0.01)
    if mount is not None:
        mount.end()
    return service.process.wait(60)


def state_of(task):
    with open(f"/proc/{task}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


@pytest.fixture
def started():
    services = []
    yield services
    for service in services:
        service.process.kill()


def list_on(mount, name):
    """A spec over an image list on the mount."""
    return {"source": {"image_list": {"path": str(mount.path / name)}}, "batch": {"size": 8}, "epochs": 1,
            "stages": ["decode_image", {"resize": {"size": [8, 8]}}]}


def records_on(mount, pattern):
    """A spec over a pattern of record files on the mount."""
    return {"source": {"tfrecord": {"files": str(mount.path / pattern)}}, "features": {"x": {"int64": {}}}, "batch": {"size": 8}, "epochs": 1}


@pytest.mark.waits
def test_openings_on_stalled_storage_fail_with_the_path_and_hold_up_nobody(mount, folder, started):
    for number in range(24):
        (mount.backing / f"list{number}.txt").write_text("a.jpg\t1\n")
    (folder / "own.py").write_text("def same(index):\n    return index\n")
    service = Service(folder, "--root", folder, "--workers", "1", "--python", sys.executable, "--python-path", folder)
    started.append(service)

    def error_of(number):
        with pytest.raises(bulkhead.BulkheadError) as caught:
            # Every fourth is a pattern.
            spec = list_on(mount, f"list{number}.txt") if number % 4 else records_on(mount, f"list{number}.t*")
            bulkhead.Loader(spec, service.target, timeout=120)
        return number, caught.value

    with bulkhead.Loader(OWN, service.target, timeout=120) as loader:
        stream = loader.stream()
        next(stream)
        cursor = loader.state_dict()
    with bulkhead.Loader(RANGE, service.target, timeout=120) as loader:
        stream = loader.stream()
        next(stream)
        mount.stall()
        with concurrent.futures.ThreadPoolExecutor(24) as threads:
            waiting = [threads.submit(error_of, number) for number in range(24)]
            while not all(future.done() for future in waiting):
                next(stream)  # goes on
                assert bulkhead.service_status(service.target)["pid"] == service.process.pid
                time.sleep(0.05)
            errors = [future.result() for future in waiting]
        for number, error in errors:
            assert error.reason == "STORAGE_STALLED", error
            assert (f"list{number}.txt" if number % 4 else f"{mount.path}/") in str(error)
        # 16 threads hang in the kernel. No other is risked, ...
        assert len([error for _, error in errors if "has not answered for" in str(error)]) >= 16
        began = time.monotonic()
        _, refused = error_of(0)
        assert refused.reason == "STORAGE_STALLED" and "16 storage calls already hang" in str(refused)
        assert time.monotonic() - began < 25, "nobody waits for what hangs already"
        # ... where the files of a cursor's own code cannot be looked at nobody says that they were changed, ...
        with pytest.raises(bulkhead.BulkheadError) as caught:
            bulkhead.Loader(OWN, service.target, cursor=cursor, timeout=120)
        assert caught.value.reason == "STORAGE_STALLED" and "own.py" in str(caught.value)
        # ... and who needs no storage is served.
        with bulkhead.Loader({**RANGE, "seed": 2}, service.target, timeout=120) as other:
            next(other.stream())
        next(stream)
    mount.go_on()
    deadline = time.monotonic() + 60
    while True:
        _, error = error_of(0)
        if error.reason != "STORAGE_STALLED":
            break
        assert time.monotonic() < deadline
    assert error.reason == "TRUNCATED_RECORD", "the list is no record file"
    assert end(service) == 0


@pytest.mark.waits
def test_openings_on_stalled_storage_cost_no_places_for_calls(mount, folder, started):
    (mount.backing / "list.txt").write_text("a.jpg\t1\n")
    spec = list_on(mount, "list.txt")
    service = Service(folder, "--root", folder, "--workers", "1", "--open-rate", "0")
    started.append(service)

    def reason(attempt):
        try:
            attempt()
        except bulkhead.BulkheadError as error:
            return error.reason

    def open_it(number):
        return reason(lambda: bulkhead.Loader(spec, service.target, name=f"stalled-{number}", timeout=120))

    mount.stall()
    with grpc.insecure_channel(service.target) as channel:
        code, text = outcome(describe(channel, describe_request(write_spec(folder / "list.json", **spec))))
    assert code == grpc.StatusCode.UNAVAILABLE
    assert "list.txt: the storage has not answered for" in text
    with concurrent.futures.ThreadPoolExecutor(64) as threads:
        # The first of them hang in the kernel, the others are refused: together they are more than there are places.
        assert set(threads.map(open_it, range(300))) == {"STORAGE_STALLED"}
    with bulkhead.Loader(RANGE, service.target, timeout=120) as loader:
        next(loader.stream())
    assert end(service, mount) == 1, "as threads were left behind"


def test_a_worker_program_that_does_not_start_holds_up_no_other_stream(mount, folder, started):
    (folder / "own.py").write_text("def same(index):\n    return index\n")
    # A copy: the service asks for the interpreter by the path it was given.
    python = mount.backing / "python3"
    shutil.copy(os.path.realpath(sys.executable), python)
    service = Service(
        folder, "--workers", "1", "--python", mount.path / "python3", "--python-path", folder,
        "--python-path", pathlib.Path(numpy.__file__).parents[1],
    )  # fmt: skip
    started.append(service)
    own = {**OWN, "epochs": 1}
    log = folder / "service.log"
    with bulkhead.Loader(RANGE, service.target, timeout=120) as loader:
        stream = loader.stream()
        next(stream)
        mount.stall()
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            other = threads.submit(lambda: sum(1 for _ in bulkhead.Loader(own, service.target, timeout=120).stream()))
            while "its storage does not answer" not in log.read_text():
                next(stream)
            assert f"starting {mount.path}/python3: it has not started for 2s" in log.read_text()
            for _ in range(100):
                next(stream)
            assert not bulkhead.service_status(service.target).get("supervisor_silent_seconds")
            assert not other.done()
            mount.go_on()
            assert other.result() == 125
    assert end(service) == 0


@pytest.mark.waits
def test_a_stalled_share_does_not_keep_the_service_from_ending(mount, folder, started):
    (mount.backing / "list.txt").write_text("a.jpg\t1\n")
    service = Service(folder, "--root", folder, "--workers", "1")
    started.append(service)
    mount.stall()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        opening = threads.submit(bulkhead.Loader, list_on(mount, "list.txt"), service.target, reconnect_timeout=0)
        mount.await_caller()
        assert end(service, mount) == 1, "as a thread was left behind"
        with pytest.raises(bulkhead.BulkheadError):
            opening.result(60)


def test_a_stalled_cache_folder_costs_what_is_kept_there_alone(mount, folder, started, photos):
    (folder / "own.py").write_text("def same(index):\n    return index\n")
    service = Service(folder, "--root", photos, "--workers", "1", "--python", sys.executable, "--python-path", folder,
                      "--cache-dir", mount.path / "cache")
    started.append(service)
    kept = {
        **OWN, "source": {"range": {"size": 64}}, "epochs": 2, "stages": [*OWN["stages"], {"cache": {"key": "1"}}],
    }
    with bulkhead.Loader(RANGE, service.target, timeout=120) as loader:
        stream = loader.stream()
        next(stream)
        mount.stall()
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            other = threads.submit(lambda: sum(1 for _ in bulkhead.Loader(kept, service.target, timeout=120).stream()))
            while not other.done():
                next(stream)
                status = bulkhead.service_status(service.target)
            assert other.result() == 16, "it goes on without"
        status = bulkhead.service_status(service.target)
        assert "has not answered for" in status["stage_cache"]["reason"]
        assert not status.get("supervisor_silent_seconds")
        next(stream)
    assert end(service, mount) == 0


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_CONT, PTRACE_DETACH = 0x4206, 0x4207, 7, 17
EPOLL_WAITS = ("232", "281", "441")  # epoll_wait, epoll_pwait and epoll_pwait2 of x86-64


class StoppedThread:
    """One thread of another process, stopped where it waits for events; the others run.

    Elsewhere it may hold a lock, and with it stop others.
    """

    def __init__(self, thread):
        self._thread = thread
        self._ptrace(PTRACE_SEIZE)
        while True:
            self._ptrace(PTRACE_INTERRUPT)
            os.waitpid(thread, 0x40000000)  # __WALL
            if pathlib.Path(f"/proc/{thread}/syscall").read_text().split()[0] in EPOLL_WAITS:
                return
            self._ptrace(PTRACE_CONT)
            time.sleep(0.01)

    def _ptrace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        libc.ptrace.restype = ctypes.c_long
        if libc.ptrace(request, self._thread, None, None) != 0:
            pytest.skip(f"this user may not stop a thread of a child here: {os.strerror(ctypes.get_errno())}")

    def go_on(self):
        self._ptrace(PTRACE_DETACH)


def health(service):
    """What `bulkhead health` says."""
    words = [BIN / "bulkhead", "health", "--target", service.target]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return result.stdout + result.stderr


def test_a_supervisor_that_answers_nothing_is_told_of(folder, started):
    service = Service(folder, "--workers", "1")
    started.append(service)
    spec = write_spec(folder / "s.json", **RANGE)
    with bulkhead.Loader(spec, service.target, timeout=120, reconnect_timeout=0) as loader:
        stream = loader.stream()
        next(stream)
        [supervisor] = [
            int(task) for task in os.listdir(f"/proc/{service.process.pid}/task")
            if open(f"/proc/{service.process.pid}/task/{task}/comm").read() == "supervisor\n"
        ]
        stopped = StoppedThread(supervisor)
        try:
            with pytest.raises(bulkhead.ServiceUnavailable) as caught:
                while True:
                    next(stream)
            assert caught.value.reason == "SERVICE_SILENT"
            assert "its supervisor has been silent" in str(caught.value)
            status = bulkhead.service_status(service.target)
            assert status["supervisor_silent_seconds"] >= 5 and status["pid"] == service.process.pid
            assert wait_until(lambda: "does not serve: its supervisor is silent" in health(service))
        finally:
            stopped.go_on()
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        next(loader.stream())
    assert not bulkhead.service_status(service.target).get("supervisor_silent_seconds")
    assert wait_until(lambda: health(service).endswith(" serves\n"))
    assert end(service) == 0
