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


class WithBoxes(grain.transforms.RandomMap):
    """The file at a path and its boxes, flipped or not."""

    def __init__(self, boxes):
        self.boxes = boxes

    def random_map(self, path, rng):
        cv2.setNumThreads(0)
        size, boxes = common.DETECTION_SIZE, common.DETECTION_SIZE * self.boxes[path]
        image = cv2.resize(cv2.imread(path, cv2.IMREAD_COLOR_RGB), (size, size), interpolation=cv2.INTER_LINEAR)
        if rng.random() < 0.5:
            image, boxes = cv2.flip(image, 1), np.stack(
                [size - boxes[:, 2], boxes[:, 1], size - boxes[:, 0], boxes[:, 3]], axis=1)
        return {"image": image, "boxes": boxes}


def normalize(image):
    # Transposed at first, which is many times as fast as at last.
    channels = image.transpose(2, 0, 1).astype(np.float32, order="C")
    channels -= MEAN
    channels /= STD
    return channels


def look_up(image):
    return TABLE[image]


def batches(options):
    sample = WithBoxes(common.boxes_by_path(options)) if options.workload == "detection" else Crop()
    dataset = grain.MapDataset.source(common.paths(options.list)).seed(1).shuffle().random_map(sample)
    if options.workload == "B":
        dataset = dataset.map(normalize)
    elif options.workload == "python":
        dataset = dataset.map(look_up)
    dataset = dataset.repeat().to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=common.BATCH))
    dataset = dataset.batch(common.BATCH, drop_remainder=True)
    dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=options.cores, per_worker_buffer_size=2))
    if options.workload == "detection":
        dataset = ((batch["image"], batch["boxes"]) for batch in dataset)
    yield from dataset


if __name__ == "__main__":
    common.run(batches)
