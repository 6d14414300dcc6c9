"""Locks of the folder where the processes of a job meet."""

import os
import signal
import sys
import threading

from bulkhead._service import lock_file


def test_a_lock_ends_with_its_file_and_not_with_a_child_that_was_forked(tmp_path):
    path = str(tmp_path / "lock")
    first = lock_file.LockFile(path, os.O_CREAT)
    second = lock_file.LockFile(path)
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


def test_a_child_that_is_forked_while_files_come_and_go_has_none_of_them(tmp_path):
    def own_descriptors():
        links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        return [link for link in links if os.path.lexists(link) and str(tmp_path) in os.readlink(link)]

    def come_and_go(path):
        while not enough.is_set():
            file = lock_file.LockFile(path, os.O_CREAT)
            file.lock_shared()
            file.close()

    enough = threading.Event()
    threads = [
        threading.Thread(target=come_and_go, args=(str(tmp_path / f"{n}.lock"),)) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        found = []
        for _ in range(300):
            child = os.fork()
            if child == 0:
                os._exit(len(own_descriptors()))
            found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    finally:
        sys.setswitchinterval(interval)
        enough.set()
        for thread in threads:
            thread.join()
    assert found == [0] * 300


def test_a_lock_file_that_was_replaced_is_not_in_place(tmp_path):
    path = str(tmp_path / "lock")
    file = lock_file.LockFile(path, os.O_CREAT)
    assert file.is_in_place()
    os.rename(path, path + ".old")
    assert not file.is_in_place()
    lock_file.LockFile(path, os.O_CREAT).close()
    assert not file.is_in_place()
