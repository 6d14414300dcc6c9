"""What every adapter says and does as the loader that it holds."""

from __future__ import annotations

from typing import Tuple, TypeVar

from .._batch.batch import TensorSpec
from .._loader import Loader

_Self = TypeVar("_Self", bound="LoaderFacts")


class LoaderFacts:
    """Facts about `loader`, and its end. The class that mixes this in sets `loader`."""

    loader: Loader

    def __bool__(self) -> bool:
        return True  # whatever `len` is

    @property
    def schema(self) -> Tuple[TensorSpec, ...]:
        """The pipeline's outputs."""
        return self.loader.schema

    @property
    def batch_size(self) -> int:
        """Samples of a full batch."""
        return self.loader.batch_size

    @property
    def batches_per_epoch(self) -> int:
        """Of a whole epoch, on this rank."""
        return self.loader.batches_per_epoch

    def close(self) -> None:
        """Ends the loader. Idempotent."""
        self.loader.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
