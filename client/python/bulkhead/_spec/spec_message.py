"""Values of Python or YAML → fields of a spec's message, with advice for what does not fit."""

from __future__ import annotations

import math
import numbers
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from .._rpc import descriptor
from .._words import did_you_mean
from ..errors import SpecError
from . import element_type, foreign_advice, option_limits
from .spec_yaml import Mark, Path, Text

# More than anyone reads at once; as the service's.
_MOST_MISTAKES = 20
# What a float32 can hold.
_MAX_FLOAT32 = (2 - 2**-23) * 2.0**127
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NOT_FINITE = {
    ".nan": math.nan,
    "nan": math.nan,
    ".inf": math.inf,
    "infinity": math.inf,
    "-.inf": -math.inf,
    "-infinity": -math.inf,
}
_EPOCHS = "bulkhead.v1.PipelineSpec.epochs"  # the one thing a spec writes differently: without it there is no end
_EPOCHS_ZERO = "is 0; it must be at least 1, or forever"
_INTEGERS = {
    descriptor.INT32: (-(1 << 31), 1 << 31),
    descriptor.INT64: (-(1 << 63), 1 << 63),
    descriptor.UINT32: (0, 1 << 32),
    descriptor.UINT64: (0, 1 << 64),
}


def fill(
    message: Any,
    values: Any,
    path: Path = (),
    name: str = "spec",
    marks: Optional[Mapping[Path, Mark]] = None,
) -> None:
    """Sets what `values` gives; SpecError for unknown names, wrong types and double choices.

    Where a list is asked for one value may stand alone; a stage without options may be its name.
    With `marks` errors begin with `name`:line:column. All mistakes come in one error, a line each.
    """
    filler = _Filler(name, marks or {})
    filler.message(message, values, path)
    filler.raise_mistakes()


def unknown(
    kind: str, name: str, known: Sequence[str], message: str = "", value: Any = foreign_advice.NOTHING
) -> str:
    """ "unknown stage `resise`; did you mean `resize`?" `message`: the full name of the one that lacks it."""
    told = foreign_advice.advice(message, name, value, known)
    return f"unknown {kind} `{name}`" + (f"; {told}" if told else did_you_mean(name, known, "`"))


def place_text(path: Path) -> str:
    """ "stages[1].resize.size"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


class _Filler:
    def __init__(self, name: str, marks: Mapping[Path, Mark]):
        self._name = name
        self._marks = marks
        self._mistakes: List[Tuple[str, Dict[str, str]]] = []  # text and metadata

    def raise_mistakes(self) -> None:
        if not self._mistakes:
            return
        lines = [text for text, _ in self._mistakes[:_MOST_MISTAKES]]
        if len(self._mistakes) > len(lines):
            lines.append(f"{self._name}: and {len(self._mistakes) - len(lines)} more")
        raise SpecError("\n".join(lines), metadata=self._mistakes[0][1])

    def _wrong(self, path: Path, what: str) -> None:
        place, metadata = place_text(path), {"path": place_text(path)}
        text = f"{place}: {what}" if place else what
        while path and path not in self._marks:
            path = path[:-1]
        if path in self._marks:
            line, column = self._marks[path]
            metadata.update(file=self._name, line=str(line), column=str(column))
            text = f"{self._name}:{line}:{column}: {text}"
        self._mistakes.append((text, metadata))

    def message(self, message: Any, values: Any, path: Path) -> None:
        kind = message.DESCRIPTOR
        if isinstance(values, str) and len(descriptor.choices_of(kind)) == 1:
            name = self._bare_name(kind, values, path)
            values = None if name is None else {name: None}
        if values is None:
            return
        if not isinstance(values, Mapping):
            self._wrong(path, f"must be a map of {kind.name}'s fields, not {_shown(values)}")
            return
        chosen: Dict[str, str] = {}
        for key, value in values.items():
            field = descriptor.find_field(kind, str(key))
            if field is None:
                noun = descriptor.choices_of(kind)[0] if descriptor.is_choice(kind) else "field"
                names = descriptor.field_names(kind)
                self._wrong(path + (key,), unknown(noun, str(key), names, kind.full_name, value))
                continue
            choice = descriptor.choice_of(field)
            if choice is not None and chosen.setdefault(choice, field.name) != field.name:
                self._wrong(path + (key,), f"one {choice} only: `{chosen[choice]}` is given already")
                continue
            self._field(message, field, value, path + (key,))

    def _bare_name(self, kind: Any, name: str, path: Path) -> Optional[str]:
        """`random_horizontal_flip`, `int64`: the choice of a message without options."""
        names = [
            field.name
            for field in kind.fields
            if descriptor.choice_of(field) is not None and field.message_type is not None
        ]
        field = descriptor.find_field(kind, name)
        if field is None or field.name not in names:
            noun = descriptor.choices_of(kind)[0]
            self._wrong(path, unknown(noun, str(name), names, kind.full_name))
            return None
        return str(field.name)

    def _field(self, message: Any, field: Any, value: Any, path: Path) -> None:
        name = field.name
        if descriptor.is_map(field):
            self._map(getattr(message, name), field, value, path)
        elif descriptor.is_repeated(field):
            self._list(getattr(message, name), field, value, path)
        elif field.message_type is not None:
            getattr(message, name).SetInParent()
            self.message(getattr(message, name), value, path)
        elif field.full_name != _EPOCHS or value != "forever":
            number = self._scalar(field, value, path)
            if number is None:
                return
            zero = _least(field)
            if number == 0 and zero is not None:  # else it would look as if it was not set
                self._wrong(path, zero)
            setattr(message, name, number)

    def _list(self, target: Any, field: Any, value: Any, path: Path) -> None:
        if value is None:
            self._wrong(path, "has no value; an empty list is []")
            return
        items, single = _items(value)
        for index, item in enumerate(items):
            place = path if single else path + (index,)
            if field.message_type is not None:
                self.message(target.add(), item, place)
                continue
            scalar = self._scalar(field, item, place)
            if scalar is not None:
                target.append(scalar)

    def _map(self, target: Any, field: Any, value: Any, path: Path) -> None:
        if not isinstance(value, Mapping):
            self._wrong(path, f"must be a map by name, not {_shown(value)}")
            return
        item_field = field.message_type.fields_by_name["value"]
        for key, item in value.items():
            if not isinstance(key, str):
                self._wrong(path, f"a name must be text, not {_shown(key)}")
                continue
            if item_field.message_type is not None:
                target[key].SetInParent()
                self.message(target[key], item, path + (key,))
                continue
            scalar = self._scalar(item_field, item, path + (key,))
            if scalar is not None:
                target[str(key)] = scalar

    def _scalar(self, field: Any, value: Any, path: Path) -> Any:
        """The field's value; None: it is wrong."""
        kind = field.cpp_type
        if value is None:
            self._wrong(path, "has no value")
            return None
        try:
            if kind in _INTEGERS:
                return _integer(value, *_INTEGERS[kind], _least(field))
            if kind in (descriptor.DOUBLE, descriptor.FLOAT):
                return _real(value, kind == descriptor.FLOAT)
            if kind == descriptor.BOOL:
                return _truth(value)
            if kind == descriptor.ENUM:
                return _enum_number(field, value)
            assert kind == descriptor.STRING
            in_map = field.containing_type.GetOptions().map_entry  # constants of a user's stage
            return _text(value, numbers_too=in_map)
        except ValueError as error:
            told = str(error)
            self._wrong(path, told if field.full_name != _EPOCHS or "forever" in told else f"{told}; or write forever")
            return None


def _items(value: Any) -> Tuple[Iterable[Any], bool]:
    """The values for a list field, and whether it was a single value."""
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if isinstance(value, (str, bytes, Mapping, os.PathLike)) or not hasattr(value, "__iter__"):
        return [value], True
    return value, False


def _shown(value: Any) -> str:
    text = repr(str(value) if isinstance(value, Text) else value)
    shown = text if len(text) <= 64 else text[:61] + "..."
    return shown if isinstance(value, Text) else f"{shown} ({type(value).__name__})"


def _least(field: Any) -> Optional[str]:
    """Why a number cannot be 0; None: it can."""
    return _EPOCHS_ZERO if field.full_name == _EPOCHS else option_limits.ZEROS.get(field.full_name)


def _integer(value: Any, low: int, end: int, zero: Optional[str] = None) -> int:
    """`zero`: why it cannot be 0."""
    if isinstance(value, Text) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, (str, bool)) or not isinstance(value, numbers.Integral):
        raise ValueError(f"must be a whole number, but is {_shown(value)}")
    number = int(value)
    if number < low == 0 and zero is not None:
        raise ValueError(zero.replace("is 0;", f"is {number};", 1))
    if number < low:
        raise ValueError(f"must be at least {low}, but is {number}")
    if number >= end:
        raise ValueError(f"must be at most {end - 1}, but is {number}")
    return number


def _real(value: Any, narrow: bool) -> float:
    if isinstance(value, Text):
        if value.lower() in _NOT_FINITE:
            return _NOT_FINITE[value.lower()]
        if _DECIMAL.fullmatch(value):
            value = float(value)
    if isinstance(value, (str, bool)) or not isinstance(value, numbers.Real):
        raise ValueError(f"must be a number, but is {_shown(value)}")
    number = float(value)
    if narrow and math.isfinite(number) and abs(number) > _MAX_FLOAT32:
        raise ValueError(f"is too large for float32: {number!r}")
    return number


def _truth(value: Any) -> bool:
    if isinstance(value, Text) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy's too
        return bool(value)
    raise ValueError(f"must be true or false, but is {_shown(value)}")


def _enum_number(field: Any, value: Any) -> int:
    enum_type = field.enum_type
    names = descriptor.enum_names(enum_type)
    accepted = option_limits.VALUES.get(field.full_name) or tuple(names.values())
    value = element_type.name_of(value) or value
    if not isinstance(value, str):
        size = element_type.advice(value)
        told = f": {size}" if size else f", but is {_shown(value)}"
        raise ValueError(f"must be one of {', '.join(accepted)}{told}")
    for number, name in names.items():
        if value.lower() == name or value == enum_type.values_by_number[number].name:
            return number
    raise ValueError(unknown("value", str(value), accepted))


def is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__qualname__")


def as_file(function: Any, line: str = 'function="{}"') -> str:
    """Advice for a function that was given instead of its name; `line` is how the reader writes the name."""
    module, name = getattr(function, "__module__", None), function.__qualname__
    text = f"must be the name of {name}, not the function itself, because workers import it"
    if module not in (None, "__main__", "builtins") and "<" not in name:
        return f"{text}; write\n    {line.format(f'{module}:{name}')}"
    plain = name.rpartition(".")[2].strip("<>")
    plain = plain if plain.isidentifier() and plain != "lambda" else "my_function"
    return (
        f"{text}: put it in a file; begin its cell with the first of these lines (or write the file), "
        f"and use the second:\n    %%writefile my_stages.py\n    {line.format(f'my_stages:{plain}')}"
    )


def _text(value: Any, numbers_too: bool) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if is_function(value):
        raise ValueError(as_file(value))
    if numbers_too and isinstance(value, bool):
        return "true" if value else "false"
    if numbers_too and isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, str):
        raise ValueError(f"must be text, but is {_shown(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"is not UTF-8 text: {value!r}") from None
    return str(value)
