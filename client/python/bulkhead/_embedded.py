"""A service that this process started for itself; it ends with the last loader that uses it."""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from typing import Callable, Dict, List, Optional, Tuple

from ._runtime_folder import RuntimeFolder
from .errors import DeadlineExceeded, LoaderClosed, ServiceNotFound, ServiceStartFailed

_LAST_WORDS_BYTES = 8192
_TERM_GRACE_SECONDS = 10.0
_KILL_GRACE_SECONDS = 10.0

_Key = Tuple[str, Optional[int], Optional[int], Optional[str]]


class _Entry:
    """The service of one key."""

    def __init__(self) -> None:
        self.spawning = threading.Lock()  # held while one starts, so that two loaders start one
        self.service: Optional["EmbeddedService"] = None


_lock = threading.Lock()  # guards what follows and all `holders`; held for moments only
_entries: Dict[_Key, _Entry] = {}


def find_program() -> str:
    """$BULKHEAD_SERVER, else bulkheadd on the PATH or beside the interpreter."""
    asked = os.environ.get("BULKHEAD_SERVER", "")
    if asked:
        if os.path.isfile(asked) and os.access(asked, os.X_OK):
            return asked
        raise ServiceNotFound(
            f"BULKHEAD_SERVER names '{asked}', which is not a program", metadata={"program": asked}
        )
    own = os.path.dirname(os.path.abspath(sys.executable or "python"))
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), own, os.path.join(own, "../bin")])
    found = shutil.which("bulkheadd", path=path)
    if found is None:
        raise ServiceNotFound(
            "no target was given and the program bulkheadd was found neither through "
            "$BULKHEAD_SERVER nor on the PATH; install Bulkhead's server (bulkheadd and "
            "bulkhead-worker), set BULKHEAD_SERVER to bulkheadd, or give the target of a running "
            "service"
        )
    return found


def _python_options() -> List[str]:
    """Python stages run in this interpreter, and may come from wherever this process imports from.

    But for the standard library: functions in it were written for other ends.
    """
    if not sys.executable:
        return []
    library = {os.path.realpath(path) for key, path in sysconfig.get_paths().items() if "stdlib" in key}
    options = ["--python", sys.executable]
    for entry in dict.fromkeys(os.path.realpath(entry or os.getcwd()) for entry in sys.path):
        dynamic = os.path.basename(entry) == "lib-dynload"
        if os.path.isdir(entry) and entry not in library and not dynamic:
            options += ["--python-path", entry]
    return options if len(options) > 2 else []


class EmbeddedService:
    """spawn → "ready" → serving → last holder gone → TERM … KILL, reaped, folder removed.

    A forked child leaves its parent's services alone. Thread-safe.
    """

    def __init__(self, key: _Key, timeout: float, cancelled: Callable[[], bool]):
        program, workers, threads, cache_dir = key
        self._key = key
        self._owner = os.getpid()
        self._last_words = b""
        self.holders = 0
        self._folder = RuntimeFolder()
        socket = os.path.join(self._folder.path, "s.sock")
        self.target = "unix:" + socket
        ready, ready_child = os.pipe()
        command = [program, "--embedded", "--watch-pid", str(self._owner)]
        command += ["--listen", self.target, "--ready-fd", str(ready_child)]
        command += _python_options()
        for flag, value in (("workers", workers), ("threads", threads), ("cache-dir", cache_dir)):
            if value is not None:
                command += ["--" + flag, str(value)]
        try:
            # A session of its own: Ctrl-C at the trainer must not end the service before it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(ready_child,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(ready)
            self._folder.remove()
            raise ServiceStartFailed(f"cannot start {program}: {error.strerror}") from None
        finally:
            os.close(ready_child)
        self._reader = threading.Thread(
            target=self._keep_last_words, name="bulkhead-stderr", daemon=True
        )
        self._reader.start()
        try:
            self._await_ready(ready, timeout, cancelled)
        except BaseException:
            self.stop()
            raise
        finally:
            os.close(ready)

    def _keep_last_words(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while True:
            try:
                data = os.read(stderr.fileno(), 4096)
            except (OSError, ValueError):
                return
            if not data:
                return
            self._last_words = (self._last_words + data)[-_LAST_WORDS_BYTES:]

    def _await_ready(self, ready: int, timeout: float, cancelled: Callable[[], bool]) -> None:
        until = time.monotonic() + timeout
        said = b""
        poller = select.poll()  # select.select() fails for descriptors above 1023
        poller.register(ready, select.POLLIN)
        while not (said.startswith(b"ready") and b"\n" in said):  # "ready ADDRESS\n"
            left = until - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded(f"the embedded service was not ready within {timeout:.3g} s")
            if cancelled():
                raise LoaderClosed("the loader is closed")
            if not poller.poll(min(left, 0.05) * 1000):
                continue
            data = os.read(ready, 256)
            if not data:
                why = self.post_mortem() or "it closed its ready descriptor and runs on"
                raise ServiceStartFailed(f"the embedded service did not start: {why}")
            said += data

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
        self._reader.join(0.5)
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        words = self._last_words.decode("utf-8", "replace").strip()
        text = f"the embedded service (pid {self._process.pid}) {how}"
        return f"{text}; its last words: {words}" if words else text

    def stop(self) -> None:
        """Ends it, reaps it and removes its folder. May be called twice."""
        if self._owner != os.getpid():
            return
        if self._process.poll() is None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)  # a stopped one would not hear of it
            try:
                self._process.wait(_TERM_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill()
        self._reader.join(1.0)
        if not self._reader.is_alive() and self._process.stderr is not None:
            self._process.stderr.close()
        self._folder.remove()

    def kill(self) -> None:
        """At once; for one that is stuck. Its holders find it dead."""
        if self._owner == os.getpid() and self._process.poll() is None:
            self._kill()

    def _kill(self) -> None:
        self._process.kill()
        try:
            self._process.wait(_KILL_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # stuck in the kernel; it ends when the kernel lets go of it


def acquire(
    workers: Optional[int],
    threads: Optional[int],
    cache_dir: Optional[str],
    timeout: float,
    cancelled: Callable[[], bool] = lambda: False,
) -> EmbeddedService:
    """The process's service with these options; every acquire needs one release.

    `cancelled` is asked now and then while a service starts; then LoaderClosed.
    """
    key = (find_program(), workers, threads, cache_dir)
    until = time.monotonic() + timeout
    with _lock:
        entry = _entries.setdefault(key, _Entry())
    while not entry.spawning.acquire(timeout=0.05):  # another loader starts it
        if cancelled():
            raise LoaderClosed("the loader is closed")
        if time.monotonic() >= until:
            raise DeadlineExceeded(f"the embedded service was not ready within {timeout:.3g} s")
    try:
        with _lock:
            service = entry.service
            if service is not None and service.alive():
                service.holders += 1
                return service
        service = EmbeddedService(key, until - time.monotonic(), cancelled)
        with _lock:
            entry.service = service
            service.holders += 1
            return service
    finally:
        entry.spawning.release()


def release(service: EmbeddedService) -> None:
    """Ends the service when nobody else holds it; that may take seconds."""
    with _lock:
        service.holders -= 1
        if service.holders > 0:
            return
        entry = _entries.get(service._key)
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
