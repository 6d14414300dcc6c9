"""A Python stage as they happen: it takes far more memory than it gives. The service finds it by --python-path examples/runaway."""

import time

import numpy as np


def mean_of_much(index, *, mebibytes=40, milliseconds=10):
    """The mean of `mebibytes` of numbers that all are `index`."""
    numbers = np.full((mebibytes << 20) // 8, index, np.float64)
    time.sleep(milliseconds / 1000)
    return numbers.mean()
