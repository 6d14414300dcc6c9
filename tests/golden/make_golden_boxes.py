"""Writes data/boxes.golden: what torchvision.ops makes of some boxes, for golden_boxes_test.cc.

    apt-get install python3-torch python3-torchvision     # Debian 12: PyTorch for CPUs only
    python3 make_golden_boxes.py data

The file holds arrays, each a line "name dtype shape" and its bytes, row-major; the first line says what wrote it. torchvision 0.14
has no transforms of boxes: make_golden_v2.py records those of a later one, and tests/image/boxes_test.cc compares with pixels.
"""

import os
import sys

import numpy as np
import torch
import torchvision
from torchvision import ops

HEIGHT, WIDTH = 431, 653
FORMATS = ["xyxy", "xywh", "cxcywh"]


def boxes(rng, count):
    """Boxes of all sizes, some of which reach beyond the image."""
    low = rng.uniform([-40, -40], [WIDTH, HEIGHT], (count, 2))
    size = np.exp(rng.uniform(np.log(2), np.log(400), (count, 2)))
    return np.concatenate([low, low + size], axis=1).astype(np.float32)


def main(folder):
    rng = np.random.default_rng(61)
    first, second = boxes(rng, 40), boxes(rng, 30)
    second[:10] = first[:10] + rng.normal(0, 3, (10, 4)).astype(np.float32)  # some that overlap
    second[:10, 2:] = np.maximum(second[:10, 2:], second[:10, :2])
    arrays = {"first": first, "second": second}
    for name in FORMATS[1:]:
        arrays[name] = ops.box_convert(torch.from_numpy(first), "xyxy", name).numpy()
        arrays[f"{name} back"] = ops.box_convert(torch.from_numpy(arrays[name]), name, "xyxy").numpy()
    arrays["iou"] = ops.box_iou(torch.from_numpy(first), torch.from_numpy(second)).numpy()
    arrays["clipped"] = ops.clip_boxes_to_image(torch.from_numpy(first), (HEIGHT, WIDTH)).numpy()
    keep = ops.remove_small_boxes(torch.from_numpy(arrays["clipped"]), 20.0).numpy()
    arrays["kept"] = keep.astype(np.int64)
    with open(os.path.join(folder, "boxes.golden"), "wb") as out:
        out.write(f"torchvision {torchvision.__version__}, torch {torch.__version__}, numpy {np.__version__}\n".encode())
        for name, array in arrays.items():
            shape = "x".join(map(str, array.shape))
            out.write(f"{name} {array.dtype} {shape}\n".encode())
            out.write(np.ascontiguousarray(array).tobytes())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
