"""What the arguments of bulkhead.torch.DataLoader come to, and which it refuses."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Optional

import torch.utils.data

from .. import errors
from .._dataset.stages import class_name

_NO_ITERABLE = (
    "{} is an IterableDataset, whose samples have no numbers, so that they can be neither found again nor given exactly "
    "once: write a dataset with __len__ and __getitem__, or let Bulkhead read the files (bulkhead.torch.Dataset)"
)

_RANKS = "give a DistributedSampler as sampler, which knows rank and world size"
# Arguments of a Loader that have another form here.
NOT_HERE = {
    "device": "pin_memory=True, and `images.to(device, non_blocking=True)` in the loop, move batches as with PyTorch",
    "rank": _RANKS,
    "world_size": _RANKS,
    "cursor": "load_state_dict takes a state of this class",
    "rename": "the dataset's own structure comes back",
    "spec": "the dataset takes its place; a spec goes to bulkhead.torch.Dataset(spec)",
}


class Plan(NamedTuple):
    """How epochs are made."""

    function: str  # of the worker: "sample", or "batch" where a user's function makes whole batches
    listed: str  # "": in the service's order; "samples", "batches": by lists of the sampler
    shuffled: bool  # the service's order is a shuffle
    sampler: str  # its class, for the fingerprint

    @classmethod
    def of(
        cls, batch_size: Optional[int], shuffle: Any, sampler: Any, batch_sampler: Any, own_collate: bool, generator: Any
    ) -> "Plan":
        """`batch_size`: None for samples as they are, each a batch."""
        if batch_sampler is not None:
            return cls("batch", "batches", False, class_name(batch_sampler))
        if batch_size is None:
            listed = "" if sampler is None and not shuffle else "samples"
            return cls("batch", listed, False, "" if sampler is None else class_name(sampler))
        function = "batch" if own_collate else "sample"
        if sampler is not None:
            return cls(function, "samples", False, class_name(sampler))
        if shuffle and (own_collate or generator is not None):
            return cls(function, "samples", False, "shuffle of torch")
        return cls(function, "", bool(shuffle), "")

    def one_of_range(self) -> str:
        """What a number of the service's range stands for (of_data_loader)."""
        if self.function == "batch":
            return "batch {number} of an epoch of {dataset}"
        return "number {number} of the sampler's list for {dataset}" if self.listed else "{dataset}[{number}]"

    def check_errors(self, policy: str) -> None:
        if policy not in ("fail", "substitute"):
            raise errors.InvalidArgument(f"errors is 'fail' or 'substitute', not {policy!r}")
        if policy == "substitute" and (self.function == "batch" or self.listed):
            raise errors.InvalidArgument(
                "errors='substitute' puts another sample in the place of a bad one, so the service must choose the order and "
                "put batches together: leave out collate_fn, sampler, batch_sampler and generator"
            )


def refuse_no_dataset(dataset: Any) -> None:
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise errors.InvalidArgument(_NO_ITERABLE.format(class_name(dataset)))
    if isinstance(dataset, (str, os.PathLike)):
        raise errors.InvalidArgument(
            f"{os.fspath(dataset)!r} is no dataset, whose samples are {{index: value}}: a spec goes to bulkhead.torch.Dataset(spec)"
        )


def refuse_unsupported(multiprocessing_context: Any, pin_memory_device: str) -> None:
    if multiprocessing_context is not None:
        raise errors.InvalidArgument(
            "multiprocessing_context has no meaning here: workers are processes of Bulkhead's service, which are neither "
            "forked nor spawned from this one; leave it out"
        )
    if pin_memory_device:
        raise errors.InvalidArgument(
            "pin_memory_device is deprecated by PyTorch: leave it out, pin_memory=True finds the device"
        )
