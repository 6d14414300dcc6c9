"""Ends what was dropped without close(), on a thread of its own.

The garbage collector runs destructors on any thread and at any allocation, also while that thread
holds a lock. So a destructor only queues here what is to be ended.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from typing import Any, Callable, Optional

# What ending a service may take, and a little more.
_FINISH_SECONDS = 15.0

# SimpleQueue.put is made for destructors: it may interrupt itself.
_jobs: "queue.SimpleQueue[Callable[[], Any]]" = queue.SimpleQueue()
_starting = threading.Lock()  # not taken by `bury`
_thread: Optional[threading.Thread] = None


def start() -> None:
    """Starts the thread. Call this before anything can be dropped: a destructor must not start a thread."""
    global _thread
    with _starting:
        if _thread is None:
            _thread = threading.Thread(
                target=_run, args=(_jobs,), name="bulkhead-reaper", daemon=True
            )
            _thread.start()


def bury(job: Callable[[], Any]) -> None:
    """Calls `job` soon, on the reaper's thread. Takes no lock and does not wait."""
    _jobs.put(job)


def _run(jobs) -> None:
    while True:
        job = jobs.get()
        try:
            job()
        except Exception:  # there is no caller left to report to
            pass
        del job  # else what it ended would live until the next one


def _finish() -> None:
    """At interpreter exit: waits until the jobs are done, or folders would be left behind."""
    if _thread is not None:
        done = threading.Event()
        bury(done.set)
        done.wait(_FINISH_SECONDS)


def _forget_in_child() -> None:
    global _jobs, _starting, _thread
    _jobs, _starting, _thread = queue.SimpleQueue(), threading.Lock(), None


atexit.register(_finish)
os.register_at_fork(after_in_child=_forget_in_child)
