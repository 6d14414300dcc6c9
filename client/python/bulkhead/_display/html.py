"""Small tables as HTML, for notebooks. All text in them is escaped."""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from .._words import printable

_MOST_ROWS = 200


def card(title: str, facts: Mapping[str, object], *parts: str) -> str:
    """A title, facts by name, and parts of HTML below them."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{_text(name)}</th><td style='text-align:left'>{_text(value)}</td></tr>"
        for name, value in facts.items()
    )
    shown = f"<table>{rows}</table>" if rows else ""
    return f"<div><b>{_text(title)}</b>{shown}{''.join(parts)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The first `_MOST_ROWS` rows below a head."""
    every = list(rows)
    names = "".join(f"<th>{_text(name)}</th>" for name in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in every[:_MOST_ROWS]
    )
    more = f"<div>and {len(every) - _MOST_ROWS} more</div>" if len(every) > _MOST_ROWS else ""
    return f"<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _text(value: object) -> str:
    import html  # only now: its table of names takes 0.4 MiB of each trainer

    return html.escape(printable(str(value), 400))
