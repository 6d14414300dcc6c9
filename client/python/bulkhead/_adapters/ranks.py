"""How the ranks of a job make sure that they read one data set in step."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional

from .. import errors
from .._boundary import public
from .adapter import Adapter

_log = logging.getLogger("bulkhead")

PATIENCE_SECONDS = 10.0  # then the log says whom a rank waits for
# Ranks count these for themselves; everything else must agree.
_OWN_TO_RANKS = ("quarantined", "substitutions")


class Standing(NamedTuple):
    """What a rank sends to the others; only strings, numbers, lists and dicts."""

    cursor: Optional[Dict[str, Any]]  # None when the rank could not open
    failure: str  # then why
    sizes: Mapping[str, int]


@public
class RankedAdapter(Adapter):
    """An adapter whose ranks compare where they stand when they open, and when they load a state.

    _open_together → each rank tries → _said_by_all → all go on from one cursor, or all raise

    A framework gives `_said_by_all`, its own way from process to process.
    """

    _world_size: int
    _compares = False  # set before `_open_together`

    def _said_by_all(self, mine: Standing) -> List[Standing]:
        """What every rank sent, by rank. RuntimeError if a rank is gone or does not come."""
        raise NotImplementedError

    def _open_together(self, open_mine: Callable[[], None]) -> None:
        failure: Optional[Exception] = None
        try:
            open_mine()
        except Exception as error:  # the other ranks wait for what this one says
            failure = error
        try:
            self._agree(failure)
        except BaseException:
            if failure is None:
                self.close()
            raise

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a cursor; what was fetched ahead is dropped. Raises as Loader does.

        Where ranks are compared, all must call it at the same time, and are compared again.
        """
        failure: Optional[Exception] = None
        try:
            super().load_state_dict(state)
        except Exception as error:
            failure = error
        self._agree(failure)

    def _agree(self, failure: Optional[Exception]) -> None:
        """All ranks continue from the same place, or all raise."""
        if not self._compares:
            if failure is not None:
                raise failure
            return
        mine = Standing(None, str(failure), {})
        if failure is None:
            sizes = {
                "batch size": self.batch_size,
                "batches per epoch": self.batches_per_epoch,
                "world size": self._world_size,
            }
            mine = Standing(self.state_dict(), "", sizes)
        try:
            all_ranks = self._said_by_all(mine)
        except RuntimeError as error:
            raise failure or _other_rank_failed(
                f"this rank could not compare its place with the others' ({error}): every rank "
                f"must construct its {type(self).__name__}, and load states, at the same time; see "
                "why one is gone"
            ) from error
        if failure is not None:
            raise failure
        cursor = _common_cursor(all_ranks)
        if cursor != self.state_dict():
            super().load_state_dict(cursor)


@contextlib.contextmanager
def waiting_aloud(rank: int, what: str) -> Iterator[None]:
    """Logs a warning when the block takes long; `what` is the class that every rank constructs."""
    warning = threading.Timer(
        PATIENCE_SECONDS,
        _log.warning,
        (
            "rank %d waits for the other ranks: every rank of the job must construct its %s, and "
            "load states, at the same time",
            rank,
            what,
        ),
    )
    warning.daemon = True
    warning.start()
    try:
        yield
    finally:
        warning.cancel()
        warning.join()  # a thread that is left when the interpreter ends may abort the process


def _other_rank_failed(text: str) -> errors.BulkheadError:
    return errors.BulkheadError(text, "OTHER_RANK_FAILED", code="FAILED_PRECONDITION")


def _common_cursor(ranks: List[Standing]) -> Dict[str, Any]:
    """The cursor of all: their quarantined records together, the most substitutions."""
    failed = [number for number, rank in enumerate(ranks) if rank.cursor is None]
    if failed:
        raise _other_rank_failed(
            "other ranks could not open their stream: "
            + "; ".join(f"rank {number}: {ranks[number].failure}" for number in failed)
        )
    cursors = [rank.cursor for rank in ranks if rank.cursor is not None]
    later = [file for cursor in cursors for file in cursor.get("code", ()) if file.get("later")]
    # A rank that has not loaded a file yet differs from none.
    facts = [{**_code_facts(later), **_facts(rank)} for rank in ranks]
    differing = [
        f"rank {number} has {name} {facts[number].get(name)!r}, rank 0 has {facts[0].get(name)!r}"
        for number in range(1, len(ranks))
        for name in sorted({*facts[0], *facts[number]})
        if facts[number].get(name) != facts[0].get(name)
    ]
    if differing:
        raise errors.CursorMismatch(
            "the ranks would not read one data set in step: "
            + "; ".join(differing)
            + "; resume all ranks from one checkpoint, with one spec and one batch size",
            code="FAILED_PRECONDITION",
        )
    if any("completed" in cursor for cursor in cursors):
        raise errors.CursorMismatch(
            "the cursor stands amid batches that one rank got out of turn (deterministic: false), "
            "and other ranks got others: resume from the end of an epoch, or compare nothing (say "
            "`rank` and `world_size` yourself) and give each rank its own cursor",
            code="FAILED_PRECONDITION",
        )
    code = {file["name"]: file for file in (*later, *cursors[0].get("code", ()))}
    return {
        **cursors[0],
        **({"code": [code[name] for name in sorted(code)]} if code else {}),
        "quarantined": sorted({record for cursor in cursors for record in cursor["quarantined"]}),
        "substitutions": max(cursor["substitutions"] for cursor in cursors),
    }


def _facts(rank: Standing) -> Dict[str, Any]:
    assert rank.cursor is not None
    cursor = {name: value for name, value in rank.cursor.items() if name not in _OWN_TO_RANKS}
    code = _code_facts(cursor.pop("code", ()))
    return {**cursor, **code, **rank.sizes}


def _code_facts(files: Iterable[Mapping[str, Any]]) -> Dict[str, Any]:
    return {f"code of {file['name']}": file["digest"] for file in files}
