"""The Python stage of a face detector's pipeline. The service finds it by --python-path examples/face."""

import math

import cv2
import numpy as np

from face_labels import SIDE, STRIDES, label_maps, size_range

cv2.setNumThreads(1)  # the service scales by workers

NEGATIVE_SCALES = (0.5, 3.5)
LARGEST_SCALE = 3.5  # of a picture with faces: what is blown up more has nothing left to see
KEPT_SHARE = 0.5  # of a box's area: with less in the picture it is no face any more


def process_img(img, boxes, rng, *, training=True, is_augment=True):
    """A decoded picture becomes a 640 × 640 × 3 uint8 image, the boxes on it, and five label maps (face_labels.py).

    `boxes` are x1, y1, x2, y2 in pixels, one row a face; a picture without any is a negative.

    - `is_augment`: a positive is scaled, cut or filled up, mirrored and recoloured at random, its boxes with it.
    - `training`: a negative is scaled by a random factor from 0.5 to 3.5, and cut or filled up with black at a random place; nothing
      else is done to it.
    - What its switch leaves alone is scaled to fit whole, at the upper left.
    """
    positive = len(boxes) > 0
    if not (is_augment if positive else training):
        img, boxes = fit(img, boxes)
    elif positive:
        img, boxes = augment(img, boxes, rng)
    else:
        img, boxes = place(img, boxes, rng.uniform(*NEGATIVE_SCALES), rng)
    return (img, boxes, *label_maps(boxes))


def fit(img, boxes):
    """The whole picture, its longer side 640 pixels."""
    height, width = img.shape[:2]
    scale = SIDE / max(height, width)
    return paste(img, boxes, (0, 0, width, height), (round(width * scale), round(height * scale)), (0, 0))


def augment(img, boxes, rng):
    """A random face gets a random size of a random map, so that all maps learn, at a random place in the picture."""
    face = boxes[rng.integers(len(boxes))]
    size = rng.uniform(*size_range(rng.integers(len(STRIDES))))
    scale = min(size / max(1.0, float(face[2] - face[0]), float(face[3] - face[1])), LARGEST_SCALE)
    img, boxes = place(img, boxes, scale, rng, keep=face)
    if rng.random() < 0.5:
        img = img[:, ::-1]
        boxes = np.stack([SIDE - boxes[:, 2], boxes[:, 1], SIDE - boxes[:, 0], boxes[:, 3]], axis=1)
    return recolour(img, rng), boxes


def place(img, boxes, scale, rng, keep=None):
    """The scaled picture on 640 × 640 pixels: a random part of what is too large, at a random place where it is too small.

    The box `keep`, which must fit once it is scaled, stays whole.
    """
    source, target, corner = [], [], []
    for axis, extent in enumerate((img.shape[1], img.shape[0])):
        length = min(extent, max(1, round(SIDE / scale)))  # that is seen, in the picture's pixels
        first, last = 0, extent - length  # where it may begin
        if keep is not None:
            low, high = math.floor(keep[axis]), math.ceil(keep[axis + 2])
            first, last = max(first, min(last, high - length)), min(last, max(first, low))
        begin = int(rng.integers(first, last + 1))
        source.append((begin, begin + length))
        target.append(SIDE if length < extent else min(SIDE, max(1, round(extent * scale))))
        corner.append(int(rng.integers(SIDE - target[axis] + 1)))
    (left, right), (top, bottom) = source
    return paste(img, boxes, (left, top, right, bottom), target, corner)


def paste(img, boxes, source, target, corner):
    """The rectangle `source` of a picture, resized to `target` and laid onto black at `corner`; the boxes move along."""
    left, top, right, bottom = source
    width, height = target
    x, y = corner
    canvas = np.zeros((SIDE, SIDE, 3), np.uint8)
    canvas[y : y + height, x : x + width] = cv2.resize(img[top:bottom, left:right], (width, height))
    factor = np.array([width / (right - left), height / (bottom - top)] * 2)
    moved = (boxes - np.array([left, top] * 2)) * factor + np.array([x, y] * 2)
    return canvas, visible(moved, np.array([x, y, x + width, y + height])).astype(np.float32)


def visible(boxes, frame):
    """Boxes cut at the frame; without those of which less than half is left."""
    cut = np.concatenate([np.maximum(boxes[:, :2], frame[:2]), np.minimum(boxes[:, 2:], frame[2:])], axis=1)
    sides = np.maximum(cut[:, 2:] - cut[:, :2], 0)
    whole = boxes[:, 2:] - boxes[:, :2]
    return cut[sides.prod(axis=1) >= KEPT_SHARE * whole.prod(axis=1)]


def recolour(img, rng):
    """Another brightness and contrast, and each channel a little stronger or weaker."""
    factors = rng.uniform(0.7, 1.3) * rng.uniform(0.9, 1.1, size=3)
    values = np.arange(256)[:, None] * factors + rng.uniform(-32, 32)
    table = np.clip(values, 0, 255).astype(np.uint8)
    return cv2.LUT(np.ascontiguousarray(img), table[None])
