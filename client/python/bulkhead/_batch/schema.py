"""What the outputs of a pipeline are."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import numpy as np

from .._display import amounts, html
from .._words import printable
from .normalization import Normalization


class TensorSpec(NamedTuple):
    """One output of a pipeline."""

    name: str
    dtype: np.dtype  # 'S<n>' for byte strings; uint16 for bfloat16 unless ml_dtypes is installed
    shape: Tuple[int, ...]  # of one sample
    dtype_name: str  # as the service calls it: "bfloat16"
    # How a batch has its samples. "samples": [samples, *shape]. "rows": those of all samples one
    # behind the other, [rows, *shape[1:]]; where each sample's begin and end says the output
    # `<name>_offsets`, which is "offsets": [samples + 1]. "extents": [samples, *shape] with a
    # height and width of the batch's own, which `shape` bounds.
    packing: str = "samples"
    batch_shape: Tuple[Optional[int], ...] = ()  # of a batch's array; None for what varies
    class_names: Tuple[str, ...] = ()  # of a label, in the order of their numbers; (): not known
    normalization: Optional[Normalization] = None  # what the client does to what travels (`at: trainer`)

    def __repr__(self) -> str:
        packed = "" if self.packing == "samples" else f" in {self.packing}"
        names = f" ({amounts.classes(self.class_names)})" if self.class_names else ""
        return printable(f"{self.name}: {self.dtype_name}{amounts.shape(self.shape)}{packed}{names}")


class Schema(Tuple[TensorSpec, ...]):
    """The outputs in the order that they have in batches: a tuple of TensorSpec that shows itself as a table."""

    def __repr__(self) -> str:
        return f"Schema({', '.join(map(repr, self))})"

    def _repr_html_(self) -> str:
        return html.card("Schema", {}, self._table())

    def _table(self) -> str:
        return html.table(
            ("output", "dtype", "shape of a sample", "in batches as", "classes"),
            (
                (
                    output.name,
                    output.dtype_name,
                    amounts.shape(output.shape),
                    f"{output.packing} {amounts.shape(output.batch_shape)}",
                    amounts.classes(output.class_names),
                )
                for output in self
            ),
        )
