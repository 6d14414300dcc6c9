"""The program of a service that this process starts, and how it is started."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from typing import IO, Callable, List, NamedTuple, Optional, Tuple, Union

from ..errors import DeadlineExceeded, LoaderClosed, ServiceNotFound, ServiceStartFailed
from .arguments import Arguments, in_arguments

LAST_WORDS_BYTES = 8192
_FATAL = "bulkheadd: "  # stands before what ended it; warnings may stand before that
_OF_EVERY_DAY = re.compile(r"^[0-9-]+T\S+ (?:debug|info) .*\n?", re.MULTILINE)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The stages of bulkhead.try_stage and of datasets.
_OWN_STAGES = [os.path.join(_PACKAGE, room, "worker") for room in ("_trial", "_dataset")]
# The wheel for this platform brings it; the client-only wheel and the repository do not.
_OF_THE_WHEEL = os.path.join(os.path.dirname(_PACKAGE), "bulkhead_programs", "bin", "bulkheadd")
TERM_GRACE_SECONDS = 10.0
KILL_GRACE_SECONDS = 10.0


class Options(NamedTuple):
    """The arguments of a service. Loaders of a process with equal arguments share it."""

    program: str
    arguments: Arguments

    def command(self) -> List[str]:
        return [self.program, "--embedded", *_python_options(), *self.arguments.flags()]


def find_program() -> str:
    """$BULKHEAD_SERVER, else bulkheadd of the wheel with this package, else on the PATH or beside the interpreter."""
    asked = os.environ.get("BULKHEAD_SERVER", "")
    if asked:
        if os.path.isfile(asked) and os.access(asked, os.X_OK):
            return os.path.abspath(asked)
        raise ServiceNotFound(
            f"BULKHEAD_SERVER names '{asked}', which is not a program", metadata={"program": asked}
        )
    if os.access(_OF_THE_WHEEL, os.X_OK):
        return _OF_THE_WHEEL
    own = os.path.dirname(os.path.abspath(sys.executable or "python"))
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), own, os.path.join(own, "../bin")])
    found = shutil.which("bulkheadd", path=path)
    if found is None:
        raise ServiceNotFound(
            "no target was given and the program bulkheadd was found neither through "
            "$BULKHEAD_SERVER nor on the PATH; install Bulkhead's server (bulkheadd, bulkhead-worker "
            "and bulkhead-fetch: the wheel for Linux on x86-64 brings them), set BULKHEAD_SERVER to "
            "bulkheadd, or give the target of a running service"
        )
    return os.path.abspath(found)  # a relative folder of the PATH is another one after chdir


def _python_options() -> List[str]:
    """Python stages run in this interpreter, and may come from wherever this process imports from.

    Except the standard library: its functions are not meant as stages.
    """
    if not sys.executable:
        return []
    library = {os.path.realpath(path) for key, path in sysconfig.get_paths().items() if "stdlib" in key}
    options = ["--python", sys.executable]
    for entry in dict.fromkeys(os.path.realpath(entry or os.getcwd()) for entry in [*sys.path, *_OWN_STAGES]):
        dynamic = os.path.basename(entry) == "lib-dynload"
        if os.path.isdir(entry) and entry not in library and not dynamic:
            options += ["--python-path", entry]
    return options if len(options) > 2 else []


def start(command: List[str], stderr: Union[int, IO[bytes]]) -> Tuple["subprocess.Popen[bytes]", int]:
    """The process, and the descriptor at which it says that it is ready, which is the caller's."""
    try:
        ready, ready_child = os.pipe()
    except OSError as error:
        raise ServiceStartFailed(f"cannot start {command[0]}: {error.strerror}") from None
    try:
        # A session of its own: Ctrl-C at the trainer must not end the service before it.
        process = subprocess.Popen(
            [*command, "--ready-fd", str(ready_child)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(ready_child,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(ready)
        raise ServiceStartFailed(f"cannot start {command[0]}: {error.strerror}") from None
    finally:
        os.close(ready_child)
    return process, ready


def await_ready(
    ready: int, timeout: float, cancelled: Callable[[], bool], post_mortem: Callable[[], str], what: str = "embedded service"
) -> str:
    """Waits until the service is ready; its address. `what` it is, for errors: DeadlineExceeded, LoaderClosed, ServiceStartFailed."""
    until = time.monotonic() + timeout
    said = b""
    poller = select.poll()  # select.select() fails for descriptors above 1023
    poller.register(ready, select.POLLIN)
    while not (said.startswith(b"ready") and b"\n" in said):  # "ready ADDRESS\n"
        left = until - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(f"the {what} was not ready within {timeout:.3g} s")
        if cancelled():
            raise LoaderClosed("the loader is closed")
        if not poller.poll(min(left, 0.05) * 1000):
            continue
        data = os.read(ready, 256)
        if not data:
            why = post_mortem() or "it closed its ready descriptor and runs on"
            raise ServiceStartFailed(f"the {what} did not start: {why}")
        said += data
    return said.decode().partition(" ")[2].strip()


class LastWords:
    """Keeps the end of what a process writes to its standard error. Thread-safe."""

    def __init__(self, stderr: IO[bytes]):
        """RuntimeError without a thread to be had."""
        self._stderr = stderr
        self._kept = b""
        self._reader = threading.Thread(target=self._read, name="bulkhead-stderr", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._stderr.fileno(), 4096)
            except (OSError, ValueError):
                return
            if not data:
                return
            self._kept = (self._kept + data)[-LAST_WORDS_BYTES:]

    def get(self) -> bytes:
        """Of a process that has ended: waits a moment until all is read."""
        self._reader.join(0.5)
        return self._kept

    def close(self) -> None:
        """Closes what it reads from, unless another process still holds the other end."""
        self._reader.join(1.0)
        if not self._reader.is_alive():
            self._stderr.close()


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    try:
        process.wait(KILL_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass  # stuck in the kernel; it ends when the kernel releases it


def how_it_ended(pid: int, code: Optional[int], last_words: bytes, log: str, what: str = "embedded service") -> str:
    """For an error's text; `code` as subprocess has it, None if it is unknown; `log`: its path, or empty."""
    how = "ended"
    if code is not None:
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
    said = _OF_EVERY_DAY.sub("", last_words.decode("utf-8", "replace"))
    words = in_arguments(said[max(0, said.rfind(_FATAL)) :].removeprefix(_FATAL)).strip()
    text = f"the {what} (pid {pid}) {how}"
    text += f"; its log is {log}" if os.path.exists(log) else ""
    return f"{text}; its last words: {words}" if words else text
