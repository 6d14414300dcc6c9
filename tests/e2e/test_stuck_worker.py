"""A worker that SIGKILL does not end, as when its storage hangs in the kernel."""

import ctypes
import threading

import pytest
from conftest import Service, children_of, write_spec

import bulkhead

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17


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

    yield hold
    for thread in held:
        libc.ptrace(DETACH, thread, None, None)


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
