"""What the scripts that record golden data have in common."""

import os

import numpy as np


def picture(height, width, channels, rng):
    """Gradients, an edge and noise."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = []
    for c in range(channels):
        plane = 128 + 80 * np.sin(x / (5 + 2 * c)) * np.cos(y / (7 - c)) + 60 * (x > width / 2)
        planes.append(plane + rng.normal(0, 20, plane.shape))
    return np.clip(np.stack(planes, axis=-1), 0, 255).astype(np.uint8)


def outcomes(make):
    """All results that make() has, a row each, in the order of their bytes: it runs until the last new one is long ago."""
    found, since = {}, 0
    while since < 60 + 20 * len(found):
        result = make()
        since = since + 1 if result.tobytes() in found else 0
        found[result.tobytes()] = result
    return np.stack([found[key] for key in sorted(found)])


def write(folder, name, versions, arrays):
    """A file of arrays, each a line "name dtype shape" and its bytes, row-major; the first line says what made them."""
    with open(os.path.join(folder, name), "wb") as out:
        out.write(f"{versions}\n".encode())
        for array_name, array in arrays:
            out.write(f"{array_name} {array.dtype} {'x'.join(map(str, array.shape))}\n".encode())
            out.write(np.ascontiguousarray(array).tobytes())
