"""What the adapters to PyTorch, TensorFlow and JAX share."""

from __future__ import annotations

import collections
import os
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from .. import errors
from .._batch.batch import Batch, copy_cursor
from .._batch.schema import TensorSpec
from .._boundary import ends_at_caller, public
from .._loader import Loader
from .._words import nearest
from .facts import LoaderFacts

# How an element is put together from outputs: an output's name, or a dict, tuple or list of such.
Structure = Any


def fill(structure: Structure, value_of: Callable[[str], Any]) -> Any:
    """The structure with `value_of(name)` in the place of each name."""
    if isinstance(structure, str):
        return value_of(structure)
    if isinstance(structure, Mapping):
        return {key: fill(part, value_of) for key, part in structure.items()}
    if isinstance(structure, (tuple, list)):
        return tuple(fill(part, value_of) for part in structure)
    raise errors.InvalidArgument(
        "a structure is an output's name, or a dict, tuple or list of such, not "
        f"{type(structure).__name__}"
    )


def checked_structure(structure: Optional[Structure], schema: Tuple[TensorSpec, ...]) -> Structure:
    """The structure itself, all of whose names are outputs; None stands for a dict of them all."""
    known = [spec.name for spec in schema]
    if structure is None:
        return {name: name for name in known}
    named: List[str] = []
    fill(structure, named.append)
    unknown = sorted({name for name in named if name not in known})
    if unknown:
        near = nearest(unknown[0], known)
        raise errors.InvalidArgument(
            f"the structure names {', '.join(map(repr, unknown))}; the pipeline's outputs are "
            f"{', '.join(map(repr, known))}" + (f"; did you mean {near!r}?" if near else "")
        )
    return structure


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Byte strings of n bytes at most → uint8 with a last dimension of n; no copy."""
    return array[..., np.newaxis].view(np.uint8)


def number_of_environment(name: str) -> Optional[int]:
    """The value of a variable such as RANK; None when it is not set."""
    text = os.environ.get(name, "")
    if not text:
        return None
    if not text.isdigit():
        raise errors.InvalidArgument(f"the environment variable {name} is {text!r}, not a number")
    return int(text)


def at_start(cursor: Mapping[str, Any], epoch: int) -> bool:
    """Whether no batch of `epoch` was given yet, out of turn neither."""
    return (cursor["epoch"], cursor["consumed"]) == (epoch, 0) and "completed" not in cursor


@public
class Validation:
    """What `Adapter.validation` gives."""

    def __init__(self, adapter: "Adapter"):
        self._adapter = adapter

    def __len__(self) -> int:
        return self._adapter.batches_per_epoch

    def __iter__(self) -> Iterator[Any]:
        self._adapter.set_epoch(0)
        yield from self._adapter


class _Item(NamedTuple):
    value: Any  # what `send` made of the batch
    cursor: Mapping[str, Any]
    epoch: int
    valid_count: int
    last: bool


@public
class Adapter(LoaderFacts):
    """A Loader whose batches become another framework's, `in_flight` of them ahead of the loop.

    next_batch ──send──▶ at most `in_flight` items ──arrive──▶ the loop, which the cursor counts

    One thread should use it, as a Loader.
    """

    def __init__(
        self,
        spec: Any,
        target: Optional[str],
        rank: int,
        world_size: int,
        structure: Optional[Structure],
        in_flight: int,
        options: Mapping[str, Any],
    ):
        """`in_flight` counts the batch that the loop takes next. Raises what Loader raises."""
        if in_flight < 1:
            raise errors.InvalidArgument("in_flight must be at least 1")
        self._in_flight = in_flight
        self._ahead: Deque[_Item] = collections.deque()
        self._unsent: Optional[Batch] = None  # `_send` failed on it, for want of memory say
        self.loader = Loader(spec, target, rank=rank, world_size=world_size, **options)
        try:
            self._structure = checked_structure(structure, self.loader.schema)
        except BaseException:
            self.loader.close()
            raise
        self._valid_count = 0
        self._stand_at(self.loader.state_dict())

    def _stand_at(self, cursor: Mapping[str, Any]) -> None:
        self._drop()
        self._cursor = cursor
        self._epoch: int = cursor["epoch"]

    def _drop(self) -> None:
        self._ahead.clear()
        self._unsent = None

    # What a framework does with a batch.

    def _send(self, batch: Batch) -> Any:
        """Begins to make `batch` an element. Keeps no view of it that it does not need."""
        raise NotImplementedError

    def _arrive(self, sent: Any) -> Any:
        """The element that `_send` began, ready for the training step."""
        return sent

    # Elements.

    def __iter__(self) -> Iterator[Any]:
        """What is left of one epoch."""
        return self._loop(endless=False)

    def stream(self) -> Iterator[Any]:
        """Elements of all epochs that are left, one after the other."""
        return self._loop(endless=True)

    def validation(self) -> Validation:
        """An iterable whose every iteration is the whole of epoch 0, from its beginning.

        It has a `len`, and shares this object's place: use one of the two at a time.
        """
        return Validation(self)

    # Nothing here keeps an element that was given: its slot of shared memory would stay taken.

    @ends_at_caller
    def _loop(self, endless: bool) -> Iterator[Any]:
        batches = self.loader.stream() if endless else iter(self.loader)
        while True:
            self._fetch(batches, endless)
            if not self._ahead:
                return
            last = self._ahead[0].last
            yield self._give()
            if last and not endless:
                return

    def _fetch(self, batches: Iterator[Batch], endless: bool) -> None:
        while len(self._ahead) < self._in_flight:
            if self._ahead and self._ahead[-1].last and not endless:
                return
            try:
                batch = self._unsent or next(batches, None)
            except errors.EpochsExhausted:
                if not self._ahead:
                    raise
                return
            if batch is None:
                return
            facts = (batch.cursor, batch.epoch, batch.valid_count, batch.last_in_epoch)
            self._unsent = batch
            self._ahead.append(_Item(self._send(batch), *facts))
            self._unsent = None
            del batch

    def _give(self) -> Any:
        item = self._ahead.popleft()
        self._cursor, self._epoch, self._valid_count = item.cursor, item.epoch, item.valid_count
        return self._arrive(item.value)

    def __len__(self) -> int:
        """Elements that the next loop will give."""
        for count, item in enumerate(self._ahead, start=1):
            if item.last:
                return count
        fetched = len(self._ahead)
        if self._unsent is not None:
            fetched += 1
            if self._unsent.last_in_epoch:
                return fetched
        return fetched + len(self.loader)

    # Facts.

    @property
    def epoch(self) -> int:
        """The epoch of the last element that a loop got."""
        return self._epoch

    @property
    def valid_count(self) -> int:
        """How many samples of that element are genuine; the rest pad it (batch.last: pad)."""
        return self._valid_count

    # Checkpoints.

    def state_dict(self) -> Dict[str, Any]:
        """The cursor after the last element that a loop got, ready for JSON."""
        return copy_cursor(self._cursor)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a cursor; what was fetched ahead is dropped. Raises as Loader does."""
        if isinstance(state, Mapping) and dict(state) == self._cursor == self.loader.state_dict():
            return  # where it stands already, as after opening with `cursor`
        self.loader.load_state_dict(state)
        self._stand_at(self.loader.state_dict())

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of `epoch`; nothing happens when it is there already."""
        if at_start(self._cursor, epoch) and self._cursor == self.loader.state_dict():
            return
        self.loader.set_epoch(epoch)
        self._stand_at(self.loader.state_dict())

    # The end.

    def close(self) -> None:
        """Ends the loader. Idempotent."""
        self._drop()
        super().close()
