"""What the user's code prints, logs and warns of: for the service's log as written, and, line by line, for trainers' logs."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import threading
import warnings

# A level of logging, the function that runs or ran last, the text.
NOTE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)

_MOST_LINE = 4096  # characters; the trainer's log takes fewer

_sender = None
_context = None
_running = ""  # the function that runs or ran last
_quiet = threading.local()  # .depth above 0: what this thread writes was noted already
_formatter = logging.Formatter()


def send_to(note, context) -> int:
    """From now on every line is also given to `note`, a NOTE, which does not wait."""
    global _sender, _context
    _sender, _context = note, context
    return 1


def now_runs(function: str) -> None:
    global _running
    _running = function


def _tell(level: int, text: str) -> None:
    if _sender is not None and text.strip():
        _sender(_context, level, _running.encode(), text.encode("utf-8", "replace").replace(b"\0", b"\\x00"))


@contextlib.contextmanager
def _noted():
    """What this thread writes meanwhile is not noted again."""
    _quiet.depth = getattr(_quiet, "depth", 0) + 1
    try:
        yield
    finally:
        _quiet.depth -= 1


class _Stream:
    """Standard output or error: goes to the service's log, and as lines to trainers' logs.

    A failure to write is no error of a sample.
    """

    def __init__(self, stream, level: int):
        self._stream = stream
        self._level = level
        self._lock = threading.RLock()  # a finalizer may print in between
        self._line = ""

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not getattr(_quiet, "depth", 0):
            self._note(text)
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def _note(self, text: str) -> None:
        with self._lock:
            # A progress bar returns to the line's beginning.
            *lines, rest = (self._line + text[: 64 * _MOST_LINE]).replace("\r", "\n").split("\n")
            if len(rest) > _MOST_LINE:
                lines.append(rest)
                rest = ""
            self._line = rest
        for line in lines:
            _tell(self._level, line)

    def writelines(self, lines) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            pass

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


def _watch_logging() -> None:
    call_handlers = logging.Logger.callHandlers

    def noted(self, record) -> None:
        try:
            text = _formatter.format(record)
        except Exception:  # wrong arguments, which the handlers complain about
            try:
                text = str(record.msg)
            except Exception:
                text = f"a record that cannot be written, of {record.pathname}:{record.lineno}"
        _tell(record.levelno, text if record.name == "root" else f"{record.name}: {text}")
        with _noted():
            call_handlers(self, record)

    logging.Logger.callHandlers = noted
    # Trainers choose what they want to see.
    logging.getLogger().setLevel(logging.INFO)


def _watch_warnings() -> None:
    show = warnings.showwarning

    def noted(message, category, filename, lineno, file=None, line=None) -> None:
        _tell(logging.WARNING, f"{os.path.basename(filename)}:{lineno}: {category.__name__}: {message}")
        with _noted():
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = noted


def watch() -> None:
    """Notes what is printed, logged and warned of from now on."""
    # Both go to the service's log. Buffered standard output would be lost when the worker ends.
    stream = sys.stderr
    sys.stdout, sys.stderr = _Stream(stream, logging.INFO), _Stream(stream, logging.WARNING)
    _watch_logging()
    _watch_warnings()
