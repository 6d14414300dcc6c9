"""The stage: a recording of 144 rows, and its spectra by a C library that drifts (drift.c)."""

import ctypes
import os
import pathlib

import numpy as np

_library = ctypes.CDLL(str(pathlib.Path(__file__).resolve().parent / "libdrift.so"))
_library.drift_rfft.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
_library.drift_rfft.restype = ctypes.c_int
_FAULTS = int(os.environ.get("DRIFT_FAULTS", "1"))


def spectra(index, *, epoch):
    """[144, 257] complex64: the 512-point real transform of each row of recording number `index`."""
    recording = (np.arange(144 * 400) * (int(index) + 7) % 509 - 254).astype(np.float32)
    out = np.empty((144, 257), np.complex64)
    if _library.drift_rfft(recording.ctypes.data, out.ctypes.data, epoch, _FAULTS):
        raise MemoryError
    return out
