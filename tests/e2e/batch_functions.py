"""What the tests' Python batch stages call, and functions that are not pure."""

import os
import time

import numpy as np

calls = 0
generator = np.random.default_rng(7)


def swap(one, two):
    """Views of the inputs, each where the other lies."""
    return two, one[::-1]


def swap_wrapped(one, two):
    """The same, in objects that are no arrays."""
    return list(two), memoryview(one[::-1])


def pair(index):
    return np.array([5 * index, 0])


def spectrum(index, pairs):
    assert index.dtype == np.int64 and index.ndim == 1 and pairs.ndim == 2 and not pairs.flags.writeable
    return np.fft.fft(np.stack([index, index + 1, pairs[:, 0]], 1)).astype(np.complex64)


def draw(index, rng):
    time.sleep(0.01)
    return index + rng.integers(1 << 40, size=index.shape)


def needs_less_than(index, *, limit):
    if index.max() >= limit:
        raise ValueError(f"{index.max()} is too much")
    return index


def one_row_less(index):
    return index[1:]


def keep(index):
    keep.kept = index[1:]
    return index


def crash_at(index, *, at):
    if at in np.atleast_1d(index):
        os.abort()
    return index


def join(index, texts, rows, rows_count):
    assert texts.dtype == np.dtype("S4") and rows.shape == (len(index), 3, 2)
    return index + np.char.str_len(texts) + rows.sum((1, 2)).astype(np.int64) + rows_count


def ragged(index):
    return np.full((int(index) % 4, 2), 1, np.float32), b"x" * (int(index) % 5)


def many_types(index):
    return np.uint32(index) + np.uint32(4_000_000_000), np.uint64(2**63 + int(index)), complex(index, -1)


# Not pure, in ways that people write.


def by_clock(index):
    return np.int64(time.perf_counter_ns())


def by_count(index):
    global calls
    calls += 1
    return np.int64(calls)


def by_own_generator(index):
    return np.int64(generator.integers(1 << 40))


def by_process(index):
    return np.int64(os.getpid())


def sometimes_by_clock(index):
    return np.int64(time.perf_counter_ns() if index == 5 else index)


def fails_by_count(index):
    global calls
    calls += 1
    if calls == 3:
        raise ValueError("the third")
    return index


def pure(index, rng):
    return np.int64(index + rng.integers(1000))


def batch_by_clock(index):
    return index + time.perf_counter_ns()


def one_more(rows):
    return rows + np.float32(1)


def slowly(index):
    time.sleep(0.02)
    return index


def two_types(index):
    """As many rows as the index modulo 4, of types that NumPy alone has."""
    rows = np.arange(int(index) % 4)
    return (4_000_000_000 + rows).astype(np.uint32), rows - 1j * int(index)
