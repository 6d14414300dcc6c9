"""The lists of a sampler, one for each epoch, and where its random numbers stood."""

from __future__ import annotations

import base64
import itertools
import operator
import zlib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

import torch

from .. import errors

# More than any training uses of a sampler that ends.
_MOST_TIMES, _LEAST_BOUND = 64, 1 << 22

Standing = Dict[str, Any]


class IndexList(NamedTuple):
    """What a sampler gave for one epoch."""

    indices: List[int]
    offsets: Optional[List[int]]  # where each batch begins, and the end; None: the batch size says


class SamplerLists:
    """Asks the sampler of a DataLoader of PyTorch's for its lists. Of batches, if `batched`.

    `standings`: what the last list depended on before it was drawn, and after, as far as that can be known: the states of
    generators, and the sampler's `epoch`. Ready for JSON.
    """

    def __init__(self, loader: Any, batched: bool, length: int):
        self._loader, self._batched, self._length = loader, batched, length
        self.standings: List[Standing] = []

    def draw(self) -> IndexList:
        """The next list. InvalidArgument if it is none: no integers, out of range, without end, empty."""
        before = self._standing()
        # PyTorch draws it before the sampler draws anything, and so the permutations are the same.
        torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator)
        found = self._listed()
        self.standings = [before, self._standing()]
        return found

    def draw_again(self, standings: List[Standing]) -> IndexList:
        """The list that was drawn when `standings` were noted. The program's own random numbers stay as they are."""
        own = torch.get_rng_state()
        try:
            self._stand(standings[0], everything=True)
            return self.draw()
        finally:
            torch.set_rng_state(own)

    def go_on_after(self, standings: List[Standing]) -> None:
        """Sets the generators to where they stood after a list. An epoch of the sampler's is the program's to set."""
        self._stand(standings[1], everything=False)

    def _listed(self) -> IndexList:
        sampler = self._loader.batch_sampler if self._batched else self._loader.sampler
        most = max(_LEAST_BOUND, _MOST_TIMES * self._length)
        indices: List[int] = []
        offsets = [0]
        for given in sampler:
            indices += map(_index, given) if self._batched else [_index(given)]
            offsets.append(len(indices))
            if len(offsets) > most or len(indices) > most:
                raise errors.InvalidArgument(
                    f"the sampler ({type(sampler).__name__}) gave more than {most} indices: its list for an epoch must end"
                )
        length = self._length
        wrong = next(itertools.filterfalse(lambda index: -length <= index < length, indices), None)
        if wrong is not None:
            raise errors.InvalidArgument(
                f"the sampler gave the index {wrong}, but the dataset has {length} samples"
            )
        if len(offsets) == 1:
            raise errors.InvalidArgument(f"the sampler ({type(sampler).__name__}) gave nothing")
        return IndexList(indices, offsets if self._batched else None)

    def _generators(self) -> Dict[str, torch.Generator]:
        own = self._loader.generator
        inner = getattr(self._loader.batch_sampler, "sampler", None)
        found = {
            "own": own,
            "sampler": getattr(self._loader.sampler, "generator", None),
            "inner": getattr(inner, "generator", None),
        }
        return {
            name: made
            for name, made in found.items()
            if isinstance(made, torch.Generator) and (name == "own" or made is not own)
        }

    def _standing(self) -> Standing:
        states = {name: made.get_state() for name, made in self._generators().items()}
        states["torch"] = torch.get_rng_state()
        drawn = {name: _packed(state) for name, state in states.items()}
        return {"drawn": drawn, "epoch": getattr(self._loader.sampler, "epoch", None)}

    def _stand(self, standing: Mapping[str, Any], everything: bool) -> None:
        states = {name: _unpacked(text) for name, text in standing["drawn"].items()}
        for name, made in self._generators().items():
            if name in states:
                made.set_state(states[name])
        if not everything:
            return
        torch.set_rng_state(states["torch"])
        if standing["epoch"] is not None and hasattr(self._loader.sampler, "set_epoch"):
            self._loader.sampler.set_epoch(standing["epoch"])


def _index(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise errors.InvalidArgument(
            f"the sampler gave {value!r}: an index is an integer, from 0 to len(dataset) - 1"
        ) from None


def _packed(state: torch.Tensor) -> str:
    return base64.b64encode(zlib.compress(state.numpy().tobytes())).decode()


def _unpacked(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text))), dtype=torch.uint8)
