"""A Pipeline as the code that makes it."""

from __future__ import annotations

import keyword
import math
from typing import Any, Dict, Iterator, List, Optional

from . import spec_text
from .list_file import ListFile
from .pipeline_base import PipelineBase

_LINE = 88
# In the order in which things happen.
_OF_A_SOURCE = ("filter", "split", "skip", "take", "order", "stages")
_OF_ALL = ("batch_stages", "outputs", "batch", "seed", "epochs", "errors", "deterministic")


def code(pipeline: PipelineBase) -> str:
    """Python, which evaluates to an equal Pipeline unless it has a list file or a stage that is not named."""
    return _chain(steps(pipeline), "")


def steps(pipeline: PipelineBase) -> List[str]:
    """The calls that make it, one after the other, each with its dot."""
    spec = spec_text.to_dict(pipeline._message)
    return [_source(spec, pipeline._base_dir, pipeline._list), *_calls(spec)]


def calls(spec: Dict[str, Any]) -> List[str]:
    """The call of each part of a spec: ".image_folder(path='photos')", ".resize(size=224)"."""
    return [*([_source(spec, None)] if spec.get("source") else []), *_calls(spec)]


def _chain(parts: List[str], indent: str) -> str:
    line = "Pipeline" + "".join(parts)
    if len(indent) + len(line) <= _LINE and "\n" not in line:
        return line
    inner = indent + "    "
    return f"(\n{inner}Pipeline" + f"\n{inner}".join(parts) + f"\n{indent})"


def _source(
    spec: Dict[str, Any],
    base_dir: Optional[str],
    list_file: Optional[ListFile] = None,
    indent: str = "    ",
) -> str:
    if not spec.get("source"):
        return ".from_dict({})"
    ((name, options),) = spec["source"].items()
    beside = {} if base_dir is None else {"base_dir": base_dir}
    if name == "mixture":
        parts = options.pop("sources", [])
        texts = [_part(part, base_dir, indent) for part in parts]
        inner = "".join(f"\n{indent}    {text}," for text in texts)
        return f".mixture([{inner}\n{indent}]{_arguments(options, first=False)})"
    if name == "tfrecord" or spec.get("features"):
        options["features"] = spec.get("features", {})
    if list_file is not None:
        count = list_file.text.count("\n")
        return f".from_lists(<{count} paths>{_arguments(beside, first=False)})"
    return f".{name}({_arguments({**options, **beside})})"


def _part(part: Dict[str, Any], base_dir: Optional[str], indent: str) -> str:
    parts = [_source(part, base_dir, indent=indent + "    "), *_calls(part)]
    return f"({part.get('weight', 0)!r}, {_chain(parts, indent + '    ')})"


def _calls(spec: Dict[str, Any]) -> Iterator[str]:
    for name in _OF_A_SOURCE + _OF_ALL:
        if name not in spec:
            continue
        value = spec[name]
        if name == "filter":
            yield from (f".filter({_arguments(condition)})" for condition in value)
        elif name in ("stages", "batch_stages"):
            yield from (_stage(stage, name == "batch_stages") for stage in value if stage)
        elif name == "order":
            yield from (f".order_{kind}({_arguments(options)})" for kind, options in value.items())
        elif name == "outputs":
            yield f".outputs({', '.join(map(repr, value))})"
        elif isinstance(value, dict):
            yield f".{name}({_arguments(value)})"
        else:
            yield f".{name}({value!r})"


def _stage(stage: Dict[str, Any], of_batches: bool) -> str:
    ((name, options),) = stage.items()
    prefix = "batch_" if of_batches and name == "python" else ""
    return f".{prefix}{name}({_arguments(options)})"


def _arguments(options: Dict[str, Any], first: bool = True) -> str:
    words = [
        f"{name}{'_' * keyword.iskeyword(name)}={_value(spec_text.short(value))}"
        for name, value in options.items()
    ]
    return ("" if first or not words else ", ") + ", ".join(words)


def _value(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_value(item)}" for key, item in value.items()) + "}"
    return repr(value)
