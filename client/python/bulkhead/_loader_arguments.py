"""Checks the arguments of a Loader: unknown names and impossible values."""

from __future__ import annotations

import inspect
import numbers
import os
import re
from typing import Any, Collection, Mapping, Sequence

from . import errors
from ._boundary import meant
from ._rpc import proto
from ._spec.spec_input import SpecInput
from ._words import did_you_mean, nearest

_TRANSPORTS = ("auto", "shm", "grpc")

_BATCH = "write batch: {size: N} in the spec"
_ORDER = "write order: global in the spec"
_STAGES = "write `stages` in the spec"
_AHEAD = "leave it out: the service works ahead by itself"
_RANKS = "give rank= and world_size="
# Arguments of PyTorch's DataLoader and of Keras's and TensorFlow's data sets, and what does that here; N is what was given.
_FOREIGN = {
    "batch_sampler": _ORDER,
    "batch_size": _BATCH,
    "buffer_size": _ORDER,
    "collate_fn": "samples become batches by the spec's batch and batch_stages",
    "directory": "the first argument is the spec: Loader({'source': {'image_folder': {'path': ...}}, ...})",
    "drop_last": "write batch: {size: N, last: drop} in the spec",
    "drop_remainder": "write batch: {size: N, last: drop} in the spec",
    "epochs": "write epochs: N in the spec",
    "image_size": "write `resize` among the spec's stages",
    "max_queue_size": "give credits=N",
    "num_parallel_calls": "give workers=N",
    "num_replicas": _RANKS,
    "num_shards": _RANKS,
    "num_workers": "give workers=N",
    "persistent_workers": "leave it out: the workers are the service's, and stay",
    "pin_memory": "leave it out: bulkhead.torch.Dataset(spec, device='cuda') copies through pinned memory",
    "prefetch": _AHEAD,
    "prefetch_factor": _AHEAD,
    "sampler": _ORDER,
    "seed": "write seed: N in the spec",
    "shard": _RANKS,
    "shuffle": _ORDER,
    "transform": _STAGES,
    "transforms": _STAGES,
    "use_multiprocessing": "leave it out: the service has worker processes",
    "validation_split": "write `split` in the spec",
    "worker_init_fn": "leave it out: a Python stage's module is imported once in each worker",
}


def refuse_unknown(
    owner: type, given: Mapping[str, Any], *more: type, without: Collection[str] = ()
) -> None:
    """TypeError for the first argument that neither `owner` nor a class in `more` has; `without`: names not to advise."""
    known = [
        name
        for cls in (owner, *more)
        for name, parameter in inspect.signature(cls.__init__).parameters.items()  # type: ignore[misc]
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    for name, value in given.items():
        if name in known:
            continue
        text = f"{owner.__name__} has no argument {name!r}"
        advisable = [each for each in dict.fromkeys(known) if each not in without]
        advice = _FOREIGN.get(_foreign(name, advisable), "")
        if type(value) is int and value > 0:
            advice = re.sub(r"\bN\b", str(value), advice)
        raise meant(TypeError(f"{text}; {advice}" if advice else text + did_you_mean(name, advisable)))


def _foreign(name: str, known: Sequence[str]) -> str:
    """The argument of another library that `name` is, or is nearer to than to a known one; empty: none."""
    others = [each for each in _FOREIGN if each not in known]
    own = nearest(name, known, 0.8)
    # Nearly the same word, or the only one that is near.
    near = nearest(name, [own, *others] if own else others, 0.8) or (nearest(name, others) if not nearest(name, known) else "")
    return near if near in others else ""


def _check_kinds(whole: Mapping[str, Any], seconds: Mapping[str, Any], name: Any, cache_dir: Any) -> None:
    """InvalidArgument for the first value of another type."""
    for each, value in whole.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise errors.InvalidArgument(f"{each} must be a whole number, not {value!r:.60}")
    for each, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise errors.InvalidArgument(f"{each} must be a number of seconds, not {value!r:.60}")
    if name is not None and not isinstance(name, str):
        raise errors.InvalidArgument(f"name must be a text, not {name!r:.60}")
    if cache_dir is not None and not isinstance(cache_dir, (str, os.PathLike)):
        raise errors.InvalidArgument(f"cache_dir must be the path of a folder, not {cache_dir!r:.60}")


def check(
    *,
    name: Any,
    cache_dir: Any,
    rank: int,
    world_size: int,
    credits: int,
    credit_bytes: int,
    timeout: float,
    reconnect_timeout: float,
    copy_below: int,
    transport: str,
    share: Any,
    cursor: Any,
    **_: Any,
) -> None:
    """InvalidArgument for the first impossible value; other arguments of a Loader are not looked at."""
    whole = {"rank": rank, "world_size": world_size, "credits": credits, "credit_bytes": credit_bytes, "copy_below": copy_below}
    _check_kinds(whole, {"timeout": timeout, "reconnect_timeout": reconnect_timeout}, name, cache_dir)
    if world_size < 1 or not 0 <= rank < world_size:
        advice = "; give world_size= too, the number of ranks" if world_size == 1 and rank > 0 else ""
        raise errors.InvalidArgument(f"rank {rank} is not below world_size {world_size}{advice}")
    if not 1 <= credits < 1 << 32:
        raise errors.InvalidArgument(f"credits lies between 1 and {(1 << 32) - 1}, and is {credits}")
    if not timeout > 0:
        raise errors.InvalidArgument(f"timeout must be a number of seconds above 0, not {timeout!r}")
    if cursor is not None:
        check_cursor(cursor)
    if not 0 <= credit_bytes < 1 << 64:
        raise errors.InvalidArgument("credit_bytes must not be negative")
    if copy_below < 0:
        raise errors.InvalidArgument("copy_below must not be negative; 0 copies nothing")
    if reconnect_timeout < 0:
        raise errors.InvalidArgument("reconnect_timeout must not be negative")
    if not isinstance(share, bool):
        raise errors.InvalidArgument(f"share is True or False, not {share!r:.60}")
    if transport not in _TRANSPORTS:
        raise errors.InvalidArgument(
            f"transport is one of {', '.join(_TRANSPORTS)}, not {transport!r}"
        )


def check_cursor(cursor: Any) -> None:
    """InvalidArgument for what cannot be a cursor."""
    if not (isinstance(cursor, Mapping) and cursor):
        raise errors.InvalidArgument(
            f"cursor must be the dict that state_dict() gave, not {cursor!r:.60}; json.loads "
            "reads one from its text, and without a cursor a stream begins at its start"
        )


def open_request(
    spec: SpecInput,
    name: str,
    rank: int,
    world_size: int,
    credits: int,
    credit_bytes: int,
    allow_changed_bytes: bool,
    share: bool = False,
) -> Any:
    """The part of Open that is the same for each opening of a stream."""
    return proto.Open(
        spec={"text": {"text": spec.text, "name": spec.name}, "base_dir": spec.base_dir},
        name=name,
        rank=rank,
        world_size=world_size,
        # One batch may always be sent; 0 would ask for the service's default.
        credits={"batches": credits, "bytes": max(credit_bytes, 1)},
        allow_changed_bytes=allow_changed_bytes,
        share=share,
    )
