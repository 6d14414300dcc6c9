"""A worker that SIGKILL does not end, as when its storage hangs in the kernel."""

import ctypes
import os
import threading
import time

import pytest
from conftest import Service, children_of, tool, write_spec

import bulkhead

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


@pytest.fixture
def ptrace():
    """Holds a thread so that its process stays a zombie after SIGKILL; released in the end."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    held = []

    def hold(thread):
        if libc.ptrace(SEIZE, thread, None, None) != 0:
            pytest.skip("this user may not trace processes")
        assert libc.ptrace(INTERRUPT, thread, None, None) == 0
        held.append(thread)

    def release():
        while held:
            thread = held.pop()
            libc.ptrace(DETACH, thread, None, None)
            try:  # the parent may reap a dead one once this process has heard of its end
                while os.waitpid(thread, os.WNOHANG | WALL)[0] != 0:
                    pass
            except ChildProcessError:
                pass

    hold.release = release
    yield hold
    release()


def test_when_no_worker_is_left_the_stream_ends_in_a_typed_error(folder, ptrace):
    spec = write_spec(
        folder / "s.json", source={"range": {"size": 4_000_000}}, batch={"size": 2000}, order={"global": {}}
    )
    service = Service(folder, "--workers", "1", "--worker-hang-timeout", "1")
    errors = []

    def train(loader):
        try:
            while True:
                loader.next_batch(timeout=60)
        except bulkhead.BulkheadError as error:
            errors.append(error)

    try:
        loader = bulkhead.Loader(spec, service.target)
        loader.next_batch()
        [worker] = children_of(service.process.pid)
        ptrace(worker)  # its first thread; the others end, and the process is not reaped
        trainer = threading.Thread(target=train, args=(loader,))
        trainer.start()
        trainer.join(60)
        assert [error.reason for error in errors] == ["WORKER_STUCK"]
    finally:
        loader.close()
        service.process.kill()
        service.process.wait()


def test_a_predecessor_that_does_not_end_stays_in_the_budget(folder, ptrace):
    spec = write_spec(
        folder / "s.json", source={"range": {"size": 4_000_000}}, batch={"size": 2000}, order={"global": {}}
    )
    quota = 64 << 20
    service = Service(folder, "--workers", "1", "--worker-hang-timeout", "1", "--worker-quota", "64MiB")

    def promised():
        return bulkhead.service_status(service.target)["memory"]["quota_bytes"]

    try:
        with bulkhead.Loader(spec, service.target) as loader:
            loader.next_batch()
            [worker] = children_of(service.process.pid)
            ptrace(worker)
            tool("recycle", "--target", service.target)
            deadline = time.monotonic() + 60
            while promised() == quota:  # it is written off 10 s after it was killed
                assert time.monotonic() < deadline
                loader.next_batch(timeout=60)
            assert promised() == 2 * quota
            ptrace.release()
            while promised() != quota:
                assert time.monotonic() < deadline
    finally:
        service.process.kill()
        service.process.wait()
