"""A program that this process started for itself, which serves at a private Unix socket."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Callable, List

from ..errors import OutOfThreads
from . import runtime_folder, service_log, service_process
from .runtime_folder import RuntimeFolder


class OwnProcess:
    """spawn → "ready" → serving → `stop`: TERM … KILL, reaped, folder removed. It ends with this process, too.

    A forked child leaves its parent's alone. Thread-safe.
    """

    def __init__(
        self, what: str, command: List[str], timeout: float, cancelled: Callable[[], bool], log: str = ""
    ):
        """`what` it is, for errors, which are those of service_process; `log`: the path of its log, or empty."""
        self._what = what
        self._owner = os.getpid()
        self.log = log
        runtime_folder.remove_stale()
        self._folder = RuntimeFolder()
        self.target = "unix:" + os.path.join(self._folder.path, "s.sock")
        command = [*command, "--watch-pid", str(self._owner), "--listen", self.target]
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
            raise OutOfThreads(f"the {what} cannot be listened to: {failure}") from None
        try:
            service_process.await_ready(ready, timeout, cancelled, self.post_mortem, what)
        except BaseException as error:
            self.stop()
            service_log.name_in(error, log)
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
        return service_process.how_it_ended(self.pid, code, self._last_words.get(), self.log, self._what)

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
