"""Datasets for test_torch_dataloader.py and its errors. Only NumPy, so that workers start at once."""

import collections
import os
import random
import signal
import sys

import numpy as np

Pair = collections.namedtuple("Pair", "first second")


class Numbers:
    def __init__(self, length=24):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return np.int64(index)


class Everything(Numbers):
    """A value of each kind."""

    def __getitem__(self, index):
        return {
            "image": np.full((2, 3), index, np.float32),
            "label": index,
            "weight": index / 2,
            "odd": bool(index % 2),
            "name": f"é{index}",
            "both": (np.int16(index), Pair([np.uint8(index)], "x" * (index % 4))),
        }


class Several(Numbers):
    """Values that travel in different ways."""

    def __getitem__(self, index):
        return {"image": np.full((2, 3), index, np.float32), "name": f"n{index}", "mixed": index if index % 2 else index / 2}


class Uneven(Numbers):
    """Arrays of several lengths."""

    def __getitem__(self, index):
        return np.arange(index % 5 + 1)


class Draws(Numbers):
    """Random numbers of each generator, without a generator of its own."""

    def __getitem__(self, index):
        return index, random.random(), np.random.rand(), os.getpid()


class Kills(Numbers):
    """Ends the worker in every call of a new process but the first `spared`."""

    calls = 0

    def __init__(self, length, spared):
        super().__init__(length)
        self.spared = spared

    def __getitem__(self, index):
        Kills.calls += 1
        if Kills.calls > self.spared:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.int64(index)


class Leaks(Numbers):
    """Keeps 1 MiB in each call, and aborts in every 500th."""

    kept = []

    def __getitem__(self, index):
        Leaks.kept.append(bytearray(os.urandom(1 << 20)))
        if len(Leaks.kept) % 500 == 0:
            os.abort()
        return np.int64(index)


class Fails(Numbers):
    def __init__(self, length, bad):
        super().__init__(length)
        self.bad = bad

    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError(f"no sample {index}")
        return np.int64(index)


class SomeAreNone(Numbers):
    """One sample is None, and looked at when the layout is decided."""

    def __getitem__(self, index):
        return None if index == self.length - 1 else np.zeros(2, np.float32)


class Dies(Numbers):
    """One sample ends its worker."""

    def __getitem__(self, index):
        if index == 9:
            os._exit(3)
        return np.int64(index)


class Stops(Numbers):
    def __getitem__(self, index):
        if index == 5:
            breakpoint()
        return index


class Dials(Numbers):
    def __getitem__(self, index):
        import socket

        socket.create_connection(("127.0.0.1", 9))


class OtherShape(Numbers):
    def __getitem__(self, index):
        return np.zeros(4 if index == 5 else 3)


class Large(Numbers):
    """A table of `megabytes`, which each worker reads all of."""

    def __init__(self, length, megabytes):
        super().__init__(length)
        self.table = np.ones((length, (megabytes << 20) // length), np.uint8)

    def __getitem__(self, index):
        return int(self.table.sum(dtype=np.int64)), not self.table.flags.writeable


class Acquainted(Numbers):
    """What the worker is told about itself."""

    def __getitem__(self, index):
        import torch

        info = torch.utils.data.get_worker_info()
        return info.id, info.num_workers, len(info.dataset), os.environ["OWN_INIT"]


class LoadsTorchLate(Numbers):
    def __getitem__(self, index):
        import torch

        return torch.rand(1, dtype=torch.float64), random.random(), np.random.rand()


class LongerThanItSays(Numbers):
    def __getitem__(self, index):
        return list(range(20))[index]


class Hdf5:
    """Opens its file in the worker, when it is first read."""

    def __init__(self, path, length):
        self.path, self.length, self.file = path, length, None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.file is None:
            import h5py

            self.file = h5py.File(self.path)
        return self.file["x"][index]


def note_init(number):
    import torch  # noqa: F401  (which get_worker_info belongs to)

    os.environ["OWN_INIT"] = f"init {number}"


def padded(samples):
    width = max(map(len, samples))
    return {
        "x": np.stack([np.pad(sample, (0, width - len(sample))) for sample in samples]),
        "lengths": [len(sample) for sample in samples],
        "words": "of a batch",
        "modules": sorted(name for name in ("torch",) if name in sys.modules),
    }
