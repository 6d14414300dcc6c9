"""A spec's message → plain dict, and YAML as people write it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, List

import numpy as np

from .._rpc import descriptor

# Texts that need no quotes, whatever a reader makes of plain texts.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_TAKEN = ("null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "infinity")
_LINE = 100


def to_dict(message: Any) -> Dict[str, Any]:
    """What is set, by the names of a spec; lists stay lists, enums are written as in YAML."""
    result: Dict[str, Any] = {}
    for field, value in sorted(message.ListFields(), key=lambda item: item[0].number):
        if descriptor.is_map(field):
            item = field.message_type.fields_by_name["value"]
            result[field.name] = {key: _plain(item, value[key]) for key in sorted(value)}
        elif descriptor.is_repeated(field):
            result[field.name] = [_plain(field, item) for item in value]
        else:
            result[field.name] = _plain(field, value)
    return result


def _plain(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return to_dict(value)
    if field.enum_type is not None:
        return descriptor.enum_names(field.enum_type)[value]
    if field.cpp_type == descriptor.FLOAT:
        # The shortest decimal that is this float32: 123.675, not 123.67500305175781.
        value = float(str(np.float32(value)))
    if isinstance(value, float) and value.is_integer() and 0 < abs(value) < 2**53:
        return int(value)
    return value


def short(value: Any) -> Any:
    """A list of one single value may be written as the value."""
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], (dict, list)):
        return value[0]
    return value


def to_yaml(spec: Dict[str, Any]) -> str:
    """The YAML of a dict of `to_dict`: one line for what fits into one, blocks for the rest."""
    return "".join(line + "\n" for line in _block(spec, 0))


def _block(values: Dict[str, Any], indent: int) -> List[str]:
    lines: List[str] = []
    for key, value in values.items():
        start = " " * indent + _text(key) + ":"
        flow = f"{start} {_flow(value)}"
        is_list = isinstance(value, list) and any(isinstance(item, dict) for item in value)
        if not is_list and (len(flow) <= _LINE or not _is_nested(value)):
            lines.append(flow)
        elif isinstance(value, dict):
            lines += [start, *_block(value, indent + 2)]
        else:
            lines += [start, *_items(value, indent + 2)]
    return lines


def _is_nested(value: Any) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def _items(values: List[Any], indent: int) -> List[str]:
    lines: List[str] = []
    for value in values:
        flow = _bare(value) if isinstance(value, dict) else _flow(value)
        if indent + 2 + len(flow) <= _LINE or not _is_nested(value) or isinstance(value, list):
            lines.append(f"{' ' * indent}- {flow}")
        else:
            first, *rest = _block(value, indent + 2)
            lines += [f"{' ' * indent}- {first.lstrip()}", *rest]
    return lines


def _bare(value: Dict[str, Any]) -> str:
    """`resize: {size: 224}` and `random_horizontal_flip` for the item of a list."""
    if len(value) != 1:
        return _flow(value)
    ((key, options),) = value.items()
    return _text(key) if options == {} else f"{_text(key)}: {_flow(options)}"


def _flow(value: Any) -> str:
    value = short(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        return repr(value)
    return str(value) if isinstance(value, int) else _text(value)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _TAKEN:
        return value
    # What JSON leaves as it is although YAML does not: control characters beyond ASCII.
    quoted = json.dumps(value, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda m: f"\\u{ord(m.group()):04x}", quoted
    )
