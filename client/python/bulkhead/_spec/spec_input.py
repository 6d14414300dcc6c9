"""What users give as a spec → the text that travels; the service parses it."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import Any, Mapping, NamedTuple, Union

from .._words import nearest, printable
from ..errors import DataError, SpecError
from . import element_type, spec_message
from .pipeline_base import NOT_MIXED, PipelineBase, absolute
from .spec_yaml import Path

Spec = Union[str, "os.PathLike[str]", Mapping[str, Any], PipelineBase]

MAX_SPEC_BYTES = 1 << 20
_SUFFIXES = (".yaml", ".yml", ".json")


class SpecInput(NamedTuple):
    text: str
    name: str
    base_dir: str
    is_file: bool = False
    is_written: bool = True  # as text, whose lines can be counted

    def in_words(self, message: str) -> str:
        """A service's message about the spec, without lines and columns if nobody wrote it as text."""
        return message if self.is_written else re.sub(rf"^{self.name}:\d+:\d+: ", "", message, flags=re.MULTILINE)


def _looks_like_path(spec: str) -> bool:
    """Whether a string is a path: the text of a spec is a map, so it has a colon; a path has none, or exists."""
    if "\n" in spec:
        return False
    return spec.endswith(_SUFFIXES) or "{" not in spec and (":" not in spec or os.path.exists(spec))


def _cannot_read(path: str, why: str, missing: bool) -> DataError:
    return DataError(
        f"cannot read the spec {printable(path, 256)}: {why}",
        "FILE_NOT_FOUND" if missing else "FILE_UNREADABLE",
        {"file": path},
        "NOT_FOUND" if missing else "PERMISSION_DENIED",
    )


def _instead(path: str) -> str:
    """Advice: the spec in the same folder with a similar name, or where the path leads."""
    folder, name = os.path.split(path)
    try:
        names = [each for each in os.listdir(folder or ".") if each.endswith(_SUFFIXES)]
    except OSError:
        names = []
    near = nearest(name, names)
    if near:
        return f"; did you mean {os.path.join(folder, near)}?"
    return "" if os.path.isabs(path) else f"; looked for {os.path.abspath(path)}"


def _read(path: str) -> SpecInput:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SPEC_BYTES + 1)
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{path}: not UTF-8 text: {error}", metadata={"file": path}, code="INVALID_ARGUMENT"
        ) from None
    except ValueError as error:  # of a name that no file can have
        raise _cannot_read(repr(path), str(error), True) from None
    except IsADirectoryError:
        raise _cannot_read(
            path,
            f"it is a folder; write Pipeline.image_folder({path!r}) and its stages, or have `bulkhead inspect` write a spec "
            f"for it: bulkhead inspect {path} --out train.yaml",
            False,
        ) from None
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        why = error.strerror or str(error)
        raise _cannot_read(path, why + _instead(path) if missing else why, missing) from None
    return SpecInput(text, path, os.path.dirname(absolute(path)), True)


def _json(spec: Mapping[str, Any]) -> str:
    try:
        # Characters as they are: the service reads no pair of \\u escapes as one.
        return json.dumps(_plain(spec, ()), ensure_ascii=False)
    except SpecError:  # it names the place
        raise
    except (TypeError, ValueError) as error:
        raise SpecError(f"the dict is no spec: {error}") from None
    except RecursionError:
        raise SpecError("the dict is no spec: its lists and dicts are nested too deeply") from None


def _of_dataset(value: Any) -> str:
    """Advice for who gives a dataset of their own, or a bulkhead.Source of it, where a spec is wanted."""
    is_sequence = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    if not hasattr(value, "_first_stage") and (not is_sequence or isinstance(value, (bytes, bytearray, range))):
        return ""
    return (
        ': a dataset of your own is a source, {"source": {"python": bulkhead.Source(dataset)}, "batch": {"size": 64}}; '
        "bulkhead.torch.DataLoader(dataset, ...) takes it as PyTorch's does"
    )


def _plain(value: Any, path: Path) -> Any:
    """The value as JSON has it."""
    if isinstance(value, Mapping):
        return {key: _plain(item, path + (key,)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, path + (index,)) for index, item in enumerate(value)]
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    name = element_type.name_of(value)
    if name:
        return name
    if hasattr(value, "tolist") and not isinstance(value, type):  # of NumPy
        return _plain(value.tolist(), path)
    place = spec_message.place_text(path)
    raise SpecError(f"{place}: {_no_value(value, path)}", metadata={"path": place})


def _no_value(value: Any, path: Path) -> str:
    size = element_type.advice(value)
    if size and path[-1:] == ("dtype",):
        return f"must be the name of an element type: {size}"
    if "mixture" in path and hasattr(value, "_first_stage"):
        return NOT_MIXED
    of_dataset = _of_dataset(value)
    if not of_dataset and spec_message.is_function(value):
        return spec_message.as_file(value, '"function": "{}"')
    return f"must be text, a number, a list or a dict, not {type(value).__name__}{of_dataset}"


def load(spec: Spec) -> SpecInput:
    """A path, the text itself, a dict or a Pipeline.

    Relative paths start from the file's or the Pipeline's folder, else from the current one.
    """
    if isinstance(spec, PipelineBase):
        result = SpecInput(spec.to_yaml(), "pipeline", spec.base_dir or os.getcwd())
    elif isinstance(spec, Mapping):
        result = SpecInput(_json(spec), "spec", os.getcwd(), is_written=False)
    elif isinstance(spec, os.PathLike):
        result = _read(os.fspath(spec))
    elif isinstance(spec, str):
        result = _read(spec) if _looks_like_path(spec) else SpecInput(spec, "spec", os.getcwd())
    else:
        raise SpecError(f"a spec is a path, text, a dict or a Pipeline, not {type(spec).__name__}{_of_dataset(spec)}")
    try:
        size = len(result.text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise SpecError(f"{result.name}: not UTF-8 text: {error}") from None
    if size > MAX_SPEC_BYTES:
        raise SpecError(f"{result.name}: a spec has at most 1 MiB", metadata={"file": result.name})
    return result
