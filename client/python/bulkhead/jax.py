"""Bulkhead for JAX.

    import bulkhead.jax

    for batch in bulkhead.jax.Loader("train.yaml"):
        state = step(state, batch["image"], batch["label"])
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

import jax
import numpy as np

from . import errors
from ._adapter import Adapter, Structure, as_bytes, fill
from ._batch import Batch

__all__ = ["Loader"]


class Loader(Adapter):
    """Batches of a Bulkhead service as dicts of jax.Array.

        loader = bulkhead.jax.Loader("train.yaml")
        for epoch in range(10):
            for batch in loader:              # what is left of one epoch
                state = step(state, batch["image"], batch["label"])

    Arrays are made by `jax.device_put` from the memory in which the workers wrote them. On the
    CPU they are views of it: over shared memory a slot comes back when the last array on it dies,
    and `credits` of them may be held. On other devices they are copies, made while the program
    goes on; `in_flight` batches are under way ahead of the loop, the one that comes next included
    (1 by default on the CPU, else 2). Loops, `stream()`, `len`, `set_epoch`, checkpoints and
    errors are those of `bulkhead.Loader`; further keyword arguments go to it (`workers`,
    `cursor`, `credits` …).

    `structure` chooses and arranges the outputs: ("image", "label") gives tuples, {"x": "image"}
    renames; without it an element is a dict of all outputs. Byte strings come as uint8 with a last
    dimension of their bound, filled up with zeros. Types of 64 bits become 32 unless jax_enable_x64
    is set, as everywhere in JAX.

    Each process reads its own part: `rank` and `world_size` are jax.process_index() and
    jax.process_count() unless they are given. With `sharding` (a jax.sharding.Sharding, or a dict
    of them by output) the parts of all processes are put together to global arrays by
    `jax.make_array_from_process_local_data`; it must divide the batch, so that `last: drop` or
    `last: pad` is needed where the data does not come out even. `device` places the arrays on a
    single device.
    """

    def __init__(
        self,
        spec: Any,
        target: Optional[str] = None,
        *,
        structure: Optional[Structure] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        device: Any = None,
        sharding: Any = None,
        in_flight: Optional[int] = None,
        **options: Any,
    ):
        if device is not None and sharding is not None:
            raise errors.InvalidArgument("give device or sharding, not both")
        self._device = device
        self._sharding = sharding
        if in_flight is None:
            place = device if device is not None else jax.local_devices()[0]
            in_flight = 1 if getattr(place, "platform", "") == "cpu" else 2
        super().__init__(
            spec,
            target,
            jax.process_index() if rank is None else rank,
            jax.process_count() if world_size is None else world_size,
            structure,
            in_flight,
            options,
        )
        wanted: List[str] = []
        fill(self._structure, wanted.append)
        packed = [o.name for o in self.schema if o.packing != "samples" and o.name in wanted]
        if sharding is not None and packed:
            self.close()
            raise errors.InvalidArgument(
                f"{', '.join(map(repr, packed))} cannot be sharded, since a process's part has "
                "another shape in each batch: leave pack_rows and multi_scale out of the spec, or "
                "these outputs out of the structure"
            )
        if isinstance(sharding, Mapping):
            missing = [name for name in dict.fromkeys(wanted) if name not in sharding]
            if missing:
                self.close()
                raise errors.InvalidArgument(
                    f"sharding has nothing for {', '.join(map(repr, missing))}: give one for each "
                    "output of the structure, or a single one for all"
                )

    def _send(self, batch: Batch) -> Any:
        return fill(self._structure, lambda name: self._put(name, batch[name]))

    def _put(self, name: str, array: np.ndarray) -> jax.Array:
        if array.dtype.kind == "S":
            array = as_bytes(array)
        sharding = self._sharding
        if sharding is None:
            return jax.device_put(array, self._device)
        if isinstance(sharding, Mapping):
            sharding = sharding[name]
        return jax.make_array_from_process_local_data(sharding, array)
