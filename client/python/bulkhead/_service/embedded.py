"""A service that this process started for itself, or shares with the processes of its job.

It ends with the last loader that uses it.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import signal
import subprocess
import threading
import time
from typing import Callable, Dict, Optional, Union

from .._boundary import meant
from ..errors import DeadlineExceeded, LoaderClosed, OutOfThreads
from . import rendezvous as rendezvous_module, runtime_folder, service_log, service_process
from .arguments import Arguments
from .runtime_folder import RuntimeFolder
from .service_process import Options
from .shared_service import SharedService

_log = logging.getLogger("bulkhead")


class _Entry:
    """The service of one kind."""

    def __init__(self) -> None:
        self.spawning = threading.Lock()  # held while one starts, so that two loaders start one
        self.service: Optional["Service"] = None


_lock = threading.Lock()  # guards what follows and all `holders`; held for moments only
_entries: Dict[Options, _Entry] = {}


def refuse_in_worker() -> None:
    """RuntimeError where a worker that looks for a dataset's class came to where the program opens a loader."""
    if "BULKHEAD_DATASET_FD" in os.environ:
        raise meant(
            RuntimeError(
                "a worker runs this program's file again, for the dataset's class is in it, and came to where it opens a "
                "loader: put what the program does below `if __name__ == \"__main__\":`"
            )
        )


class EmbeddedService:
    """spawn → "ready" → serving → last holder gone → TERM … KILL, reaped, folder removed.

    A forked child leaves its parent's services alone. Thread-safe.
    """

    def __init__(self, options: Options, timeout: float, cancelled: Callable[[], bool]):
        refuse_in_worker()
        self.options = options
        self.holders = 0
        self._owner = os.getpid()
        runtime_folder.remove_stale()
        rendezvous_module.remove_stale()
        self._folder = RuntimeFolder()
        self.target = "unix:" + os.path.join(self._folder.path, "s.sock")
        command = [*options.command(), "--watch-pid", str(self._owner), "--listen", self.target]
        self.log = service_log.new(secrets.token_hex(3), options.arguments.cache_dir)
        if self.log:
            command += ["--log-file", self.log]
        try:
            self._process, ready = service_process.start(command, subprocess.PIPE)
        except BaseException:
            self._folder.remove()
            raise
        assert self._process.stderr is not None
        try:
            self._last_words = service_process.LastWords(self._process.stderr)
        except RuntimeError as failure:
            service_process.kill(self._process)
            self._folder.remove()
            os.close(ready)
            raise OutOfThreads(f"the embedded service cannot be listened to: {failure}") from None
        try:
            service_process.await_ready(ready, timeout, cancelled, self.post_mortem)
        except BaseException as error:
            self.stop()
            service_log.name_in(error, self.log)
            raise
        finally:
            os.close(ready)

    def alive(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def post_mortem(self) -> str:
        """How it ended, and its last words; empty while it runs."""
        if self._owner != os.getpid():
            return ""
        try:
            # The connection breaks a little before the process can be reaped.
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            return ""
        return service_process.how_it_ended(self.pid, code, self._last_words.get(), self.log)

    def stop(self) -> None:
        """Ends it, reaps it and removes its folder. May be called twice."""
        if self._owner != os.getpid():
            return
        if self._process.poll() is None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)  # a stopped one would not hear of it
            try:
                self._process.wait(service_process.TERM_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                service_process.kill(self._process)
        self._last_words.close()
        self._folder.remove()

    def kill(self) -> None:
        """Kills it at once, if it is stuck. Its users notice."""
        if self._owner == os.getpid() and self._process.poll() is None:
            service_process.kill(self._process)


Service = Union[EmbeddedService, SharedService]


def _start(
    options: Options, old: Optional[Service], timeout: float, cancelled: Callable[[], bool]
) -> Service:
    """The service for this process or, if it is in a job, for the job on this host."""
    rendezvous = None
    if isinstance(old, SharedService):  # wherever the environment points by now, the others are there
        rendezvous, command = old.rendezvous, old.command
    else:
        group, command = rendezvous_module.group_key(), options.command()
        if group is not None:
            rendezvous = rendezvous_module.Rendezvous(group, command)
    if rendezvous is not None:
        try:
            return SharedService(options, rendezvous, command, timeout, cancelled)
        except rendezvous_module.CannotMeet as error:
            _log.warning(
                "this process starts a service for itself instead of sharing one with the other "
                "processes of its job: %s",
                error,
            )
    return EmbeddedService(options, timeout, cancelled)


def acquire(
    arguments: Arguments,
    timeout: float,
    cancelled: Callable[[], bool] = lambda: False,
) -> Service:
    """The service with these arguments; every acquire needs one release.

    `cancelled` is asked now and then while a service starts; then LoaderClosed.
    """
    options = Options(service_process.find_program(), arguments)
    until = time.monotonic() + timeout
    with _lock:
        entry = _entries.setdefault(options, _Entry())
    while not entry.spawning.acquire(timeout=0.05):  # another loader starts it
        if cancelled():
            raise LoaderClosed("the loader is closed")
        if time.monotonic() >= until:
            raise DeadlineExceeded(f"the embedded service was not ready within {timeout:.3g} s")
    try:
        with _lock:
            old = entry.service
            if old is not None and old.alive():
                old.holders += 1
                return old
        service = _start(options, old, until - time.monotonic(), cancelled)
        with _lock:
            entry.service = service
            service.holders += 1
            return service
    finally:
        entry.spawning.release()


def release(service: Service) -> None:
    """Ends the service if no other loader uses it; that may take seconds."""
    with _lock:
        service.holders -= 1
        if service.holders > 0:
            return
        entry = _entries.get(service.options)
        if entry is not None and entry.service is service:
            entry.service = None
    service.stop()


def _stop_all() -> None:
    for entry in list(_entries.values()):
        if entry.service is not None:
            entry.service.stop()


def _forget_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _entries.clear()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_in_child)
