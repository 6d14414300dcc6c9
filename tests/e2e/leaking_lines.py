"""Functions of stages that leak, for test_trace_python.py."""

import ctypes

import numpy as np

kept = []
_malloc = ctypes.CDLL(None).malloc
_malloc.restype = ctypes.c_void_p
_malloc.argtypes = (ctypes.c_size_t,)


class Keeper:
    def keep(self, index):
        kept.append(np.full(1024, index))  # the worse: 8 KiB


_keeper = Keeper()


def in_two_lines(index):
    _keeper.keep(index)
    kept.append(np.full(128, index))  # 1 KiB
    return index


def in_native_code(index):
    address = _malloc(8 << 10)
    ctypes.memset(address, 1, 8 << 10)  # nobody knows it any more
    kept.append(np.full(16, index))  # 128 bytes
    return index


def sound(index):
    return index + len([float(i) for i in range(20)]) - 20
