"""Datasets for test_python_source.py; a module, so that workers can import it."""

import contextlib
import mmap
import os
import sys

import numpy as np


class Photos:
    """Encoded images, labels, names, and a varying number of boxes."""

    def __init__(self, images, log=""):
        """`log`: a file that gets the number of each sample that is read."""
        self.images, self.log = images, log

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{index}\n")
        return {
            "image": self.images[index],
            "label": index,
            "name": f"photo {index}",
            "boxes": np.full((index % 3, 4), index, np.float32),
        }


class Pairs:
    def __init__(self, length, bad=-1, says=None):
        """`says`: what __len__ says in place of the length."""
        self.length, self.bad, self.says = length, bad, says

    def __len__(self):
        return self.length if self.says is None else self.says

    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError("it is bad")
        if index >= self.length:
            raise IndexError(index)
        return np.float32(index), index


class Scribbles:
    """Tries to change the memory that datasets and lists are read from; a sample says how often it could."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        fds = [os.environ["BULKHEAD_DATASET_FD"], os.environ["BULKHEAD_DATASET_LISTS_FD"]]
        return np.float32(index), sum(self.changes(int(fd)) for fd in fds if fd != "-1")

    def changes(self, fd):
        changed = 0
        with contextlib.suppress(OSError):
            os.chmod(f"/proc/self/fd/{fd}", 0o600)
        with contextlib.suppress(OSError):
            writer = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
            with contextlib.suppress(OSError):
                changed += os.pwrite(writer, os.pread(writer, 1, 0), 0)
            with contextlib.suppress(OSError):
                mmap.mmap(writer, 1)
                changed += 1
        return changed


class Returns:
    def __init__(self, value):
        self.value = value

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.value


class Yields(Returns):
    def __getitem__(self, index):
        yield index


class Table:
    """Rows of an array, which lies beside the pickle."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        return np.float32(index), self.table[index]


class Reads(Pairs):
    """Opens a file for each sample."""

    def __init__(self, length, path):
        super().__init__(length)
        self.path = path

    def __getitem__(self, index):
        with open(self.path):
            return np.float32(index), index


class Nested(Pairs):
    def __getitem__(self, index):
        return {"a": {"b": index}}


class Dies(Pairs):
    def __getitem__(self, index):
        if index == self.bad:
            os._exit(3)
        return np.float32(index), index


class Exits(Pairs):
    def __getitem__(self, index):
        if index == self.bad:
            sys.exit("enough")
        return np.float32(index), index


class Chains(Pairs):
    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError("no such box") from KeyError(9)
        return np.float32(index), index


class Stops(Pairs):
    def __getitem__(self, index):
        if index == self.bad:
            breakpoint()
        return np.float32(index), index
