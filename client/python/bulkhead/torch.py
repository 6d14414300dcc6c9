"""Bulkhead for PyTorch.

    import bulkhead.torch

    for batch in bulkhead.torch.Dataset("train.yaml"):
        train(batch["image"], batch["label"])
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
import torch
import torch.distributed
import torch.utils.data

from . import errors
from ._adapters.adapter import Structure, Validation, as_bytes, fill, number_of_environment
from ._adapters.ranks import RankedAdapter, Standing, waiting_aloud
from ._adapters.torch_device import Cuda, CudaCopy, PlainCopy
from ._adapters.torch_loader import DataLoader
from ._adapters.torch_values import tensor_of
from ._batch.batch import Batch
from ._batch.normalization import Normalization
from ._boundary import public

__all__ = ["DataLoader", "Dataset"]

_NO_WORKERS = (
    "the service has worker processes of its own: give DataLoader num_workers=0, and the Loader or "
    "bulkheadd the number of workers"
)
_NO_BATCHING = (
    "an element is a batch already, and a DataLoader that collects several of them to one would hold "
    "the memory of them all: give DataLoader batch_size=None, and the spec the batch size that you want"
)


def _check_caller(caller: FrameType) -> None:
    """Raises InvalidArgument when `caller`, which iterates, is a DataLoader that this cannot work with."""
    if torch.utils.data.get_worker_info() is not None:
        raise errors.InvalidArgument(_NO_WORKERS)
    # A DataLoader tells its dataset nothing, so its loop is looked at. Only that: Python keeps what is
    # looked at of a frame, and so the caller's variables, as long as the frame lives.
    if caller.f_globals.get("__name__") != "torch.utils.data._utils.fetch":
        return
    if getattr(caller.f_locals.get("self"), "auto_collation", False) is True:
        raise errors.InvalidArgument(_NO_BATCHING)


def _tensor(array: np.ndarray, dtype_name: str) -> torch.Tensor:
    """The array's memory as tensor, which keeps it; byte strings as uint8."""
    return tensor_of(as_bytes(array) if dtype_name == "bytes" else array, dtype_name)


class _Normalizer:
    """`normalize: {at: trainer}` by PyTorch. Computes where the tensor is, on the current stream of a GPU."""

    def __init__(self, rest: Normalization):
        self._rest = rest
        self._constants: Dict[torch.device, List[torch.Tensor]] = {}

    def __call__(self, sent: torch.Tensor) -> torch.Tensor:
        rest, device = self._rest, sent.device
        if device not in self._constants:
            self._constants[device] = [torch.from_numpy(c).to(device) for c in rest.constants()]
        x = sent.movedim(-1, -3) if rest.channels_first else sent
        floats = x.to(torch.float32, memory_format=torch.contiguous_format)
        return rest.compute(floats, *self._constants[device]).to(getattr(torch, rest.dtype_name))


def _group_place(group: Any) -> Optional[Any]:
    """(rank, world size) in the process group; None without a group."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(group), distributed.get_world_size(group)
    if group is not None:
        raise errors.InvalidArgument(
            "group is given, but torch.distributed is not initialized: call init_process_group"
        )
    return None


def _copier(device: Any, from_arena: bool) -> Any:
    """What copies to the device; None when batches stay where they are."""
    place = None if device is None else torch.device(device)
    if place is not None and place.type == "cuda":
        return CudaCopy(Cuda(place), from_arena)
    if from_arena:
        raise errors.InvalidArgument("from_arena is for GPUs: give device='cuda', too")
    return None if place is None else PlainCopy(place)


@public
class _Validation(Validation, torch.utils.data.IterableDataset):
    """A DataLoader takes it for what it is."""

    def __iter__(self) -> Iterator[Any]:
        _check_caller(sys._getframe(2))  # behind `public`'s own
        return super().__iter__()


@public
class Dataset(RankedAdapter, torch.utils.data.IterableDataset):
    """Batches of a Bulkhead service as dicts of tensors.

        dataset = bulkhead.torch.Dataset("train.yaml", device="cuda")
        for epoch in range(10):
            for batch in dataset:             # what is left of one epoch
                train(batch["image"], batch["label"])

    Each element is a batch. A tensor is a view of the memory in which the workers wrote it, and
    keeps it: over shared memory a slot is released when the last tensor on it is gone. Hold at
    most `credits` batches at a time. Tensors smaller than `copy_below` (64 KiB) are copies. Loops,
    `stream()`, `len`, `set_epoch` and errors are those of `bulkhead.Loader`; further keyword
    arguments go to it (`workers`, `cursor`, `credits`, `copy_below` …).

    `structure` selects and arranges the outputs: ("image", "label") gives tuples, {"x": "image"}
    renames; without it an element is a dict of all outputs. Byte strings are uint8 with their
    bound as last dimension, padded with zeros.

    `rank` and `world_size` default to those of the process group if torch.distributed is
    initialized (`group`, else the default one), else to the environment variables RANK and
    WORLD_SIZE, else to 0 and 1. In a process group every rank must open a dataset at the same
    time: their cursors, batch sizes, numbers of batches and world sizes are compared, and a
    difference raises CursorMismatch on all of them. Records quarantined for one are quarantined
    for all. If a rank cannot open, or is gone, the others raise OTHER_RANK_FAILED. A late rank is
    waited for until the group's timeout, and the log says so after 10 s. Nothing is compared when
    `rank` or `world_size` is given without `group`. `load_state_dict` and a resume compare again.

    `device` copies elements there, `in_flight` of them (2 by default) ahead of the loop, the next
    one included; to a GPU through pinned memory on a CUDA stream of its own. Without it
    `in_flight` is 1. With `from_arena=True` the GPU reads a batch where the workers wrote it: the
    stream's shared memory is registered with CUDA (cudaHostRegister), no CPU copies it, and its
    slot is released when the copy is done, so `credits` should exceed `in_flight`. Where that is
    impossible, for instance over gRPC, a warning is logged once, and copies go through pinned
    memory.

    An output that the trainer normalizes (`normalize: {at: trainer}`) is copied as uint8 and
    computed on the device, when the loop takes the element.

    `validation()` is an iterable that starts again with each loop.

    Checkpoints: `state_dict` is the cursor after the last batch that the loop received, by itself
    and in torchdata's StatefulDataLoader(dataset, batch_size=None). A DataLoader must have
    batch_size=None (an element is already a batch) and num_workers=0; others raise InvalidArgument
    when they begin to iterate.

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
        from_arena: bool = False,
        **options: Any,
    ):
        self._copy: Any = None
        self._check_options(options)
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

        self._open_together(
            lambda: self._open(spec, target, structure, device, in_flight, from_arena, options)
        )

    def _open(self, spec, target, structure, device, in_flight, from_arena, options) -> None:
        if device is not None:  # elements are copies anyway
            options.setdefault("copy_below", 0)
        self._copy = _copier(device, from_arena)
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
        self._normalizers = {
            output.name: _Normalizer(output.normalization)
            for output in self._outputs
            if output.normalization
        }

    # Elements.

    def __iter__(self):
        _check_caller(sys._getframe(2))  # behind `public`'s own
        return super().__iter__()

    def validation(self) -> Validation:
        """An IterableDataset whose every iteration is the whole of epoch 0, from its beginning.

        It has a `len`, and shares this object's place: use one of the two at a time.
        """
        return _Validation(self)

    def __reduce__(self):
        raise errors.InvalidArgument(f"a Dataset cannot go to another process; {_NO_WORKERS}")

    def _send(self, batch: Batch) -> Any:
        arrays = {output.name: batch._sent(output.name) for output in self._outputs}
        tensors = {
            output.name: _tensor(
                arrays[output.name], "uint8" if output.normalization else output.dtype_name
            )
            for output in self._outputs
        }
        return tensors if self._copy is None else self._copy.send(tensors, arrays)

    def _arrive(self, sent: Any) -> Any:
        tensors = sent if self._copy is None else self._copy.arrive(sent)
        for name, normalize in self._normalizers.items():
            tensors[name] = normalize(tensors[name])
        return fill(self._structure, tensors.__getitem__)

    def close(self) -> None:
        """Ends the loader. Idempotent."""
        super().close()
        if self._copy is not None:
            self._copy.close()

    # Ranks.

    def _said_by_all(self, mine: Standing) -> List[Standing]:
        """Waits for all ranks, for as long as the group's timeout."""
        distributed, group = torch.distributed, self._group
        said: List[Any] = [None] * distributed.get_world_size(group)
        with waiting_aloud(distributed.get_rank(group), type(self).__name__):
            distributed.all_gather_object(said, mine, group=group)
        return [Standing(*standing) for standing in said]
