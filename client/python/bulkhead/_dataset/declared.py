"""What `outputs` declares of a dataset's samples, so that none is looked at first."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._spec import element_type
from ..errors import InvalidArgument
from .worker.bulkhead_leaves import DTYPES, Layout, Leaf, Tree, itemsize

_KEYS = ("dtype", "shape", "max_count")


def layout_of(outputs: Any) -> Layout:
    """Of bulkhead.torch.DataLoader: a structure as samples have it, with a declaration for each value."""
    leaves: List[Leaf] = []
    tree = _tree(outputs, leaves, "outputs")
    if not leaves:
        raise InvalidArgument(f"outputs declares no value: write what a sample has, such as [\"float32\", \"int64\"], not {outputs!r:.80}")
    return Layout(tree, leaves)


def layout_of_fields(outputs: Any, fields: Optional[Sequence[str]]) -> Layout:
    """Of bulkhead.Source: a list of declarations with names, as a Python stage has it."""
    if not isinstance(outputs, Sequence) or not outputs or not all(isinstance(each, Mapping) and "name" in each for each in outputs):
        raise InvalidArgument(
            "outputs is a list of what a sample has, such as "
            '[{"name": "image", "dtype": "bytes", "max_count": 1 << 20}, {"name": "label", "dtype": "int64"}], '
            f"not {outputs!r:.80}"
        )
    names = [each["name"] for each in outputs]
    if fields is not None and list(fields) != names:
        raise InvalidArgument(f"fields names {', '.join(fields)}, but outputs {', '.join(names)}: give both the same order")
    leaves = [
        _leaf({key: value for key, value in each.items() if key != "name"}, f"outputs[{number}]")
        for number, each in enumerate(outputs)
    ]
    tree: Tree = {"dict": [[name, number] for number, name in enumerate(names)]}
    if fields is not None:
        tree = {"tuple": list(range(len(names)))} if len(names) > 1 else 0
    return Layout(tree, leaves)


def _tree(part: Any, leaves: List[Leaf], where: str) -> Tree:
    if isinstance(part, Mapping) and "dtype" not in part:
        return {"dict": [[key, _tree(inside, leaves, f"{where}[{key!r}]")] for key, inside in part.items()]}
    if isinstance(part, tuple) or type(part) is list:
        inside = [_tree(each, leaves, f"{where}[{number}]") for number, each in enumerate(part)]
        if hasattr(part, "_fields"):
            return {"named": inside, "class": [type(part).__module__, type(part).__qualname__]}
        return {"list" if type(part) is list else "tuple": inside}
    leaves.append(_leaf(part if isinstance(part, Mapping) else {"dtype": part}, where))
    return len(leaves) - 1


def _leaf(told: Mapping[str, Any], where: str) -> Leaf:
    unknown = sorted(set(told) - set(_KEYS))
    if unknown or "dtype" not in told:
        raise InvalidArgument(
            f"{where}: {f'`{unknown[0]}` is unknown' if unknown else 'a dtype is missing'}; a value has dtype, shape and "
            'max_count, such as {"dtype": "float32", "shape": [3, 224, 224]}'
        )
    asked = told["dtype"]
    dtype = asked if isinstance(asked, str) else element_type.name_of(asked) or str(asked).replace("torch.", "")
    shape = told.get("shape", [])
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
        raise InvalidArgument(f"{where}.shape: {shape!r} is no shape: write a list, such as [3, 224, 224], or [] for a number")
    shape = list(shape)
    if dtype == "bytes":
        if shape:
            raise InvalidArgument(f"{where}.shape: bytes have none: leave it out")
        return {"kind": "bytes", "of": "any", "room": _max_count(told, where, "bytes, the most of a sample")}
    if dtype not in DTYPES and dtype != "bfloat16":
        raise InvalidArgument(
            f"{where}.dtype: {told['dtype']!r} is no element type: write \"float32\", say, or \"bytes\" for bytes and str"
        )
    if not all(isinstance(extent, int) and extent >= (-1 if at == 0 else 0) for at, extent in enumerate(shape)):
        raise InvalidArgument(f"{where}.shape: {shape} is no shape: only the first dimension may be -1, where it differs")
    if shape[:1] != [-1]:
        if "max_count" in told:
            raise InvalidArgument(
                f"{where}.max_count: the shape {shape} says how many there are: leave max_count out, or write -1 for the first "
                "dimension, where it differs"
            )
        return {"kind": "array", "of": "any", "dtype": dtype, "shape": shape}
    room = _max_count(told, where, "rows, the most of a sample") * math.prod(shape[1:])
    return {"kind": "ragged", "of": "any", "dtype": dtype, "rank": len(shape), "rest": shape[1:], "room": room}


def _max_count(told: Mapping[str, Any], where: str, what: str) -> int:
    most = told.get("max_count")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidArgument(f"{where}.max_count is required here: the number of {what}")
    return most


def explained(layout: Layout, places: Dict[int, str], pickled: Mapping[int, int]) -> str:
    """A line for each value: where it is, and how it travels. `pickled`: by leaf, the bytes that came pickled."""
    lines = [["value", "is", "travels"]]
    for number, leaf in enumerate(layout.leaves):
        lines.append([places[number] or "the sample itself", _what(leaf), _how(leaf, pickled.get(number, 0))])
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in lines)


def _what(leaf: Leaf) -> str:
    kind = leaf["kind"]
    if kind == "array":
        return f"{leaf['dtype']} {leaf['shape']}"
    if kind == "ragged":
        return f"{leaf['dtype']}, {leaf['rank']} dimensions"
    return {"text": "str", "object": "an object"}.get(kind, kind)


def _how(leaf: Leaf, pickled: int) -> str:
    kind = leaf["kind"]
    if kind == "array":
        return "in the batch, without a copy"
    if kind == "none":
        return "not at all"
    room = f"room for {leaf['room'] * itemsize(leaf)} bytes in each sample"
    if kind == "object":
        return f"pickled by workers and unpickled here, {pickled} bytes so far; {room}"
    return f"copied row by row; {room}"
