"""Other names for the outputs of a spec."""

from __future__ import annotations

import collections
from typing import Dict, List, Mapping, Optional

from ..errors import InvalidArgument


class Renaming:
    """The names of a loader's `rename`. Immutable."""

    def __init__(self, rename: Optional[Mapping[str, str]]):
        names = rename or {}
        if not isinstance(names, Mapping) or not all(isinstance(n, str) for n in names.values()):
            raise InvalidArgument(
                f'rename maps outputs to names, as {{"image": "x"}}, not {rename!r}'
            )
        self.names: Dict[str, str] = dict(names)

    def of(self, name: str) -> str:
        """The output's new name."""
        return self.names.get(name, name)

    def check(self, outputs: List[str]) -> None:
        """Checks it against the outputs; raises InvalidArgument."""
        unknown = [name for name in self.names if name not in outputs]
        if unknown:
            raise InvalidArgument(
                f"rename: there is no output '{unknown[0]}'; the outputs are {', '.join(outputs)}"
            )
        called = collections.Counter(self.of(name) for name in outputs)
        twice = next((name for name, count in called.items() if count > 1), None)
        if twice is not None:
            raise InvalidArgument(f"rename: two outputs would be called '{twice}'")
