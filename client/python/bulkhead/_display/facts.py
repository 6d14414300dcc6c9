"""Facts by name, as one line of text."""

from __future__ import annotations

from typing import Mapping

from .._words import printable


def line(title: str, facts: Mapping[str, object]) -> str:
    """ "<Loader spec: train.yaml, epoch: 0>"."""
    return printable(f"<{title} {', '.join(f'{name}: {value}' for name, value in facts.items())}>", 4096)
