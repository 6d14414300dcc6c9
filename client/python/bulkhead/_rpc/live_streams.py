"""The streams of this process, and what a fork and the interpreter's end make of them."""

from __future__ import annotations

import os
from typing import Any, List, Set

from .. import errors

_live: Set[Any] = set()
# Streams that a forked child inherited; their destructors must not run there.
_inherited: List[Any] = []


def add(stream: Any) -> None:
    """`stream.close()` is called at the interpreter's end."""
    _live.add(stream)


def discard(stream: Any) -> None:
    _live.discard(stream)


def check_fork() -> None:
    """Raises in a child that was forked while its parent had a stream.

    gRPC cannot be used there: both processes wait on one epoll instance, and what the child adds to
    it crashes the parent.
    """
    if _inherited:
        raise errors.BulkheadError(
            "this process was forked from one that had an open loader, and gRPC cannot be used in it: "
            "start it by multiprocessing's spawn method, or fork before the first loader is opened "
            "(with PyTorch's DataLoader: num_workers=0, the service has its own workers)",
            "FORKED",
            code="FAILED_PRECONDITION",
        )


def close_all() -> None:
    """At interpreter exit: gRPC's threads must not outlive the interpreter."""
    for stream in list(_live):
        stream.close()


def _keep_in_child() -> None:
    _inherited.extend(_live)
    _live.clear()


os.register_at_fork(after_in_child=_keep_in_child)
