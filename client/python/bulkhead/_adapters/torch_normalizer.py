"""`normalize: {at: trainer}` by PyTorch, for bulkhead.torch."""

from __future__ import annotations

from typing import Dict, List

import torch

from .._batch.normalization import Normalization


class Normalizer:
    """Computes where the tensor is, on the current stream of a GPU."""

    def __init__(self, rest: Normalization):
        self._rest = rest
        self._constants: Dict[torch.device, List[torch.Tensor]] = {}

    def __call__(self, sent: torch.Tensor) -> torch.Tensor:
        rest, device = self._rest, sent.device
        if device not in self._constants:
            self._constants[device] = [torch.from_numpy(c).to(device) for c in rest.constants()]
        x = sent.movedim(-1, -3) if rest.channels_first else sent
        floats = x.to(torch.float32, memory_format=torch.contiguous_format)
        return rest.compute(floats, *self._constants[device]).to(getattr(torch, rest.dtype_name))
