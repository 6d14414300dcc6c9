"""The YAML in which specs are written, as Python values; no library is needed for it.

Maps, lists, flow style (and so JSON), quoted and plain texts, comments, anchors and aliases. What
else YAML knows - tags, block texts (`|`, `>`), plain texts over several lines - is refused by name.
"""

from __future__ import annotations

import bisect
import re
from typing import Any, Dict, List, NoReturn, Tuple

Path = Tuple[Any, ...]  # of keys and indices
Mark = Tuple[int, int]  # line and column, from 1

_MAX_DEPTH = 64
_ESCAPES = dict(zip('0abtnvfre"/\\ N_LP', '\0\a\b\t\n\v\f\r\x1b"/\\ \x85\xa0\u2028\u2029'))
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_FLOW_ENDS = ",[]{}"
# A plain text ends before ": " and " #", in flow style also before brackets and commas.
_PLAIN = re.compile(r"(?:[^\n:#]|:(?![ \t\n])|(?<![ \t])#)*")
_PLAIN_IN_FLOW = re.compile(r"(?:[^\n:#,\[\]{}]|:(?![ \t\n,\[\]{}])|(?<![ \t])#)*")
_NULLS = ("", "~", "null", "Null", "NULL")


class Text(str):
    """A single value as it is written: what it means is for the field to say."""


class YamlFault(Exception):
    def __init__(self, message: str, mark: Mark):
        super().__init__(message)
        self.message = message
        self.mark = mark


def read(text: str) -> Tuple[Any, Dict[Path, Mark]]:
    """Dicts, lists, Text and None; and where each of them stands. Raises YamlFault."""
    reader = _Reader(text)
    return reader.document(), reader.marks


class _Reader:
    """Recursive descent; `at` is where it reads. Owned by one call of `read`."""

    def __init__(self, text: str):
        self.text = text[1:] if text.startswith("\ufeff") else text
        self.text = self.text.replace("\r\n", "\n") + "\n"
        self.line_starts = [0] + [end.end() for end in re.finditer("\n", self.text)]
        self.at = 0
        self.marks: Dict[Path, Mark] = {}
        self.anchors: Dict[str, Any] = {}

    def fail(self, message: str) -> NoReturn:
        raise YamlFault(message, self.mark())

    def mark(self) -> Mark:
        at = min(self.at, len(self.text) - 1)
        line = bisect.bisect_right(self.line_starts, at)
        return (line, at - self.line_starts[line - 1] + 1)

    def column(self) -> int:
        return self.at - self.text.rfind("\n", 0, self.at) - 1

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def skip_blanks(self) -> None:
        while self.peek() and self.peek() in " \t":
            self.at += 1
        if self.peek() == "#" and (self.at == 0 or self.text[self.at - 1] in " \t\n"):
            self.at = self.text.index("\n", self.at)

    def skip(self) -> None:
        """Blanks, comments and ends of lines."""
        while True:
            self.skip_blanks()
            if self.peek() != "\n":
                break
            self.at += 1
        line = self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at]
        if "\t" in line and not line.strip() and self.peek():
            self.fail("a tab indents this line; use spaces")

    # Documents and blocks.

    def document(self) -> Any:
        self.skip()
        if self.peek() == "%":
            self.fail("directives are not read; remove the line")
        if self.at_word("---") and self.column() == 0:
            self.at += 3
        value = self.block(-1, (), 0)
        self.skip()
        if self.at_word("...") and self.column() == 0:
            self.at += 3
            self.skip()
        if self.peek():
            self.fail("a spec is one document; what is this doing here?")
        return value

    def at_word(self, word: str) -> bool:
        return self.peek(len(word)) == word and self.text[self.at + len(word)] in " \t\n"

    def block(self, parent: int, path: Path, depth: int) -> Any:
        """What stands further right than column `parent`; None if nothing does."""
        self.skip()
        if not self.peek() or self.column() <= parent or self.at_word("..."):
            return None
        if depth > _MAX_DEPTH:
            self.fail(f"nested deeper than {_MAX_DEPTH}")
        self.marks[path] = self.mark()
        if self.at_word("-"):
            return self.sequence(path, depth)
        if self.at_key():
            return self.map(path, depth)
        value = self.inline(parent, path, depth)
        self.end_of_value(parent)
        return value

    def sequence(self, path: Path, depth: int) -> List[Any]:
        column = self.column()
        items: List[Any] = []
        while self.peek() and self.column() == column and self.at_word("-"):
            self.at += 1
            place = path + (len(items),)
            self.marks[place] = self.mark()
            items.append(self.block(column, place, depth + 1))
            self.skip()
        if self.peek() and self.column() > column:
            self.fail("indented further than the list before it")
        return items

    def map(self, path: Path, depth: int) -> Dict[str, Any]:
        column = self.column()
        entries: Dict[str, Any] = {}
        while self.peek() and self.column() == column and not self.at_word("..."):
            if not self.at_key():
                self.fail("a key and a colon are expected here; does it stand too far left?")
            mark = self.mark()
            key = self.text_of_key(entries)
            self.marks[path + (key,)] = mark
            self.at += 1  # the colon
            entries[key] = self.value(column, path + (key,), depth + 1)
            self.skip()
        if self.peek() and self.column() > column:
            self.fail("indented further than the map before it")
        return entries

    def at_key(self) -> bool:
        """Whether a key and its colon stand on the rest of this line."""
        start = self.at
        try:
            if self.peek() in ("{", "[", "&", "*", ""):
                return False
            self.scalar(flow=False)
            self.skip_blanks()
            return self.at_colon()
        except YamlFault:
            return False
        finally:
            self.at = start

    def at_colon(self) -> bool:
        return self.peek() == ":" and self.text[self.at + 1] in " \t\n"

    def text_of_key(self, entries: Dict[str, Any], flow: bool = False) -> str:
        start = self.at
        key = str(self.scalar(flow))
        if key in entries:
            self.at = start
            self.fail(f"`{key}` stands here twice")
        self.skip() if flow else self.skip_blanks()
        return key

    def value(self, column: int, path: Path, depth: int) -> Any:
        """Behind a key: on its line, or below it."""
        self.skip_blanks()
        if self.peek() != "\n":
            if self.peek() == "&":
                name = self.anchor_name()
                self.anchors[name] = self.value(column, path, depth)
                return self.anchors[name]
            result = self.inline(column, path, depth)
            self.end_of_value(column)
            return result
        self.skip()
        if self.peek() and self.column() == column and self.at_word("-"):
            return self.sequence(path, depth)
        return self.block(column, path, depth)

    def end_of_value(self, column: int) -> None:
        self.skip_blanks()
        if self.peek() not in ("\n", ""):
            self.fail("quote this text: YAML would take it apart")
        self.skip()
        if self.peek() and self.column() > column:
            self.fail("a text over several lines, or indented too far; write it on one line")

    # Values inside a line or inside brackets.

    def inline(self, parent: int, path: Path, depth: int, flow: bool = False) -> Any:
        first = self.peek()
        if first == "&":
            name = self.anchor_name()
            if flow:
                self.skip()
                self.anchors[name] = self.inline(parent, path, depth, flow)
            else:
                self.anchors[name] = self.block(parent, path, depth)
            return self.anchors[name]
        if first == "*":
            name = self.anchor_name()
            if name not in self.anchors:
                self.fail(f"the alias names no anchor before it: `{name}`")
            return self.anchors[name]
        if first == "{":
            return self.flow_map(path, depth)
        if first == "[":
            return self.flow_list(path, depth)
        quoted = first in "\"'"
        text = self.scalar(flow)
        return None if not quoted and text in _NULLS else text

    def anchor_name(self) -> str:
        self.at += 1
        start = self.at
        while self.peek() not in " \t\n" and self.peek() not in _FLOW_ENDS:
            self.at += 1
        if self.at == start:
            self.fail("the anchor or alias has no name")
        name = self.text[start : self.at]
        self.skip_blanks()
        return name

    def flow_map(self, path: Path, depth: int) -> Dict[str, Any]:
        entries: Dict[str, Any] = {}
        self.open_bracket(depth)
        while self.peek() != "}":
            mark = self.mark()
            quoted = self.peek() in ('"', "'")
            key = self.text_of_key(entries, flow=True)
            self.marks[path + (key,)] = mark
            entries[key] = None
            if self.peek() == ":" and (quoted or self.text[self.at + 1] in " \t\n" + _FLOW_ENDS):
                self.at += 1
                self.skip()
                if self.peek() not in ",}":
                    self.marks[path + (key,)] = mark
                    entries[key] = self.inline(-1, path + (key,), depth + 1, flow=True)
                    self.skip()
            self.next_item("}")
        self.at += 1
        return entries

    def flow_list(self, path: Path, depth: int) -> List[Any]:
        items: List[Any] = []
        self.open_bracket(depth)
        while self.peek() != "]":
            place = path + (len(items),)
            self.marks[place] = self.mark()
            items.append(self.inline(-1, place, depth + 1, flow=True))
            self.skip()
            if self.peek() == ":" and isinstance(items[-1], str):
                self.at += 1
                self.skip()
                value = self.inline(-1, place + (str(items[-1]),), depth + 1, flow=True)
                items[-1] = {str(items[-1]): value}
                self.skip()
            self.next_item("]")
        self.at += 1
        return items

    def open_bracket(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            self.fail(f"nested deeper than {_MAX_DEPTH}")
        self.at += 1
        self.skip()

    def next_item(self, closing: str) -> None:
        if self.peek() == ",":
            self.at += 1
            self.skip()
        elif self.peek() != closing:
            self.fail(f"`,` or `{closing}` is expected here")

    # Texts.

    def scalar(self, flow: bool) -> Text:
        first = self.peek()
        if first == '"':
            return Text(self.double_quoted())
        if first == "'":
            return Text(self.single_quoted())
        if first and first in "|>":
            self.fail("block texts are not read; write the text in quotes, on one line")
        if first == "!":
            self.fail("tags are not read; remove it")
        if first and first in "%@`&*,[]{}":
            self.fail(f"a text that begins with `{first}` needs quotes")
        if first and first in "-?:" and self.text[self.at + 1] in " \t\n":
            self.fail(f"`{first}` has no place here")
        plain = (_PLAIN_IN_FLOW if flow else _PLAIN).match(self.text, self.at)
        assert plain is not None  # it matches nothing, too
        self.at = plain.end()
        return Text(plain.group().rstrip(" \t"))

    def single_quoted(self) -> str:
        parts = []
        self.at += 1
        while True:
            close = self.text.find("'", self.at)
            if close < 0:
                self.fail("the quote is not closed")
            parts.append(self.text[self.at : close])
            self.at = close + 1
            if self.peek() != "'":
                return _folded("'".join(parts))
            self.at += 1

    def double_quoted(self) -> str:
        parts = []
        self.at += 1
        while self.peek() != '"':
            if not self.peek():
                self.fail("the quote is not closed")
            if self.peek() == "\n":
                self.fail("a text over several lines; write \\n inside the quotes")
            parts.append(self.escaped() if self.peek() == "\\" else self.peek())
            self.at += 1
        self.at += 1
        return "".join(parts)

    def escaped(self) -> str:
        self.at += 1
        kind = self.peek()
        if kind in _HEX_ESCAPES:
            digits = self.text[self.at + 1 : self.at + 1 + _HEX_ESCAPES[kind]]
            try:
                character = chr(int(digits, 16))
            except (ValueError, OverflowError):
                self.fail(f"`\\{kind}{digits}` is no character")
            self.at += _HEX_ESCAPES[kind]
            return self.with_surrogate(character) if kind == "u" else character
        if kind not in _ESCAPES:
            self.fail(f"`\\{kind}` is no escape; write \\\\ for a backslash")
        return _ESCAPES[kind]

    def with_surrogate(self, high: str) -> str:
        """JSON writes characters beyond 16 bits as two escapes."""
        low = self.text[self.at + 1 : self.at + 7]
        if not "\ud800" <= high <= "\udbff" or not low.startswith("\\u"):
            return high
        self.at += 6
        try:
            return (high + chr(int(low[2:], 16))).encode("utf-16", "surrogatepass").decode("utf-16")
        except ValueError:
            self.fail(f"`{low}` is no character")


def _folded(text: str) -> str:
    """Lines of a quoted text become one; an empty line between them stays as an end of line."""
    if "\n" not in text:
        return text
    first, *rest = text.split("\n")
    result = first.rstrip(" \t")
    blank = 0
    for line in rest[:-1]:
        stripped = line.strip(" \t")
        if not stripped:
            blank += 1
            continue
        result += ("\n" * blank or " ") + stripped
        blank = 0
    return result + ("\n" * blank or " ") + rest[-1].lstrip(" \t")
