"""A stand-in for the large frameworks: what they do when they are imported that a worker's walls could be in the way of."""

import mmap
import os
import tempfile
import time

import numpy as np

# As PyTorch: a temporary folder, and a cache in the home folder.
with tempfile.NamedTemporaryFile("w+") as file:
    file.write("x")
HOME = os.path.expanduser("~/.framework")
os.makedirs(HOME)
with open(os.path.join(HOME, "settings.json"), "w") as file:
    file.write("{}")

# Address space by far larger than the quota, of which nothing is touched.
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
RESERVED = [mmap.mmap(-1, 400 << 20, flags=PRIVATE, prot=protection)
            for protection in (0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ | mmap.PROT_WRITE)]


def double(index):
    return index * 2


def threads(index):
    wanted = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    return np.array([int(os.environ[name]) for name in wanted], np.int64)


def variables(index):
    """How many of the service's variables are seen: a secret one, one that was asked for, one that was given."""
    return np.array([os.environ.get(name, "").encode().hex() != "" for name in ("A_SECRET", "ASKED_FOR", "GIVEN")], bool)


def fill_own_folder(index):
    """More files than a worker may have."""
    for i in range(12_000):
        os.close(os.open(os.path.join(tempfile.gettempdir(), f"{os.getpid()}-{i}"), os.O_CREAT | os.O_WRONLY))
    time.sleep(600)


def one_large_file(index):
    with tempfile.TemporaryFile() as file:
        file.seek((64 << 20) - 1)
        file.write(b"xx")
        file.flush()
    return index


def imports_when_called(index):
    import no_such_framework

    return no_such_framework.f(index)
