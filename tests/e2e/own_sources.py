"""Datasets for test_python_source.py; a module, so that workers can import it."""

import os
import sys

import numpy as np


class Photos:
    """Encoded images, labels, names, and a varying number of boxes."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {
            "image": self.images[index],
            "label": index,
            "name": f"photo {index}",
            "boxes": np.full((index % 3, 4), index, np.float32),
        }


class Pairs:
    def __init__(self, length, bad=-1):
        self.length, self.bad = length, bad

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError("it is bad")
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
