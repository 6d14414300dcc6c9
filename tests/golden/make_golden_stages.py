"""Writes data/stages.golden: what torchvision and OpenCV make of small pictures where stages move whole pixels.

    apt-get install python3-torch python3-torchvision python3-opencv     # Debian 12: PyTorch for CPUs only
    /usr/bin/python3 make_golden_stages.py data

golden_stages_test.cc compares bit for bit, but torchvision's antialiased resizes within a rounding.

What is random is recorded as a set: with ranges of one number only the place is left to chance, so torchvision's transform runs with its
own generator until it makes nothing new, and the array has one row for each different result. A stage, over many samples, must
make these and no others.
"""

import sys

import cv2
import numpy as np
import torch
import torchvision
from golden_arrays import outcomes, picture, write
from torchvision import transforms as T
from torchvision.transforms import functional as F

PICTURES = {"wide": (25, 33, 3), "even": (24, 38, 4), "high": (61, 17, 1), "one": (1, 1, 3)}
CENTERS = {"wide": [(25, 33), (11, 21), (20, 12), (1, 1), (25, 5)], "even": [(8, 14), (19, 33), (24, 36)]}
PADS = {"even sides": (4, 4, 4, 4), "each side": (1, 2, 0, 5)}  # top, bottom, left, right
FILLS = {"black": 0, "colour": (10, 200, 90)}
LETTERBOXES = [(32, 32), (40, 33), (17, 64), (64, 50), (9, 9), (25, 33), (26, 33)]
RESIZES = [(24, 32), (50, 71), (37, 20), (12, 53), (3, 5), (1, 1)]
FILTERS = {"linear": T.InterpolationMode.BILINEAR, "cubic": T.InterpolationMode.BICUBIC}
RECTANGLES = [(0.3, 1.0), (0.5, 1.5), (0.4, 0.6), (1.0, 6.0), (1.0, 0.1)]  # scale, ratio; the last two never fit
ERASED = [(0.15, 1.0), (0.3, 0.5), (0.2, 2.5)]  # scale, ratio


def tensor(array):
    return torch.from_numpy(array).permute(2, 0, 1).contiguous()


def pixels(image):
    return np.ascontiguousarray(image.permute(1, 2, 0).numpy())


def flips(pictures):
    for name, array in pictures.items():
        across, down = pixels(F.hflip(tensor(array))), pixels(F.vflip(tensor(array)))
        assert (across == cv2.flip(array, 1).reshape(array.shape)).all()
        assert (down == cv2.flip(array, 0).reshape(array.shape)).all()
        yield f"across {name}", across
        yield f"down {name}", down


def crops(pictures):
    for name, sizes in CENTERS.items():
        for height, width in sizes:
            yield f"center {name} {height} {width}", pixels(F.center_crop(tensor(pictures[name]), [height, width]))
            five = F.five_crop(tensor(pictures[name]), [height, width])
            yield f"five {name} {height} {width}", np.stack([pixels(crop) for crop in five])
    # Three rows and seven columns are left over: torchvision rounds halves to the even number.
    yield "uneven", pixels(F.center_crop(tensor(pictures["even"]), [21, 31]))


def pads(pictures):
    image = tensor(pictures["wide"])
    for sides_name, (top, bottom, left, right) in PADS.items():
        for fill_name, fill in FILLS.items():
            # torchvision pads tensors with one value only: a plane at a time.
            values = fill if isinstance(fill, tuple) else (fill,) * 3
            planes = [F.pad(plane[None], [left, top, right, bottom], value) for plane, value in zip(image, values)]
            yield f"pad {sides_name} {fill_name}", pixels(torch.cat(planes))


def letterboxes(pictures):
    array = pictures["wide"]
    for height, width in LETTERBOXES:
        scale = min(height / array.shape[0], width / array.shape[1])
        inner = [int(np.floor(side * scale + 0.5)) for side in array.shape[:2]]
        top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
        resized = cv2.resize(array, (inner[1], inner[0]), interpolation=cv2.INTER_LINEAR)
        borders = (top, height - inner[0] - top, left, width - inner[1] - left)
        yield f"letterbox {height} {width}", cv2.copyMakeBorder(
            resized, *borders, cv2.BORDER_CONSTANT, value=(114, 114, 114)
        )


def random_crops(rng):
    array = picture(9, 12, 1, rng)
    yield "small", array
    image = tensor(array)
    yield "crops plain", outcomes(lambda: pixels(T.RandomCrop((6, 8))(image)))
    # torchvision's order: left, top, right, bottom.
    padded = T.RandomCrop((9, 12), padding=(1, 2, 3, 0), fill=77)
    yield "crops padded", outcomes(lambda: pixels(padded(image)))


def resized_crops(rng):
    array = picture(9, 12, 1, rng)
    yield "cropped", array
    image = tensor(array)
    for scale, ratio in RECTANGLES:

        def make():
            top, left, height, width = T.RandomResizedCrop.get_params(image, (scale, scale), (ratio, ratio))
            crop = np.ascontiguousarray(array[top : top + height, left : left + width])
            return cv2.resize(crop, (7, 8), interpolation=cv2.INTER_LINEAR)[:, :, None]

        yield f"resized {scale} {ratio}", outcomes(make)


def erasings(rng):
    array = picture(9, 12, 1, rng)
    yield "erased", array
    for scale, ratio in ERASED:
        erase = T.RandomErasing(p=1, scale=(scale, scale), ratio=(ratio, ratio), value=201)
        yield f"erasings {scale} {ratio}", outcomes(lambda: pixels(erase(tensor(array))))


def antialiased(rng):
    for name, channels in {"gray": 1, "rgb": 3, "four": 4}.items():
        array = picture(37, 53, channels, rng)
        yield f"large {name}", array
        for filter_name, mode in FILTERS.items():
            for height, width in RESIZES:
                resized = F.resize(tensor(array), [height, width], mode, antialias=True)
                yield f"antialias {name} {filter_name} {height} {width}", pixels(resized)


def main(folder):
    torch.manual_seed(62)
    rng = np.random.default_rng(62)
    pictures = {name: picture(*shape, rng) for name, shape in PICTURES.items()}
    arrays = list(pictures.items())
    for part in [flips, crops, pads, letterboxes]:
        arrays += part(pictures)
    for part in [random_crops, resized_crops, erasings, antialiased]:
        arrays += part(rng)
    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}, opencv {cv2.__version__}, numpy {np.__version__}"
    write(folder, "stages.golden", versions, arrays)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
