"""Functions for Python stages. The service finds them by --python-path examples/python_stage."""

import numpy as np


def add_noise(image, label, rng, *, strength=1.0, classes=10):
    """Gaussian noise on a uint8 image, and the label as one of `classes`.

    `rng` is this sample's generator: its draws are the same in whichever worker the sample is made.
    """
    noise = rng.normal(0, strength, image.shape)
    noisy = np.clip(image + noise, 0, 255).astype(np.uint8)
    return noisy, np.int64(label % classes)


def bright_boxes(image, *, cell=32, threshold=128.0):
    """[x, y, width, height] of every cell of a grid that is brighter than the threshold: as many as there are."""
    grey = image.mean(axis=2)
    rows, columns = grey.shape[0] // cell, grey.shape[1] // cell
    cells = grey[: rows * cell, : columns * cell].reshape(rows, cell, columns, cell).mean(axis=(1, 3))
    y, x = np.nonzero(cells > threshold)
    boxes = np.stack([x * cell, y * cell, np.full_like(x, cell), np.full_like(y, cell)], axis=1)
    return boxes.astype(np.float32)
