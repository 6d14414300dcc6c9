"""Label maps of an anchor-free face detector with five scales (as LFFD has them): which location answers for which face.

The image has 640 × 640 pixels. Map k (0 to 4) has v × v locations, v = 640 / stride - 1, and looks after the faces whose size, the
longer side of the box in pixels, lies in its range:

    k  v    stride  sizes of its faces  nearly its size
    0  159       4  [ 10,  20)          [  9,  10) and [ 20,  22)
    1   79       8  [ 20,  40)          [ 18,  20) and [ 40,  44)
    2   39      16  [ 40,  80)          [ 36,  40) and [ 80,  88)
    3   19      32  [ 80, 160)          [ 72,  80) and [160, 176)
    4    9      64  [160, 320)          [144, 160) and [320, 352)

The location in row i and column j answers for one point of the image: x = stride × (j + 1) - 1, y = stride × (i + 1) - 1, the middle
of what its neurons see, 5 strides wide. A face claims the locations whose point lies in its box (x1 <= x < x2, y1 <= y < y2),
in the map of its size and in those of which it is nearly the size. Then a location is

- negative, where nobody claims it;
- positive, where one face claims it, and the face is of the map's size;
- masked in all other cases: a face that is only nearly of the map's size, or several faces. There the network may say what it likes.

Faces of other sizes claim nothing: to a map of small faces a large one is background.

A map is float32 (v, v, 6). Channel 0 is 1 where the location is positive, channel 1 where it is negative; both are 0 where it is
masked, so that they serve as weights of the two terms of a loss. Channels 2 to 5 are the box of a positive location,
(x1 - x, y1 - y, x2 - x, y2 - y) divided by 5 strides, and 0 elsewhere.
"""

import numpy as np

SIDE = 640
STRIDES = (4, 8, 16, 32, 64)
EXTENTS = tuple(SIDE // stride - 1 for stride in STRIDES)  # 159, 79, 39, 19, 9
NEAR = 0.1  # share of its range's ends by which a face may miss it and still be nearly of the map's size


def size_range(k):
    """[low, high): the sizes of map k's faces."""
    return 2.5 * STRIDES[k], 5.0 * STRIDES[k]


def label_map(k, boxes):
    """Map k of an image with these boxes: an array [n, 4] of x1, y1, x2, y2 in pixels."""
    stride, extent = STRIDES[k], EXTENTS[k]
    low, high = size_range(k)
    points = np.arange(1, extent + 1, dtype=np.float32) * stride - 1
    claims = np.zeros((extent, extent), np.int32)
    owned = np.zeros((extent, extent), bool)  # by a face of the map's size
    labels = np.zeros((extent, extent, 6), np.float32)
    for x1, y1, x2, y2 in np.asarray(boxes, np.float32).reshape(-1, 4):
        size = max(x2 - x1, y2 - y1)
        if not low - NEAR * low <= size < high + NEAR * high:
            continue
        columns = slice(*np.searchsorted(points, (x1, x2)))  # x1 <= x < x2
        rows = slice(*np.searchsorted(points, (y1, y2)))
        claims[rows, columns] += 1
        if not low <= size < high:
            continue
        owned[rows, columns] = True
        x, y = points[columns], points[rows, None]
        for channel, offset in enumerate((x1 - x, y1 - y, x2 - x, y2 - y), start=2):
            labels[rows, columns, channel] = offset / np.float32(5 * stride)
    positive = owned & (claims == 1)
    labels[~positive] = 0
    labels[..., 0] = positive
    labels[..., 1] = claims == 0
    return labels


def label_maps(boxes):
    """The five maps, those of small faces first."""
    return tuple(label_map(k, boxes) for k in range(len(STRIDES)))
