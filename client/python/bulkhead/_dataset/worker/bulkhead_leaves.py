"""How a value of a dataset travels: its structure, and its leaves as arrays.

A layout is JSON: `tree` is the structure, in which a number stands for a leaf; `leaves` says what each is:

    array    dtype and shape are the same in all samples: the array itself
    ragged   shapes differ: the elements in a row, and the shape
    text     UTF-8
    bytes    as they are
    none     None
    object   anything else, pickled

`of` is what the value was, "tensor" or "int", say; where `outputs` declared it, "any" that has the dtype.

Used in workers, where it needs only the standard library and NumPy, and by the trainer, which puts values together
again.
"""

from __future__ import annotations

import pickle
import sys
import types
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

import numpy as np

# Those of NumPy that travel as they are; bfloat16 as its bits.
DTYPES = frozenset(
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128".split()
)
# Room for values that differ in size: several times the largest one that was seen.
_ROOM_TIMES = 4
_ROOM_TIMES_OF_EQUALS = 2
_LEAST_ROOM = 4096

Tree = Any
Leaf = Dict[str, Any]


class Unlike(Exception):
    """A value does not fit the layout."""


class TooLarge(Unlike):
    """A value has no room, which samples decided; `room` is one that it has, and others somewhat larger."""

    def __init__(self, told: str, room: int):
        super().__init__(f"{told}; give room={room}")
        self.told, self.room = told, room


class Layout(NamedTuple):
    tree: Tree
    leaves: List[Leaf]

    def with_room(self, room_of: Callable[[int], int]) -> "Layout":
        """With `room_of(i)` bytes for leaf i, if its size may differ; 0: as it is."""
        roomy = []
        for number, leaf in enumerate(self.leaves):
            room = room_of(number) if "room" in leaf else 0
            roomy.append({**leaf, "room": -(-room // itemsize(leaf))} if room else leaf)
        return Layout(self.tree, roomy)

    def outputs(self) -> List[Dict[str, Any]]:
        """The outputs of the stage that makes such values, as in a spec."""
        outputs: List[Dict[str, Any]] = []
        for number, leaf in enumerate(self.leaves):
            name, kind = f"v{number}", leaf["kind"]
            if kind == "array":
                outputs.append({"name": name, "dtype": leaf["dtype"], "shape": leaf["shape"]})
            elif kind != "none":
                dtype = leaf.get("dtype", "uint8")
                outputs.append({"name": name, "dtype": dtype, "shape": [-1], "max_count": leaf["room"]})
            if kind == "ragged":
                outputs.append({"name": f"{name}_shape", "dtype": "int64", "shape": [leaf["rank"]]})
        return outputs

    def fields(self, value: Any) -> Tuple[Any, ...]:
        """The leaves as they are, for a source: arrays, numbers and bytes, without what encodes them. Unlike, if the value
        is not of this layout."""
        found = self._leaves_of(value)
        for number, (leaf, (part, where)) in enumerate(zip(self.leaves, found)):
            try:
                _encode(leaf, part, where, [])  # for its errors
            except TooLarge as error:
                if not isinstance(self.tree, dict) or "dict" not in self.tree:
                    raise
                name = self.tree["dict"][number][0]
                raise Unlike(f"{error.told}; give bulkhead.Source room={{{name!r}: {error.room}}}") from None
        return tuple(_as_field(leaf, part, where) for leaf, (part, where) in zip(self.leaves, found))

    def _leaves_of(self, value: Any) -> List[Tuple[Any, str]]:
        found: List[Tuple[Any, str]] = []
        _gather(self.tree, value, found, "", _known_by(self.leaves[0] if self.leaves else {}))
        return found

    def values(self, value: Any) -> Tuple[Any, ...]:
        """The outputs for one value. Unlike, if it is not of this layout."""
        outputs: List[Any] = []
        for leaf, (part, where) in zip(self.leaves, self._leaves_of(value)):
            _encode(leaf, part, where, outputs)
        return tuple(outputs)


def places(tree: Tree, where: str = "") -> Dict[int, str]:
    """Where each leaf is in a value: "['name'][0]"."""
    if isinstance(tree, int):
        return {tree: where}
    found: Dict[int, str] = {}
    for key, part in parts_of(tree):
        found.update(places(part, f"{where}[{key!r}]"))
    return found


def parts_of(tree: Tree) -> Iterable[Tuple[Any, Tree]]:
    """Those of a node, each with its key or its number."""
    kind, parts = next(iter(tree.items()))
    return parts if kind == "dict" else enumerate(parts)


# From a value to its leaves.


_DECLARED = "by `outputs`"
_SAME = ": return the same form for each index"


def _kind_of_node(value: Any) -> str:
    if type(value) is dict and all(type(key) is str for key in value):
        return "dict"
    if type(value) is list:
        return "list"
    if isinstance(value, tuple):
        if type(value) is tuple:
            return "tuple"
        return "named" if hasattr(value, "_fields") else ""
    return ""


def tree_of(value: Any, leaves: List[Any]) -> Tree:
    """The structure of a value, whose leaves are appended to `leaves`."""
    kind = _kind_of_node(value)
    if kind == "dict":
        return {"dict": [[key, tree_of(part, leaves)] for key, part in value.items()]}
    if kind in ("list", "tuple"):
        return {kind: [tree_of(part, leaves) for part in value]}
    if kind == "named":
        cls = type(value)
        return {
            "named": [tree_of(part, leaves) for part in value],
            "class": [cls.__module__, cls.__qualname__],
        }
    leaves.append(value)
    return len(leaves) - 1


def _gather(tree: Tree, value: Any, found: List[Tuple[Any, str]], where: str, known: str) -> None:
    if type(tree) is int:
        found.append((value, where))
        return
    kind = _kind_of_node(value)
    if kind not in tree:
        raise Unlike(
            f"{_place(where)} is {_a(type(value).__name__)}, {known} it {'is' if known == _DECLARED else 'was'} {_a(next(iter(tree)))}{_SAME}"
        )
    parts = tree[kind]
    if kind == "dict":
        if len(value) != len(parts) or not all(key in value for key, _ in parts):
            raise Unlike(
                f"{_place(where)} has the keys {sorted(value)}, {known} {sorted(key for key, _ in parts)}{_SAME}"
            )
        for key, part in parts:
            _gather(part, value[key], found, f"{where}[{key!r}]", known)
        return
    if len(value) != len(parts):
        raise Unlike(
            f"{_place(where)} has {len(value)} elements, {known} {len(parts)}{_SAME}"
        )
    for number, part in enumerate(parts):
        _gather(part, value[number], found, f"{where}[{number}]", known)


def _place(where: str) -> str:
    return f"its value{where}" if where else "it"


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _array_of(value: Any) -> Tuple[str, Optional[np.ndarray], str]:
    """What a number, array or tensor is, as an array, and its dtype's name; ("", None, "") for anything else."""
    if isinstance(value, np.ndarray):
        found = "array" if type(value) is np.ndarray else ""
        array = value
    elif isinstance(value, np.generic):
        found, array = "scalar", np.asarray(value)
    elif type(value) in (bool, float):
        found, array = type(value).__name__, np.asarray(value)
    elif type(value) is int:
        found = "int" if -(1 << 63) <= value < 1 << 63 else ""
        array = np.asarray(value) if found else np.zeros(0)
    elif _is_tensor(value):
        return _tensor_as_array(value)
    else:
        return "", None, ""
    if not found or array.dtype.name not in DTYPES:
        return "", None, ""
    return found, array, array.dtype.name


def _tensor_as_array(tensor: Any) -> Tuple[str, Optional[np.ndarray], str]:
    torch = sys.modules["torch"]
    if (
        type(tensor) not in _plain_tensors(torch)
        or tensor.layout is not torch.strided
        or tensor.device.type != "cpu"
        or tensor.is_quantized
    ):
        return "", None, ""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return "tensor", tensor.contiguous().view(torch.int16).numpy().view(np.uint16), "bfloat16"
    try:
        array = tensor.numpy()
    except TypeError:  # a dtype that NumPy lacks
        return "", None, ""
    return ("tensor", array, array.dtype.name) if array.dtype.name in DTYPES else ("", None, "")


def _plain_tensors(torch: Any) -> Tuple[type, ...]:
    """Tensor, and torchvision's images, boxes and masks, which a batch of PyTorch does not keep apart either."""
    vision = sys.modules.get("torchvision.tv_tensors")
    names = ("Image", "Video", "Mask") if vision else ()
    return (torch.Tensor, *(getattr(vision, name) for name in names if hasattr(vision, name)))


def _pickled(value: Any, where: str) -> bytes:
    if isinstance(value, types.GeneratorType):
        raise Unlike(f"{_place(where)} is a generator: return the values instead of yielding them")
    try:
        return pickle.dumps(value, protocol=5)
    except MemoryError:
        raise
    except Exception as error:
        raise Unlike(
            f"{_place(where)} is {_a(type(value).__name__)}, which cannot be pickled: {error}"
        ) from None


def _encode(leaf: Leaf, value: Any, where: str, outputs: List[Any]) -> None:
    kind = leaf["kind"]
    if kind in ("array", "ragged"):
        array = _array_like(leaf, value, where)
        if kind == "array":
            if list(array.shape) != leaf["shape"]:
                raise Unlike(
                    f"{_place(where)} has the shape {list(array.shape)}, but {leaf['shape']} "
                    + (
                        "by `outputs`"
                        if is_declared(leaf)
                        else "in all samples that were looked at first; give probe=64, say, to have more of them looked at"
                    )
                )
            outputs.append(array)
            return
        if array.ndim != leaf["rank"]:
            raise Unlike(f"{_place(where)} has {array.ndim} dimensions, {_known_by(leaf)} {leaf['rank']}")
        if is_declared(leaf) and list(array.shape[1:]) != leaf["rest"]:
            raise Unlike(f"{_place(where)} has the shape {list(array.shape)}, but {[-1, *leaf['rest']]} by `outputs`")
        _check_room(leaf, array.size, where)
        outputs.append(array.reshape(-1))
        outputs.append(np.array(array.shape, np.int64))
        return
    if kind == "none":
        if value is not None:
            raise Unlike(
                f"{_place(where)} is {_a(type(value).__name__)}, in the samples looked at first it was None{_SAME}"
            )
        return
    if kind == "text":
        if type(value) is not str:
            raise Unlike(
                f"{_place(where)} is {_a(type(value).__name__)}, in the samples looked at first it was a str{_SAME}"
            )
        data = value.encode("utf-8", "surrogatepass")
    elif kind == "bytes" and is_declared(leaf) and type(value) is str:
        data = value.encode("utf-8", "surrogatepass")
    elif kind == "bytes":
        if type(value) is not bytes:
            raise Unlike(_unlike(leaf, where, _a(type(value).__name__), "bytes"))
        data = value
    else:
        data = _pickled(value, where)
        where += f" (a {type(value).__module__}.{type(value).__qualname__}, no array or tensor, so that it travels pickled)"
    _check_room(leaf, len(data), where)
    outputs.append(np.frombuffer(data, np.uint8))


def is_declared(leaf: Leaf) -> bool:
    """By `outputs`, not by samples that were looked at."""
    return leaf.get("of") == "any"


def _unlike(leaf: Leaf, where: str, now: str, wanted: str) -> str:
    if is_declared(leaf):
        return f"{_place(where)} is {now}, but {wanted} by `outputs`: return {wanted} in __getitem__, or declare what it returns"
    return f"{_place(where)} is {now}, in the samples looked at first it was {wanted}: return {wanted} for each index, or declare `outputs`"


def _a(noun: str) -> str:
    return ("an " if noun[:1].lower() in ("a", "e", "i", "o") else "a ") + noun


def _known_by(leaf: Leaf) -> str:
    return _DECLARED if is_declared(leaf) else "in the samples looked at first"


def _array_like(leaf: Leaf, value: Any, where: str) -> np.ndarray:
    """The value as an array of the leaf's dtype. A number of Python takes the dtype that was declared, if that holds it."""
    found, array, dtype = _array_of(value)
    if found in ("int", "float", "bool") and is_declared(leaf) and dtype != leaf["dtype"] and leaf["dtype"] != "bfloat16":
        with np.errstate(all="ignore"):
            cast = np.asarray(array).astype(leaf["dtype"])
        fits = np.isfinite(cast) or not np.isfinite(value) if found == "float" and cast.dtype.kind == "f" else cast == array
        if not fits:
            raise Unlike(
                f"{_place(where)} is {value}, which does not fit {leaf['dtype']}, its dtype by `outputs`: declare one that holds it"
            )
        array, dtype = cast, leaf["dtype"]
    if not found or dtype != leaf["dtype"] or not is_declared(leaf) and found != leaf["of"]:
        now = f"{_a(found)} of {dtype}" if found else _a(type(value).__name__)
        wanted = leaf["dtype"] if is_declared(leaf) else f"{_a(leaf['of'])} of {leaf['dtype']}"
        raise Unlike(_unlike(leaf, where, now, wanted))
    assert array is not None
    return array


def _as_field(leaf: Leaf, value: Any, where: str) -> Any:
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass")
    if type(value) is bytes:
        return value
    found, array, _ = _array_of(value)
    if not found:
        raise Unlike(f"{_place(where)} is {_a(type(value).__name__)}, which is no array")
    if is_declared(leaf):
        return _array_like(leaf, value, where)
    return array


def itemsize(leaf: Leaf) -> int:
    return np.dtype(leaf["dtype"].replace("bfloat16", "uint16")).itemsize if "dtype" in leaf else 1


def _check_room(leaf: Leaf, size: int, where: str) -> None:
    if size > leaf["room"]:
        each = itemsize(leaf)
        told = f"{_place(where)} takes {size * each} bytes, but there is room for {leaf['room'] * each}, by"
        if is_declared(leaf):
            raise Unlike(f"{told} `outputs`; give a larger max_count")
        raise TooLarge(f"{told} `room` or the largest of the samples looked at first", 1 << (2 * size * each - 1).bit_length())


# From several values to a layout.


def looked_at(of_all: int, count: int) -> List[int]:
    """`count` numbers below `of_all`, from first to last."""
    return sorted({(of_all - 1) * k // max(1, count - 1) for k in range(count)})


def layout_of(values: List[Any], may_differ: bool) -> Layout:
    """The layout that fits them all. `may_differ`: others may have other shapes also where these have one."""
    trees, all_leaves = [], []
    for value in values:
        leaves: List[Any] = []
        trees.append(tree_of(value, leaves))
        all_leaves.append(leaves)
    if any(tree != trees[0] for tree in trees[1:]):
        return Layout(0, [_object(values)])
    columns = ([leaves[i] for leaves in all_leaves] for i in range(len(all_leaves[0])))
    return Layout(trees[0], [_leaf(column, may_differ) for column in columns])


def _leaf(values: List[Any], may_differ: bool) -> Leaf:
    arrays = [_array_of(value) for value in values]
    found, first, dtype = arrays[0]
    if found and all((of, name) == (found, dtype) for of, _, name in arrays):
        shapes = {array.shape for _, array, _ in arrays}  # type: ignore[union-attr]
        may_differ = may_differ and first.ndim or first.shape[:1] == (0,)  # type: ignore[union-attr]
        if len(shapes) == 1 and not may_differ:
            return {"kind": "array", "of": found, "dtype": dtype, "shape": list(first.shape)}  # type: ignore[union-attr]
        if len({len(shape) for shape in shapes}) == 1:
            largest = max(array.size for _, array, _ in arrays)  # type: ignore[union-attr]
            each = first.dtype.itemsize  # type: ignore[union-attr]
            times = _ROOM_TIMES if len(shapes) > 1 else _ROOM_TIMES_OF_EQUALS
            elements = -(-_room(largest * each, times) // each)
            leaf = {"kind": "ragged", "of": found, "dtype": dtype, "rank": first.ndim, "room": elements}  # type: ignore[union-attr]
            rests = {shape[1:] for shape in shapes}
            return {**leaf, "rest": list(*rests)} if len(rests) == 1 else leaf
    if all(type(value) is str for value in values):
        values = [value.encode("utf-8", "surrogatepass") for value in values]
        return {"kind": "text", "room": _room(max(map(len, values)))}
    if all(type(value) is bytes for value in values):
        return {"kind": "bytes", "room": _room(max(map(len, values)))}
    if all(value is None for value in values):
        return {"kind": "none"}
    return _object(values)


def _object(values: List[Any]) -> Leaf:
    return {"kind": "object", "room": _room(max(len(_pickled(value, "")) for value in values))}


def _room(largest: int, times: int = _ROOM_TIMES) -> int:
    """Bytes: several times the largest, rounded up so that it seldom differs."""
    step = 1 << max(0, (times * largest).bit_length() - 3)
    return max(_LEAST_ROOM, -(-times * largest // step) * step)


# From outputs to a value, in the trainer.


def decode(leaf: Leaf, data: Any, shape: Any, as_tensor: Callable[[np.ndarray, str], Any]) -> Any:
    """One sample's leaf: `data` is its array, or the filled part of its room; `shape` of a ragged one."""
    kind = leaf["kind"]
    if kind == "none":
        return None
    if kind == "text":
        return data.tobytes().decode("utf-8", "surrogatepass")
    if kind == "bytes":
        return data.tobytes()
    if kind == "object":
        return pickle.loads(data.tobytes())
    array = data.reshape(shape) if kind == "ragged" else data
    of = leaf["of"]
    if of == "tensor" or kind == "ragged" and of == "any":
        return as_tensor(array, leaf["dtype"])
    if of in ("int", "float", "bool"):
        return array[()].item() if isinstance(array, np.ndarray) else array.item()
    return array[()] if of == "scalar" else array


class TheOnlyOne:
    """The collate_fn of batch_size=None, which gets the sample and no list."""

    def __init__(self, convert: Any):
        self._convert = convert

    def __call__(self, samples: List[Any]) -> Any:
        [sample] = samples
        return self._convert(sample)


def rebuilt_tensor(array: np.ndarray, dtype: str) -> Any:
    """A tensor of a dataset, on the memory that all workers share: it can be read, not changed in place."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the memory is read-only
        tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
