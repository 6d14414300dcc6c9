"""The YAML of specs as Python values and their places; PyYAML is imported at first use."""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple, Tuple

Path = Tuple[Any, ...]  # of keys and indices
Mark = Tuple[int, int]  # line and column, from 1

# The service's limits.
_MAX_DEPTH = 64
_MAX_VALUES = 50_000
# PyYAML would end a line at each of them; the service reads them as ordinary characters.
_ENDS_OF_YAML_1_1 = re.compile("[\x85\u2028\u2029]")
_NULLS = ("", "~", "null", "Null", "NULL")


class Text(str):
    """A single value as written; its meaning depends on the field."""


class YamlFault(Exception):
    """The text is not the YAML of a spec; the message says why."""

    def __init__(self, message: str, mark: Mark):
        super().__init__(message)
        self.message = message
        self.mark = mark


class Document(NamedTuple):
    value: Any  # dicts, lists, Text and None
    marks: Dict[Path, Mark]  # of a map's value, where its key stands


def read(text: str) -> Document:
    """The one document of `text`. Raises YamlFault, and ImportError without PyYAML."""
    try:
        import yaml
    except ImportError:
        raise ImportError(
            'reading YAML needs PyYAML: pip install "bulkhead-loader[yaml]"; or pass the file to '
            "Loader as it is, which needs nothing",
            name="yaml",
        ) from None
    ends = _ENDS_OF_YAML_1_1.search(text)
    if ends is not None:
        raise YamlFault(_escape_it(ends.group()), _mark_at(text, ends.start()))
    try:
        # BaseLoader: `yes`, `010` and `1e3` stay the texts they are.
        root = yaml.compose(text, yaml.BaseLoader)
    except yaml.reader.ReaderError as error:
        mark = _mark_at(text, error.position)
        raise YamlFault(_escape_it(chr(error.character)), mark) from None
    except yaml.MarkedYAMLError as error:
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise YamlFault(f"not valid YAML: {problem}", _of(error.problem_mark)) from None
    except ValueError as error:  # an escape beyond Unicode
        raise YamlFault(f"not valid YAML: {error}", (1, 1)) from None
    except RecursionError:
        raise YamlFault(f"nested deeper than {_MAX_DEPTH} levels", (1, 1)) from None
    if root is None:
        raise YamlFault("the spec is empty; it needs at least `source` and `batch`", (1, 1))
    walk = _Walk()
    return Document(walk.value(root, (), walk.mark((), root)), walk.marks)


def _escape_it(character: str) -> str:
    return (
        f"the character {character!r} is none of text; in double quotes an escape can stand for it"
    )


def _mark_at(text: str, at: int) -> Mark:
    return (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _of(mark: Any) -> Mark:
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


class _Walk:
    """Nodes → values. An alias is the same node as its anchor, so nodes may form a cycle."""

    def __init__(self) -> None:
        self.marks: Dict[Path, Mark] = {}
        self._count = 0

    def mark(self, path: Path, node: Any) -> Mark:
        self.marks[path] = _of(node.start_mark)
        return self.marks[path]

    def value(self, node: Any, path: Path, mark: Mark) -> Any:
        self._count += 1
        if self._count > _MAX_VALUES:
            raise YamlFault(
                f"more than {_MAX_VALUES} values; put long lists into a file "
                "(image_list: {path: ...})",
                mark,
            )
        if len(path) > _MAX_DEPTH:
            raise YamlFault(f"nested deeper than {_MAX_DEPTH} levels", mark)
        if node.id == "mapping":
            return self._map(node, path)
        if node.id == "sequence":
            places = [path + (index,) for index in range(len(node.value))]
            return [
                self.value(item, place, self.mark(place, item))
                for place, item in zip(places, node.value)
            ]
        is_null = node.style is None and node.value in _NULLS
        return None if is_null else _text(node.value, mark)

    def _map(self, node: Any, path: Path) -> Dict[str, Any]:
        entries: Dict[str, Any] = {}
        for key_node, value_node in node.value:
            mark = _of(key_node.start_mark)
            key = self.value(key_node, path, mark)
            if not isinstance(key, str):
                kind = "empty" if key is None else f"a {key_node.id}"
                raise YamlFault(f"a key must be a name, but is {kind}", mark)
            if key in entries:
                line, column = self.marks[path + (key,)]
                raise YamlFault(f"`{key}` stands here twice, first at {line}:{column}", mark)
            self.marks[path + (key,)] = mark
            entries[key] = self.value(value_node, path + (key,), mark)
        return entries


def _text(text: str, mark: Mark) -> Text:
    try:
        # JSON writes a character beyond 16 bits as two escapes.
        return Text(text.encode("utf-16", "surrogatepass").decode("utf-16"))
    except UnicodeDecodeError:
        raise YamlFault(f"{text!r} holds an escape that makes no UTF-8 text", mark) from None
