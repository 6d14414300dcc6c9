"""Which Python stage of a spec is tried."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Union

from .._words import did_you_mean
from ..errors import InvalidArgument


class Place(NamedTuple):
    """The place of a stage in a spec's message; `str` is its name in messages."""

    index: int
    of_batch: bool = False
    source: int = -1  # of a mixture, whose own stage it is; -1: a common one

    def __str__(self) -> str:
        if self.of_batch:
            return f"batch_stages[{self.index}]"
        own = f"source.mixture.sources[{self.source}]." if self.source >= 0 else ""
        return f"{own}stages[{self.index}]"

    def list_in(self, message: Any) -> Any:
        """The list of stages that contains it."""
        if self.of_batch:
            return message.batch_stages
        return message.source.mixture.sources[self.source].stages if self.source >= 0 else message.stages

    def python_in(self, message: Any) -> Any:
        return self.list_in(message)[self.index].python


def _python_stages(message: Any) -> Dict[Place, str]:
    """The function of each, in the order in which samples come to them."""
    own = [
        Place(index, source=number)
        for number, source in enumerate(message.source.mixture.sources)
        for index in range(len(source.stages))
    ]
    places = [
        *own,
        *(Place(index) for index in range(len(message.stages))),
        *(Place(index, of_batch=True) for index in range(len(message.batch_stages))),
    ]
    return {
        place: place.python_in(message).function
        for place in places
        if place.list_in(message)[place.index].HasField("python")
    }


def find(function: Union[str, Callable[..., Any]], message: Any, stage: Union[int, str, None]) -> Place:
    """The wanted stage of the spec `message`. InvalidArgument: there is none, or several."""
    names = _python_stages(message)
    if not names:
        raise InvalidArgument(
            "the spec has no Python stage: neither its `stages`, nor its `batch_stages`, nor a mixture's sources"
        )
    if stage is not None:
        wanted = f"stages[{stage}]" if isinstance(stage, int) else stage
        for place in names:
            if str(place) == wanted:
                return place
        raise InvalidArgument(f"{wanted} is no Python stage; those are: {', '.join(map(str, names))}")
    found = _calling(function, names)
    if len(found) == 1:
        return found[0]
    name = function if isinstance(function, str) else getattr(function, "__qualname__", "the function")
    if found:
        raise InvalidArgument(
            f"{name} is called at {', '.join(map(str, found))}; say which one, as stage='{found[0]}'"
        )
    hint = did_you_mean(str(name), dict.fromkeys(names.values()))
    raise InvalidArgument(f"no stage of the spec calls {name!r}{hint}")


def _calling(function: Union[str, Callable[..., Any]], names: Dict[Place, str]) -> List[Place]:
    """The places of stages that call it; of a function that is edited in a notebook by its own name."""
    if isinstance(function, str):
        return [place for place in names if names[place] == function]
    own = getattr(function, "__qualname__", "")
    name = f"{getattr(function, '__module__', '')}:{own}"
    found = [place for place in names if names[place] == name]
    found = found or [place for place in names if names[place].partition(":")[2] == own]
    return found or (list(names) if len(names) == 1 else [])
