"""Bulkhead for PyTorch.

    import bulkhead.torch

    for batch in bulkhead.torch.Dataset("train.yaml"):
        train(batch["image"], batch["label"])
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

import numpy as np
import torch
import torch.distributed
import torch.utils.data

from . import errors
from ._adapter import Adapter, Structure, as_bytes, fill, number_of_environment
from ._batch import Batch

__all__ = ["Dataset"]

_log = logging.getLogger("bulkhead")

_PATIENCE_SECONDS = 10.0  # then the log says whom a rank waits for
_NO_WORKERS = (
    "the service has worker processes of its own: give DataLoader num_workers=0, and the Loader or "
    "bulkheadd the number of workers"
)
# Ranks count these for themselves; everything else must agree.
_OWN_TO_RANKS = ("quarantined", "substitutions")


def _tensor(array: np.ndarray, dtype_name: str) -> torch.Tensor:
    """The array's memory as tensor, which keeps it; byte strings as uint8."""
    if dtype_name == "bytes":
        return torch.from_numpy(as_bytes(array))
    if dtype_name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _group_place(group: Any) -> Optional[Any]:
    """(rank, world size) in the process group; None when there is none."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(group), distributed.get_world_size(group)
    if group is not None:
        raise errors.InvalidArgument(
            "group is given, but torch.distributed is not initialized: call init_process_group"
        )
    return None


class _CudaCopy:
    """Copies on a stream of their own, from pinned memory that PyTorch keeps for reuse.

    The batch's slot is free as soon as its bytes lie in pinned memory.
    """

    def __init__(self, device: torch.device):
        if not torch.cuda.is_available():
            raise errors.InvalidArgument(f"device is '{device}', but PyTorch finds no GPU here")
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def send(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        with torch.cuda.stream(self._stream):
            copies = {
                name: tensor.pin_memory().to(self._device, non_blocking=True)
                for name, tensor in tensors.items()
            }
            return copies, self._stream.record_event()

    def arrive(self, sent: Any) -> Dict[str, torch.Tensor]:
        """Makes the caller's stream wait for the copies, not the caller."""
        copies, copied = sent
        current = torch.cuda.current_stream(self._device)
        current.wait_event(copied)
        for copy in copies.values():
            copy.record_stream(current)
        return copies


class _PlainCopy:
    """To any other device: `Tensor.to`, in the caller's time."""

    def __init__(self, device: torch.device):
        self._device = device

    def send(self, tensors: Mapping[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def arrive(self, sent: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        return sent


class Dataset(Adapter, torch.utils.data.IterableDataset):
    """Batches of a Bulkhead service as dicts of tensors.

        dataset = bulkhead.torch.Dataset("train.yaml", device="cuda")
        for epoch in range(10):
            for batch in dataset:             # what is left of one epoch
                train(batch["image"], batch["label"])

    Each element is a batch. A tensor views the memory in which the workers wrote it, without a
    copy, and keeps it: over shared memory a slot comes back when the last tensor on it dies, and
    `credits` of them may be held. Loops, `stream()`, `len`, `set_epoch` and errors are those of
    `bulkhead.Loader`; further keyword arguments go to it (`workers`, `cursor`, `credits` …).

    `structure` chooses and arranges the outputs: ("image", "label") gives tuples, {"x": "image"}
    renames; without it an element is a dict of all outputs. Byte strings come as uint8 with a last
    dimension of their bound, filled up with zeros.

    `rank` and `world_size` are those of the process group where torch.distributed is initialized
    (`group`, else the default one), else of the environment variables RANK and WORLD_SIZE, else 0
    and 1; arguments win. In a process group every rank must open a dataset at the same time:
    their cursors, batch sizes, numbers of batches and world sizes are compared, and a difference is
    CursorMismatch on all of them; records quarantined for one are for all. A rank that cannot open,
    or is gone, is OTHER_RANK_FAILED on the others; one that is late is waited for until the group's
    timeout, and the log says so after 10 s. No comparison takes place when `rank` or `world_size`
    is given without `group`. `load_state_dict` and a resume compare again.

    `device` copies elements there, `in_flight` of them (2 by default) ahead of the loop, the one
    that comes next included; to a GPU through pinned memory on a CUDA stream of its own. Without
    it `in_flight` is 1.

    Checkpoints: `state_dict` is the cursor after the last batch that the loop got, which makes it
    work by itself and in torchdata's StatefulDataLoader(dataset, batch_size=None). A DataLoader
    must have batch_size=None (an element is a batch already) and num_workers=0.

    Raises InvalidArgument when an output has a type that this PyTorch lacks, and what Loader
    raises.
    """

    def __init__(
        self,
        spec: Any,
        target: Optional[str] = None,
        *,
        structure: Optional[Structure] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        group: Any = None,
        device: Any = None,
        in_flight: Optional[int] = None,
        **options: Any,
    ):
        self._copy: Any = None
        if in_flight is None:
            in_flight = 1 if device is None else 2
        found = _group_place(group)
        told = rank is not None or world_size is not None
        self._group = group
        self._compares = found is not None and found[1] > 1 and (group is not None or not told)
        if found is None:
            found = (number_of_environment("RANK") or 0, number_of_environment("WORLD_SIZE") or 1)
        self._rank = found[0] if rank is None else rank
        self._world_size = found[1] if world_size is None else world_size

        failure: Optional[Exception] = None
        try:
            self._open(spec, target, structure, device, in_flight, options)
        except Exception as error:  # the other ranks wait for what this one says
            failure = error
        try:
            self._agree(failure)
        except BaseException:
            if failure is None:
                self.close()
            raise

    def _open(self, spec, target, structure, device, in_flight, options) -> None:
        if device is not None:
            place = torch.device(device)
            self._copy = (_CudaCopy if place.type == "cuda" else _PlainCopy)(place)
        super().__init__(spec, target, self._rank, self._world_size, structure, in_flight, options)
        wanted: List[str] = []
        fill(self._structure, wanted.append)
        self._outputs = [output for output in self.schema if output.name in wanted]
        for output in self._outputs:
            try:
                _tensor(np.empty((0, *output.shape), output.dtype), output.dtype_name)
            except TypeError:
                self.close()
                raise errors.InvalidArgument(
                    f"output '{output.name}' is {output.dtype_name}, which PyTorch "
                    f"{torch.__version__} has no tensors of: put a `cast` behind the spec's "
                    "stages, or leave the output out of the structure"
                ) from None

    # Elements.

    def __iter__(self):
        if torch.utils.data.get_worker_info() is not None:
            raise errors.InvalidArgument(_NO_WORKERS)
        return super().__iter__()

    def __reduce__(self):
        raise errors.InvalidArgument(f"a Dataset cannot go to another process; {_NO_WORKERS}")

    def _send(self, batch: Batch) -> Any:
        tensors = {
            output.name: _tensor(batch[output.name], output.dtype_name) for output in self._outputs
        }
        return tensors if self._copy is None else self._copy.send(tensors)

    def _arrive(self, sent: Any) -> Any:
        tensors = sent if self._copy is None else self._copy.arrive(sent)
        return fill(self._structure, tensors.__getitem__)

    # Checkpoints.

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a cursor; what was fetched ahead is dropped.

        In a process group all ranks must call it at the same time, and are compared again.
        """
        failure: Optional[Exception] = None
        try:
            super().load_state_dict(state)
        except Exception as error:
            failure = error
        self._agree(failure)

    def _agree(self, failure: Optional[Exception]) -> None:
        """All ranks go on from the same place, or all raise."""
        if not self._compares:
            if failure is not None:
                raise failure
            return
        mine = _Standing(None, str(failure), {})
        if failure is None:
            sizes = {
                "batch size": self.batch_size,
                "batches per epoch": self.batches_per_epoch,
                "world size": self._world_size,
            }
            mine = _Standing(self.state_dict(), "", sizes)
        try:
            all_ranks = _said_by_all(mine, self._group)
        except RuntimeError as error:
            raise failure or _other_rank_failed(
                f"this rank could not compare its place with the others' ({error}): every rank "
                "must construct its Dataset, and load states, at the same time; see why one is gone"
            ) from error
        if failure is not None:
            raise failure
        cursor = _common_cursor(all_ranks)
        if cursor != self.state_dict():
            super().load_state_dict(cursor)


class _Standing(NamedTuple):
    """What a rank tells the others."""

    cursor: Optional[Dict[str, Any]]
    failure: str
    sizes: Mapping[str, int]


def _other_rank_failed(text: str) -> errors.BulkheadError:
    return errors.BulkheadError(text, "OTHER_RANK_FAILED", code="FAILED_PRECONDITION")


def _said_by_all(mine: _Standing, group: Any) -> List[_Standing]:
    """What every rank tells, by rank. Waits for all of them, for as long as the group's timeout."""
    warning = threading.Timer(
        _PATIENCE_SECONDS,
        _log.warning,
        (
            "rank %d waits for the other ranks: every rank of the process group must construct its "
            "Dataset, and load states, at the same time",
            torch.distributed.get_rank(group),
        ),
    )
    warning.daemon = True
    warning.start()
    try:
        said: List[Any] = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(said, mine, group=group)
    finally:
        warning.cancel()
        warning.join()  # a thread that is left when the interpreter ends may abort the process
    return [_Standing(*standing) for standing in said]


def _common_cursor(ranks: List[_Standing]) -> Dict[str, Any]:
    """The cursor of all: their quarantined records together, the most substitutions."""
    failed = [number for number, rank in enumerate(ranks) if rank.cursor is None]
    if failed:
        raise _other_rank_failed(
            "other ranks could not open their stream: "
            + "; ".join(f"rank {number}: {ranks[number].failure}" for number in failed)
        )
    facts = [_facts(rank) for rank in ranks]
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
    cursors = [rank.cursor for rank in ranks if rank.cursor is not None]
    if any("completed" in cursor for cursor in cursors):
        raise errors.CursorMismatch(
            "the cursor stands amid batches that one rank got out of turn (deterministic: false), "
            "and other ranks got others: resume from the end of an epoch, or give `rank` and "
            "`world_size` without `group` and each rank its own cursor",
            code="FAILED_PRECONDITION",
        )
    return {
        **cursors[0],
        "quarantined": sorted({record for cursor in cursors for record in cursor["quarantined"]}),
        "substitutions": max(cursor["substitutions"] for cursor in cursors),
    }


def _facts(rank: _Standing) -> Dict[str, Any]:
    assert rank.cursor is not None
    cursor = {name: value for name, value in rank.cursor.items() if name not in _OWN_TO_RANKS}
    return {**cursor, **rank.sizes}
