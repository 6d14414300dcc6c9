"""A Loader, or an adapter around one, for people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict

from . import html
from .facts import line

if TYPE_CHECKING:
    from .._loader import Loader


def _opened_stream(loader: Loader) -> Any:
    """The stream of an open loader, or None. Asked for once: another thread may close the loader meanwhile."""
    stream = loader._stream
    return stream if stream is not None and stream.opened is not None and loader._is_open() else None


def _facts(loader: Loader, stream: Any) -> Dict[str, str]:
    facts = {
        "spec": loader._spec_name,
        "service": "closed",
        "epoch": str(loader._epoch),
        "batches": f"{loader._batches} seen",
    }
    if not loader._closed and loader._owner != os.getpid():
        return {**facts, "service": "of the process that this one was forked from"}
    if stream is None or loader._endpoint is None:
        return facts
    kind = "of its own at " if loader._endpoint.embedded else ""
    facts["service"] = f"{kind}{loader.target} over {stream.transport}"
    facts["batches"] += f", {loader._left} left in the epoch"
    if loader._open.world_size > 1:
        facts["rank"] = f"{loader.rank} of {loader._open.world_size}"
    return facts


def described(title: str, loader: Loader) -> str:
    """ "<Loader spec: train.yaml, service: …, epoch: 0, batches: 3 seen, outputs: …>". Raises nothing."""
    stream = _opened_stream(loader)
    facts = _facts(loader, stream)
    if stream is not None:
        facts["outputs"] = "; ".join(map(repr, loader._schema_of(stream)))
    return line(title, facts)


def described_html(title: str, loader: Loader) -> str:
    """The same as tables."""
    stream = _opened_stream(loader)
    parts = (loader._schema_of(stream)._table(),) if stream is not None else ()
    return html.card(title, _facts(loader, stream), *parts)
