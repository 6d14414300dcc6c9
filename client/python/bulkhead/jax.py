"""Bulkhead for JAX.

    import bulkhead.jax

    for batch in bulkhead.jax.Loader("train.yaml"):
        state = step(state, batch["image"], batch["label"])
"""

from __future__ import annotations

import functools
import json
from typing import Any, List, Mapping, Optional

import jax
import numpy as np

from . import errors
from ._adapters.adapter import Structure, as_bytes, fill
from ._adapters.jax_processes import said_by_all
from ._adapters.ranks import RankedAdapter, Standing, waiting_aloud
from ._batch.batch import Batch
from ._batch.normalization import Normalization
from ._boundary import public

__all__ = ["Loader"]

_PEERS_SECONDS = 1800.0  # that the other processes have, as those of a gloo group of PyTorch


def _normalize(rest: Normalization, moves: bool, sent: jax.Array) -> jax.Array:
    """What `normalize: {at: trainer}` left. `moves`: the channels, to the front."""
    x = jax.numpy.moveaxis(sent, -1, -3) if moves else sent
    constants = (jax.numpy.broadcast_to(c, x.shape) for c in rest.constants())
    # XLA would multiply by the inverse of what it knows to be smaller than x, which rounds otherwise.
    first, second = jax.lax.optimization_barrier(tuple(constants))
    return rest.compute(x.astype(np.float32), first, second).astype(rest.dtype_name)


@public
class Loader(RankedAdapter):
    """Batches of a Bulkhead service as dicts of jax.Array.

        loader = bulkhead.jax.Loader("train.yaml")
        for epoch in range(10):
            for batch in loader:              # what is left of one epoch
                state = step(state, batch["image"], batch["label"])

    Arrays are made by `jax.device_put` from the memory in which the workers wrote them. On the CPU
    they are views of it, except arrays smaller than `copy_below` (64 KiB): over shared memory a
    slot is released when the last array on it is gone and every step that used one is done. Hold
    at most `credits` batches at a time. On other devices they are copies, made while the program
    runs; `in_flight` batches are under way ahead of the loop, the next one included (1 by default
    on the CPU, else 2). Loops, `stream()`, `len`, `set_epoch`, checkpoints and errors are those of
    `bulkhead.Loader`; further keyword arguments go to it (`workers`, `cursor`, `credits`,
    `copy_below` …). `validation()` is an iterable that starts again with each loop.

    An output that the trainer normalizes (`normalize: {at: trainer}`) is copied as uint8 and
    computed on the device.

    `structure` selects and arranges the outputs: ("image", "label") gives tuples, {"x": "image"}
    renames; without it an element is a dict of all outputs. Byte strings are uint8 with their
    bound as last dimension, padded with zeros. Types of 64 bits become 32 unless jax_enable_x64 is
    set, as everywhere in JAX.

    Each process reads its own part: `rank` and `world_size` default to jax.process_index() and
    jax.process_count(). If there are several processes, all must open a loader at the same time:
    their cursors, batch sizes, numbers of batches and world sizes are compared, and a difference
    raises CursorMismatch on all of them. Records quarantined for one are quarantined for all. If a
    process cannot open, or does not come within `timeout`, the others raise OTHER_RANK_FAILED. The
    default is half an hour, since a process may have to index its files first; the log says after
    10 s that it is waited for. `load_state_dict` compares again. Nothing is compared when `rank`
    or `world_size` is given.

    With `sharding` (a jax.sharding.Sharding, or a dict of them by output) the parts of all
    processes are joined to global arrays by `jax.make_array_from_process_local_data`. It must
    divide the batch, so `last: drop` or `last: pad` is needed if the data does not divide evenly.
    `device` places the arrays on a single device.
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
        self._check_options(options)
        told = rank is not None or world_size is not None
        self._compares = not told and jax.process_count() > 1
        self._rank = jax.process_index() if rank is None else rank
        self._world_size = jax.process_count() if world_size is None else world_size
        timeout = options.get("timeout")
        # A wrong type is reported when the loader opens, so that all processes learn of it.
        known = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        self._patience = float(timeout) if known else _PEERS_SECONDS
        self._device = device
        self._sharding = sharding
        self._open_together(lambda: self._open(spec, target, structure, in_flight, options))

    def _open(self, spec, target, structure, in_flight, options) -> None:
        if self._device is not None and self._sharding is not None:
            raise errors.InvalidArgument("give device or sharding, not both")
        if in_flight is None:
            place = self._device if self._device is not None else jax.local_devices()[0]
            in_flight = 1 if getattr(place, "platform", "") == "cpu" else 2
        super().__init__(spec, target, self._rank, self._world_size, structure, in_flight, options)
        wanted: List[str] = []
        fill(self._structure, wanted.append)
        self._normalized = {o.name: o.normalization for o in self.schema if o.normalization}
        self._normalize = {
            name: jax.jit(functools.partial(_normalize, rest, rest.channels_first and self._sharding is None))
            for name, rest in self._normalized.items()
        }
        packed = [o.name for o in self.schema if o.packing != "samples" and o.name in wanted]
        if self._sharding is not None and packed:
            self.close()
            raise errors.InvalidArgument(
                f"{', '.join(map(repr, packed))} cannot be sharded, since a process's part has "
                "another shape in each batch: leave pack_rows and multi_scale out of the spec, or "
                "these outputs out of the structure"
            )
        if isinstance(self._sharding, Mapping):
            missing = [name for name in dict.fromkeys(wanted) if name not in self._sharding]
            if missing:
                self.close()
                raise errors.InvalidArgument(
                    f"sharding has nothing for {', '.join(map(repr, missing))}: give one for each "
                    "output of the structure, or a single one for all"
                )

    def _said_by_all(self, mine: Standing) -> List[Standing]:
        with waiting_aloud(self._rank, type(self).__name__):
            said = said_by_all(json.dumps(mine), self._patience)
        return [Standing(*json.loads(standing)) for standing in said]

    def _send(self, batch: Batch) -> Any:
        return fill(self._structure, lambda name: self._put(name, batch._sent(name)))

    def _put(self, name: str, array: np.ndarray) -> jax.Array:
        if array.dtype.kind == "S":
            array = as_bytes(array)
        rest = self._normalized.get(name)
        sharding = self._sharding
        if sharding is None:
            placed = jax.device_put(array, self._device)
        else:
            if isinstance(sharding, Mapping):
                sharding = sharding[name]
            if rest is not None and rest.channels_first:  # a sharding is of the result's dimensions
                array = np.ascontiguousarray(np.moveaxis(array, -1, -3))
            placed = jax.make_array_from_process_local_data(sharding, array)
        return placed if rest is None else self._normalize[name](placed)
