"""Grain, with OpenCV for the images.

Grain's map-style dataset gives the global shuffle. Samples are made and batched in as many worker processes as cores
(mp_prefetch); OpenCV has one thread in each.
"""

import random

import common
import cv2
import grain
import numpy as np

TABLE = common.gamma_table()
MEAN, STD = (np.array(values, np.float32)[:, None, None] for values in (common.MEAN, common.STD))


class Crop(grain.transforms.RandomMap):
    """A flipped random crop of the file at a path."""

    def random_map(self, path, rng):
        cv2.setNumThreads(0)
        draw = random.Random(int(rng.integers(1 << 62)))
        image = cv2.imread(path, cv2.IMREAD_COLOR_RGB)
        x, y, width, height = common.random_box(image.shape[1], image.shape[0], draw)
        image = cv2.resize(image[y:y + height, x:x + width], (common.SIZE, common.SIZE), interpolation=cv2.INTER_LINEAR)
        return cv2.flip(image, 1) if draw.random() < 0.5 else image


def normalize(image):
    # Transposed at first, which is many times as fast as at last.
    channels = image.transpose(2, 0, 1).astype(np.float32, order="C")
    channels -= MEAN
    channels /= STD
    return channels


def look_up(image):
    return TABLE[image]


def batches(options):
    dataset = grain.MapDataset.source(common.paths(options.list)).seed(1).shuffle().random_map(Crop())
    if options.workload == "B":
        dataset = dataset.map(normalize)
    elif options.workload == "python":
        dataset = dataset.map(look_up)
    dataset = dataset.repeat().to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=common.BATCH))
    dataset = dataset.batch(common.BATCH, drop_remainder=True)
    yield from dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=options.cores, per_worker_buffer_size=2))


if __name__ == "__main__":
    common.run(batches)
