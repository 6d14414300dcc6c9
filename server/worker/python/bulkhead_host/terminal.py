"""A worker has no terminal: code that waits for one is told so."""

from __future__ import annotations

import io
import sys


class NoTerminal(RuntimeError):
    """The function wants to talk to a person."""


def _refuse(what: str) -> NoTerminal:
    return NoTerminal(
        f"{what} in a worker, which has no terminal: call the function in your own process, with its real inputs, "
        'by bulkhead.try_stage("module:function", spec), where breakpoints and pdb work'
    )


class _NoInput(io.TextIOBase):
    """Standard input, from which input() and pdb read, too."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def read(self, *_):
        raise _refuse("input(), pdb or another read of sys.stdin")

    readline = __next__ = read


def deny() -> None:
    """From now on breakpoint(), pdb, input() and sys.stdin raise NoTerminal."""

    def breakpointhook(*_args, **_more):
        raise _refuse("breakpoint()")

    sys.breakpointhook = breakpointhook
    sys.stdin = _NoInput()
