"""The arithmetic of `normalize: {at: trainer}`, which the service leaves to the client."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from .buffers import BufferPool

_KEPT_RESULTS = 4  # unused blocks


class Normalization:
    """What becomes of an output that travels as uint8, with the channels last. Immutable; thread-safe."""

    def __init__(self, message, sent_shape: Tuple[int, ...], dtype: np.dtype, dtype_name: str, batch_size: int):
        """`message`: bulkhead.v1.Normalization; `dtype`: of the result. Shapes are of one sample."""
        self.sent_shape = sent_shape
        self.channels_first: bool = message.channels_first
        self.shape = (*sent_shape[:-3], sent_shape[-1], *sent_shape[-3:-1]) if self.channels_first else sent_shape
        self.dtype_name = dtype_name
        self._dtype = dtype
        self._divides = len(message.divide) > 0
        first, second = (message.divide, message.subtract) if self._divides else (message.mean, message.std)
        self._constants = [np.array(numbers, np.float32) for numbers in (first, second)]
        if any(len(numbers) not in (1, sent_shape[-1]) for numbers in self._constants):
            raise ValueError("neither one number nor one for each channel")
        if self.channels_first and len(sent_shape) < 3:
            raise ValueError("no height and width")
        self._pool = BufferPool(batch_size * dtype.itemsize * int(np.prod(self.shape)), _KEPT_RESULTS)

    def constants(self) -> Tuple[np.ndarray, np.ndarray]:
        """Both of float32, for arrays of `shape`."""
        axes = (1, 1) if self.channels_first else ()
        first, second = (numbers.reshape(-1, *axes) for numbers in self._constants)
        return first, second

    def compute(self, x: Any, first: Any, second: Any) -> Any:
        """The result for float32, by the operators of any framework; in `x` itself where it can be changed."""
        if self._divides:
            x /= first
            x -= second
        else:
            x -= first
            x /= second
        return x

    def of(self, sent: np.ndarray) -> np.ndarray:
        """The result, in memory of its own: the bytes that the service's workers would have written."""
        result: np.ndarray = np.ndarray((len(sent), *self.shape), self._dtype, buffer=self._pool.take())
        constants = self.constants()
        if not self.channels_first:  # a row each: NumPy's loops over three numbers are slow
            constants = tuple(np.broadcast_to(c, self.shape[-2:]).copy() for c in constants)
        scratch = np.empty(self.shape, np.float32)
        with np.errstate(over="ignore"):  # then it is infinity, as in the workers
            for sample, out in zip(sent, result):  # one by one, in the cache
                x = out if out.dtype == np.float32 else scratch
                x[...] = np.moveaxis(sample, -1, -3) if self.channels_first else sample
                self.compute(x, *constants)
                if x is not out:
                    out[...] = _bfloat16_bits(x) if out.dtype == np.uint16 else x
        return result


def _bfloat16_bits(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
