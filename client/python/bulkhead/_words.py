"""Text for people: nearest names, and text that cannot mislead a terminal or a log."""

from __future__ import annotations

import re
from typing import Iterable

# Ends the error of an embedded service, before the path.
LOG_IS = "; the log of the embedded service is "
_MOST_NAMES = 100
# Control characters, and those that reverse or hide text or end a line: bidirectional marks, overrides
# and isolates, line and paragraph separators, zero-width ones, surrogates that stand for no character.
_MISLEADING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str, most: int = 2048) -> str:
    """One line of at most `most` characters: what would mislead is escaped, as in `\\x1b` and `\\u202e`."""
    cut = text[: most + 1]
    line = _MISLEADING.sub(lambda match: _escaped(match[0]), cut)
    return line if len(line) <= most and len(cut) <= most else line[: most - 1] + "…"


def printable_lines(text: str, most: int = 8192) -> str:
    """The same for a text of several lines; those behind the first stand indented behind a bar.

    So none of them passes for a line of its own.
    """
    lines = text[:most].split("\n")
    continued = [line[4:] if line.startswith("  | ") else line for line in lines[1:]]
    return "\n  | ".join(printable(line) for line in (lines[0], *continued))


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The known name nearest to a wrong one; empty: none is as near as `likeness`, of 1 for the same."""
    import difflib  # only now: few trainers misspell a name

    folded = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower().replace("-", "_"), folded, 1, likeness)
    return folded[near[0]] if near else ""


def did_you_mean(name: str, known: Iterable[str], quote: str = "'") -> str:
    """ "; did you mean 'image'?", or "; there are: image, label"."""
    names = list(known)
    if f"{name}s" in names:
        return f"; did you mean {quote}{name}s{quote}?"
    family = [each for each in names if each.startswith(name + "_")]
    if len(family) > 1:
        return f"; there are: {', '.join(quote + each + quote for each in family)}"
    near = nearest(name, names)
    if near:
        return f"; did you mean {quote}{near}{quote}?"
    parts = [each for each in names if name in each.split("_")]
    if len(parts) == 1:
        return f"; did you mean {quote}{parts[0]}{quote}?"
    if parts:
        return f"; there are: {', '.join(quote + each + quote for each in parts)}"
    more = f", … ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    return f"; there are: {', '.join(names[:_MOST_NAMES])}{more}"
