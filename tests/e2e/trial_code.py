"""Functions for bulkhead.try_stage, in a module that tests write anew."""

import sys

import pytest
from conftest import write_spec

CODE = """\
import random

import numpy as np

HERE = 0
CALLS = 0
ROW = np.zeros(3, np.int64)


def noisy(image, label, rng, *, strength=1.0, word="x", flag=False):
    assert word == "abc" and flag is True and not image.flags.writeable
    noise = rng.normal(0, strength, image.shape) + random.random() + np.random.rand()
    return np.clip(image + noise, 0, 255).astype(np.uint8), np.int64(label * 2)


def small(image):
    return image[::4, ::4][:8, :8].astype(np.float32)


def counts(index):
    global CALLS
    CALLS += 1
    return np.int64(CALLS)


def same_array(index):
    ROW[:] = index
    return ROW


def differs(index):
    return np.full(3, index, np.float64) + HERE, int(index)


def fails(index):
    if index == 2:
        raise ValueError("cannot do 2")
    return index


def stops(index):
    STOP
    return index


def rng_is_an_input(rng):
    return rng + 1


def rng_by_name(index, *, rng):
    return index + rng.integers(1000)


def rng_behind(index, rng=None):
    return index + rng.integers(1000)


def rng_as_argument(index, rng):
    return index + rng


def plus(index, rng, *, more):
    return index + more + rng.integers(1000)


def of_batch(index, path, rng):
    assert index.shape[1:] == () and path.dtype.kind == "S" and not index.flags.writeable
    return index + rng.integers(1000, size=len(index)), np.stack([index, index + len(index)], 1).astype(np.float32)


def of_large_batch(image):
    return image.mean(axis=(1, 2, 3), dtype=np.float32)


def wrong_dtype(index):
    return np.full(3, index, np.float64)


def nothing(index):
    index + 1


def yields(index):
    yield index


async def waits(index):
    return index


def texts(path, encoded):
    return path[::-1] + b"\\0", len(encoded)
"""


@pytest.fixture
def stages(folder, monkeypatch):
    """A folder of modules on sys.path; stages(code) writes trial_stage.py."""
    code = folder / "code"
    code.mkdir()
    monkeypatch.syspath_prepend(str(code))

    def write(text=CODE):
        (code / "trial_stage.py").write_text(text)
        return code

    write()
    yield write
    sys.modules.pop("trial_stage", None)


def over_range(folder, function, outputs, **more):
    stage = {"python": {"function": f"trial_stage:{function}", "inputs": ["index"], "outputs": outputs}}
    return write_spec(folder / "range.json", source={"range": {"size": 6}}, stages=[stage], batch={"size": 4}, **more)


INDEX = [{"name": "index", "dtype": "int64"}]
