"""Properties and methods that every adapter passes on to its loader."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple, TypeVar

from .._batch.schema import Schema
from .._boundary import public
from .._display.loaders import described, described_html
from .._loader import Loader
from .._loader_arguments import refuse_unknown
from .._stats import LoaderStats
from .._stream.events import Hang, Substitution

_Self = TypeVar("_Self", bound="LoaderFacts")


@public
class LoaderFacts:
    """Facts about `loader`, by the names that they have there, and its end.

    The class that mixes this in sets `loader`, and gives `state_dict` and `load_state_dict` of its own: they
    count what the training got, where the loader's would count what was fetched.
    """

    loader: Loader

    @classmethod
    def _check_options(cls, options: Mapping[str, Any]) -> None:
        """TypeError for a further argument that Loader lacks."""
        refuse_unknown(cls, options, Loader)

    def __bool__(self) -> bool:
        return True  # whatever `len` is

    def __repr__(self) -> str:
        loader = vars(self).get("loader")
        return described(type(self).__name__, loader) if loader is not None else object.__repr__(self)

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, self.loader)

    @property
    def schema(self) -> Schema:
        """The pipeline's outputs."""
        return self.loader.schema

    @property
    def class_names(self) -> Dict[str, Tuple[str, ...]]:
        """By output, the names of its classes in the order of their numbers."""
        return self.loader.class_names

    @property
    def classes(self) -> Tuple[str, ...]:
        """The names of the label's classes; () if it has none.

        InvalidArgument if several labels have class names: use `class_names`.
        """
        return self.loader.classes

    @property
    def batch_size(self) -> int:
        """Samples of a full batch."""
        return self.loader.batch_size

    @property
    def batches_per_epoch(self) -> int:
        """Of a whole epoch, on this rank."""
        return self.loader.batches_per_epoch

    @property
    def samples_per_epoch(self) -> int:
        """The samples of an epoch, of all ranks together."""
        return self.loader.samples_per_epoch

    @property
    def target(self) -> str:
        """Where the service listens; an embedded service started again has another address."""
        return self.loader.target

    @property
    def stats(self) -> LoaderStats:
        """Counts of what the loader has done, including prefetched batches. Can also be read after `close`."""
        return self.loader.stats

    @property
    def substitutions(self) -> List[Substitution]:
        """The newest samples that were substituted; the log sums them, and has each at level DEBUG."""
        return self.loader.substitutions

    @property
    def quarantined(self) -> Dict[str, str]:
        """Records that ended several workers, and how they did; left out from then on."""
        return self.loader.quarantined

    @property
    def hangs(self) -> List[Hang]:
        """The newest samples at which a worker hung until the service ended it."""
        return self.loader.hangs

    def close(self) -> None:
        """Ends the loader. Idempotent."""
        self.loader.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
