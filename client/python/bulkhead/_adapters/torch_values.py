"""What a worker sent, as the values that PyTorch's DataLoader would give."""

from __future__ import annotations

import sys
import threading
from queue import SimpleQueue
from typing import Any, Dict, Iterator, List

import numpy as np
import torch
from torch.utils.data._utils.collate import default_collate

from .._batch.batch import Batch
from .._dataset.worker.bulkhead_leaves import Layout, Tree, decode
from ..errors import DataError


def tensor_of(array: np.ndarray, dtype: str) -> torch.Tensor:
    """The array's memory as tensor, which keeps it."""
    if dtype == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _own_tensor(array: np.ndarray, dtype: str) -> torch.Tensor:
    return tensor_of(array.copy(), dtype)


def _kind(value: Any) -> str:
    """ "None", "Tensor [3]", "int"."""
    if value is None:
        return "None"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} {list(shape)}"


class Joining:
    """Puts the values of a batch together, as default_collate does."""

    def __init__(self, layout: Layout, dataset: str, pickled: Dict[int, int]):
        """`dataset`: its class, for errors. `pickled` counts the bytes that come pickled, by leaf."""
        self._pickled = pickled
        self._layout = layout
        self._dataset = dataset

    def samples(self, batch: Batch, count: int) -> Any:
        """A batch whose rows are samples. Arrays of one shape are views of the batch's memory."""
        columns: List[Any] = []
        for number, leaf in enumerate(self._layout.leaves):
            name, kind = f"v{number}", leaf["kind"]
            if kind == "array":
                columns.append(tensor_of(batch[name][:count], leaf["dtype"]))
            elif kind == "none":
                columns.append(self._together([None] * count, batch))
            else:
                values = [self._row(batch, number, row) for row in range(count)]
                columns.append(self._together(values, batch))
        if self._layout.tree == 0 and self._layout.leaves[0]["kind"] == "object":
            return columns[0]
        return _collated(self._layout.tree, columns)

    def _together(self, values: List[Any], batch: Batch) -> Any:
        try:
            return default_collate(values)
        except Exception as error:
            kinds = [_kind(value) for value in values]
            usual = max(set(kinds), key=kinds.count)
            odd = next((row for row, kind in enumerate(kinds) if kind != usual), None)
            which = "" if odd is None else f": sample {odd} of the batch is {kinds[odd]}, most are {usual}"
            raise DataError(
                f"{self._dataset}: samples {batch.positions.start} to {batch.positions.start + len(values) - 1} of epoch "
                f"{batch.epoch} make no batch{which}; default_collate says {type(error).__name__}: {error}; return values "
                "of one kind and shape, or give a collate_fn",
                "ROWS_DIFFER",
            ) from error

    def whole(self, batch: Batch) -> Any:
        """A batch that the user's function made."""
        values = [self._whole_leaf(batch, number) for number in range(len(self._layout.leaves))]
        return _rebuilt(self._layout.tree, values)

    def _whole_leaf(self, batch: Batch, number: int) -> Any:
        leaf, name = self._layout.leaves[number], f"v{number}"
        if leaf["kind"] == "array":
            return decode(leaf, batch[name][:1].reshape(leaf["shape"]), None, tensor_of)
        if leaf["kind"] == "ragged":
            count = int(batch[f"{name}_count"][0])
            return decode(leaf, batch[name][0][:count], batch[f"{name}_shape"][0].tolist(), tensor_of)
        return self._row(batch, number, 0)

    def _row(self, batch: Batch, number: int, row: int) -> Any:
        leaf, name = self._layout.leaves[number], f"v{number}"
        if leaf["kind"] == "none":
            return None
        count = int(batch[f"{name}_count"][row])
        shape = batch[f"{name}_shape"][row].tolist() if leaf["kind"] == "ragged" else None
        if leaf["kind"] == "object":
            self._pickled[number] = self._pickled.get(number, 0) + count
        return decode(leaf, batch[name][row][:count], shape, _own_tensor)


def _collated(tree: Tree, columns: List[Any]) -> Any:
    """As default_collate: a tuple becomes a list, and strings in one a tuple."""
    if isinstance(tree, int):
        return columns[tree]
    if "dict" in tree:
        return {key: _collated(part, columns) for key, part in tree["dict"]}
    kind = next(iter(tree))
    columns = [tuple(column) if type(column) is list else column for column in columns]
    parts = [_collated(part, columns) for part in tree[kind]]
    return _named(tree, parts) if kind == "named" else parts


def _rebuilt(tree: Tree, values: List[Any]) -> Any:
    if isinstance(tree, int):
        return values[tree]
    if "dict" in tree:
        return {key: _rebuilt(part, values) for key, part in tree["dict"]}
    if "named" in tree:
        return _named(tree, [_rebuilt(part, values) for part in tree["named"]])
    if "tuple" in tree:
        return tuple(_rebuilt(part, values) for part in tree["tuple"])
    return [_rebuilt(part, values) for part in tree["list"]]


def _named(tree: Tree, parts: List[Any]) -> Any:
    """A namedtuple of the class that has this name here; a plain tuple, if the program has not loaded it."""
    module, qualified = tree["class"]
    found: Any = sys.modules.get(module)
    for name in qualified.split("."):
        found = getattr(found, name, None)
    return found(*parts) if isinstance(found, type) and issubclass(found, tuple) else tuple(parts)


class MadeAhead:
    """Elements, of which a thread makes the next one while the loop works on the last."""

    def __init__(self, elements: Iterator[Any]):
        self._elements = elements
        self._asked: "SimpleQueue[bool]" = SimpleQueue()
        self._made: "SimpleQueue[Any]" = SimpleQueue()
        # Not waited for when the program ends: it may wait for a batch.
        self._thread = threading.Thread(target=self._make, name="bulkhead-pin", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        while self._asked.get():
            try:
                made = (next(self._elements), None)
            except BaseException as error:
                made = (None, error)
            self._made.put(made)
            if made[1] is not None:
                return
            del made

    def __iter__(self) -> Iterator[Any]:
        self._asked.put(True)
        while True:
            element, error = self._made.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            self._asked.put(True)
            yield element
            del element

    def end(self) -> None:
        """Returns when the thread uses the loader no more."""
        self._asked.put(False)
        self._thread.join()
