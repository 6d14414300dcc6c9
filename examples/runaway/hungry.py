"""Python stages as they happen: the first takes far more memory than it gives. The service finds them by --python-path examples/runaway."""

import time

import numpy as np


def mean_of_much(index, *, mebibytes=40, milliseconds=10):
    """The mean of `mebibytes` of numbers that all are `index`."""
    mean, _ = mean_and_numbers(index, mebibytes=mebibytes, milliseconds=milliseconds)
    return mean


def mean_and_numbers(index, *, mebibytes, milliseconds):
    """The same, and the numbers."""
    numbers = np.full((mebibytes << 20) // 8, index, np.float64)
    time.sleep(milliseconds / 1000)
    return numbers.mean(), numbers
