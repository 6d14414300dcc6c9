"""Tars of members that are given as bytes."""

import io
import tarfile

import numpy as np


def write_tar(path, members, mode="w", format=tarfile.GNU_FORMAT):
    """Writes (name, bytes) pairs in their order."""
    with tarfile.open(path, mode, format=format) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()
