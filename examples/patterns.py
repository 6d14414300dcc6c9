"""Images of ten classes that a small network can learn, for the examples.

A class is a symmetric pattern of 4 × 4 blocks, seen with noise and in other light each time.
"""

from __future__ import annotations

import pathlib
import struct
import zlib

import numpy as np

CLASSES = 10


def _png(image: np.ndarray) -> bytes:
    """uint8 [height, width, 3] as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter, 0
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(rows.tobytes(), 1)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def draw(folder: pathlib.Path, count: int, size: int) -> pathlib.Path:
    """Fills `folder` with `count` images of size × size pixels, a sub-folder a class, unless they
    are there.
    """
    if (folder / "whole").exists():
        return folder
    random = np.random.default_rng(1)
    half = (
        random.integers(0, 2, (CLASSES, 4, 2, 1)) * random.uniform(80, 160, (CLASSES, 1, 1, 3)) + 40
    )
    blocks = np.concatenate([half, half[:, :, ::-1]], axis=2)
    for number in range(count):
        label = number % CLASSES
        image = blocks[label].repeat(size // 4, axis=0).repeat(size // 4, axis=1)
        image = (
            image * random.uniform(0.7, 1.2)
            + random.uniform(-20, 20)
            + random.normal(0, 12, image.shape)
        )
        path = folder / f"class-{label}" / f"{number:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_png(image.clip(0, 255).astype(np.uint8)))
    (folder / "whole").touch()
    return folder
