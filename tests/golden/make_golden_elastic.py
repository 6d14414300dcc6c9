"""Writes data/elastic.golden: what the stage `elastic` makes of small pictures, worked out by NumPy alone.

    /usr/bin/python3 make_golden_elastic.py data      # NumPy of any version

golden_elastic_test.cc compares bit for bit. Everything that the stage's comment in server/stages/warp/run.cc promises is
done here once more, from the random numbers on: Philox, the nodes, the Gaussian, the shift, and the pixels' weights.
"""

import math
import sys

import numpy as np
from golden_arrays import picture, write

SEED, EPOCH = 3, 1
STAGE = "stages/1"  # behind decode_image
PICTURES = {"wide": (25, 33, 3), "gray": (40, 31, 1), "four": (17, 60, 4)}
OPTIONS = {  # alpha, sigma, method, fill
    "default": (50.0, 5.0, "linear", [0]),
    "strong": (300.0, 4.0, "linear", [200]),
    "fine": (9.0, 1.2, "nearest", [7]),
    "coarse": (900.0, 23.5, "nearest", [0]),
}
POSITIONS = 3
U32 = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Philox4x32-10 of columns of counters."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k = [int(word) for word in key]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(second >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), second & U32,
             (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), first & U32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def words_of(number):
    return number % 2**32, number >> 32


def mix_bits(a, b):
    block = philox([*words_of(a), 0, 0], words_of(b))
    return int(block[1]) << 32 | int(block[0])


def stable_hash(text):
    hashed = 0xCBF29CE484222325
    for byte in text.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return mix_bits(hashed, len(text))


def random_words(position, count):
    key = mix_bits(mix_bits(SEED, EPOCH), stable_hash(STAGE))
    blocks = np.arange(-(-count // 4), dtype=np.uint64)
    block = philox([blocks, np.zeros_like(blocks), position % 2**32, position >> 32], words_of(key))
    return np.stack([np.broadcast_to(word, blocks.shape) for word in block], axis=1).reshape(-1)[:count]


def weights_of(radius, sigma):
    density = [math.exp(-0.5 * (d / sigma) * (d / sigma)) for d in range(radius + 1)]
    total = 0.0
    for d in range(radius, -1, -1):
        total += density[d] if d == 0 else 2 * density[d]
    return [np.float32(value / total) for value in density]


def blurred(values, weights, axis):
    """Weighted sums in float32, from the outside to the middle."""
    radius = len(weights) - 1
    kept = values.shape[axis] - 2 * radius

    def part(offset):
        return np.take(values, range(offset, offset + kept), axis=axis)

    total = np.zeros_like(part(0))
    for d in range(radius, 0, -1):
        total = total + weights[d] * (part(radius - d) + part(radius + d))
    return total + weights[0] * part(radius)


def nodes_of(height, width, alpha, sigma, position):
    spacing = max(2, int(sigma / 2))
    radius = math.ceil(3 * sigma / spacing)
    rows, columns = (-(-extent // spacing) + 1 for extent in (height, width))
    shape = (rows + 2 * radius, columns + 2 * radius)
    count = shape[0] * shape[1]
    words = random_words(position, 2 + 2 * count)[2:]  # behind the draw against the probability
    noise = (words.astype(np.float64) * 2.0**-31 - 1.0).astype(np.float32)
    weights = weights_of(radius, sigma / spacing)
    strength = np.float32(alpha / spacing)
    planes = [noise[:count].reshape(shape), noise[count:].reshape(shape)]
    return spacing, [strength * blurred(blurred(plane, weights, 1), weights, 0) for plane in planes]


def sources(height, width, spacing, planes):
    """Where each pixel's middle comes from."""
    y, x = np.mgrid[0:height, 0:width] + 0.5

    def between(coordinates, nodes):
        at = np.clip(coordinates / spacing, 0.0, nodes - 1.0)
        node = np.minimum(at.astype(np.int64), nodes - 2)
        return node, at - node

    row, down = between(y, planes[0].shape[0])
    column, right = between(x, planes[0].shape[1])
    moved = []
    for plane in planes:
        plane = plane.astype(np.float64)
        above = plane[row, column] + right * (plane[row, column + 1] - plane[row, column])
        below = plane[row + 1, column] + right * (plane[row + 1, column + 1] - plane[row + 1, column])
        moved.append(above + down * (below - above))
    return x + moved[0], y + moved[1]


def sampled(image, x, y, method, fill):
    height, width, channels = image.shape
    colour = np.array([fill[c if len(fill) > 1 else 0] for c in range(channels)], dtype=np.int64)

    def pixel(column, row):
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        found = image[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)].astype(np.int64)
        return np.where(inside[..., None], found, colour)

    if method == "nearest":
        return pixel(np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)).astype(np.uint8)
    x, y = x + 0.5, y + 0.5
    left, top = np.floor(x).astype(np.int64) - 1, np.floor(y).astype(np.int64) - 1
    right = np.floor((x - (left + 1)) * 2048 + 0.5).astype(np.int64)[..., None]
    bottom = np.floor((y - (top + 1)) * 2048 + 0.5).astype(np.int64)[..., None]
    upper = (2048 - right) * pixel(left, top) + right * pixel(left + 1, top)
    lower = (2048 - right) * pixel(left, top + 1) + right * pixel(left + 1, top + 1)
    return (((2048 - bottom) * upper + bottom * lower + (1 << 21)) >> 22).astype(np.uint8)


def bent(image, alpha, sigma, method, fill, position):
    height, width, _ = image.shape
    spacing, planes = nodes_of(height, width, alpha, sigma, position)
    return sampled(image, *sources(height, width, spacing, planes), method, fill)


def main(folder):
    rng = np.random.default_rng(1)
    pictures = {name: picture(*shape, rng) for name, shape in PICTURES.items()}
    arrays = [(name.replace(" ", "_"), array) for name, array in pictures.items()]
    for name, array in pictures.items():
        for options, values in OPTIONS.items():
            for position in range(POSITIONS):
                made = bent(array, *values, position)
                assert (made != array).any()
                arrays.append((f"{name}_{options}_{position}", made))
    write(folder, "elastic.golden", f"NumPy {np.__version__}", arrays)


if __name__ == "__main__":
    main(sys.argv[1])
