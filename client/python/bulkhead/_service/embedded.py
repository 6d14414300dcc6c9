"""A service that this process started for itself, or shares with the processes of its job.

It ends with the last loader that uses it.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import threading
import time
from typing import Callable, Dict, Optional, Union

from .._boundary import meant
from ..errors import DeadlineExceeded, LoaderClosed
from . import rendezvous as rendezvous_module, service_log, service_process
from .arguments import Arguments
from .own_process import OwnProcess
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


class EmbeddedService(OwnProcess):
    """A service of this process, which lives until its last holder is gone."""

    def __init__(self, options: Options, timeout: float, cancelled: Callable[[], bool]):
        refuse_in_worker()
        self.options = options
        self.holders = 0
        rendezvous_module.remove_stale()
        log = service_log.new(secrets.token_hex(3), options.arguments.cache_dir)
        command = [*options.command(), *(["--log-file", log] if log else [])]
        super().__init__("embedded service", command, timeout, cancelled, log)


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
