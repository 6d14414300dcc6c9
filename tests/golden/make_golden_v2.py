"""Writes data/v2.golden: what torchvision's transforms v2 make of boxes, points, masks, colours and batches.

    apt-get install python3-torch python3-pil python3-numpy      # Debian 12: PyTorch 1.13 for CPUs only
    /usr/bin/python3 -m venv --system-site-packages env
    env/bin/pip install --no-deps torchvision==0.23.0            # the first release with keypoints
    env/bin/python make_golden_v2.py data

golden_v2_{boxes,pixels}_test.cc says with what tolerance each is compared. The transforms are Python on top of PyTorch; torchvision's compiled part,
which wants a newer PyTorch, is neither loaded nor used. What is random is recorded as the set of all results, as in make_golden_stages.py.
"""

import sys
import types

import numpy as np
import torch


def _name_what_torchvision_imports():
    """Names that PyTorch 1.13 does not have: one that it has under another name, and others that matter to compilers."""
    torch._C.DisableTorchFunctionSubclass = torch._C.DisableTorchFunction
    torch.library.register_fake = lambda *_, **__: lambda function: function
    for name, contents in {
        "_custom_ops": {},
        "_dynamo": {"__path__": []},
        "_dynamo.utils": {"is_compile_supported": None},
        "compiler": {"disable": lambda function: function, "is_compiling": lambda: False},
    }.items():
        module = types.ModuleType(f"torch.{name}")
        module.__dict__.update(contents)
        sys.modules[module.__name__] = module
        if "." not in name:
            setattr(torch, name, module)


_name_what_torchvision_imports()

import torchvision  # noqa: E402
from golden_arrays import outcomes, picture, write  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402


class _WideIndices(types.ModuleType):
    """PyTorch for the module of colours, which indexes with int32; PyTorch 1.13 does with int64 only."""

    int32 = torch.int64

    def __getattr__(self, name):
        return getattr(torch, name)


sys.modules[F.adjust_hue.__module__].torch = _WideIndices("torch")

CANVAS = (43, 57)  # height, width
FORMATS = ["XYXY", "XYWH", "CXCYWH"]
CORNERS = [[4, 2], [50, 0], [55, 40], [1, 37]]
# Each of a box, a point or a mask; torchvision pads in the order left, top, right, bottom.
MOVES = {
    "flip columns": F.horizontal_flip,
    "flip rows": F.vertical_flip,
    "center crop": lambda x: F.center_crop(x, [29, 31]),
    "pad": lambda x: F.pad(x, [3, 1, 4, 2], fill=9 if isinstance(x, tv_tensors.Mask) else 0),
    "enlarge": lambda x: F.resize(x, [60, 100]),
    "shrink": lambda x: F.resize(x, [20, 33]),
    "affine": lambda x: F.affine(x, angle=30.0, translate=[0, 0], scale=0.8, shear=[10.0, -5.0]),
    "shifted": lambda x: F.affine(x, angle=-17.0, translate=[5, -3], scale=1.25, shear=[0.0, 0.0]),
    "rotate": lambda x: F.rotate(x, 20.0),
    "perspective": lambda x: F.perspective(x, _corners(), CORNERS),
}
SANITIZED = {"plain": (1.0, 1.0), "size": (3.0, 1.0), "area": (1.0, 40.0)}  # min_size, min_area
IOU_CANVAS = (20, 24)
IOU_BOXES = [[1, 2, 9.5, 8], [10.25, 6, 23, 18.5], [2, 1, 18, 19], [20, 1, 23.75, 3], [5, 5, 5, 5]]
IOU_CROPS = [(0.5, 0.0), (0.5, 0.3), (0.75, 0.4), (0.75, 0.6)]  # scale of each side, least overlap
ZOOM = 1.5
COLORS = {"brightness": (0.4, 1.7), "contrast": (0.4, 1.7), "saturation": (0.4, 1.7), "hue": (-0.5, -0.13, 0.07, 0.4)}
DISTORTIONS = {"brightness": 0.875, "contrast": 1.25, "saturation": 0.75, "hue": 0.0625}
# What mixup draws for the batches of golden_v2_{boxes,pixels}_test.cc, in steps of 1/16384.
SHARES = [12953, 12153, 9021]
ROWS, HEIGHT, WIDTH, CLASSES = 4, 6, 8, 4


def _corners():
    height, width = CANVAS
    return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]


def boxes_of(rows, form="XYXY", canvas=CANVAS):
    boxes = tv_tensors.BoundingBoxes(torch.as_tensor(rows), format="XYXY", canvas_size=canvas)
    return F.convert_bounding_box_format(boxes, new_format=form)


def moves(rng):
    low = rng.uniform([-8, -8], [CANVAS[1], CANVAS[0]], (30, 2))
    rows = np.concatenate([low, low + np.exp(rng.uniform(0, np.log(50), (30, 2)))], axis=1).astype(np.float32)
    rows[-1] = [10, 10, 10, 10]
    for form in FORMATS:
        boxes = boxes_of(rows, form)
        yield f"boxes {form}", boxes.numpy()
        for name, move in MOVES.items():
            yield f"boxes {form} {name}", move(boxes).numpy()
    points = tv_tensors.KeyPoints(torch.from_numpy(rng.uniform(0, 43, (30, 2)).astype(np.float32)), canvas_size=CANVAS)
    yield "points", points.numpy()
    mask = tv_tensors.Mask(torch.from_numpy(picture(*CANVAS, 1, rng)).permute(2, 0, 1).contiguous())
    yield "mask", mask[0].numpy()
    for name, move in MOVES.items():
        yield f"points {name}", move(points).numpy()
        yield f"mask {name}", move(mask)[0].numpy()


def sanitized(rng):
    # Quarters of pixels, so that sizes are exact; and boxes that are exactly as large as the bounds.
    low = rng.integers([-20, -20], [4 * CANVAS[1], 4 * CANVAS[0]], (40, 2))
    rows = np.concatenate([low, low + rng.integers(0, 48, (40, 2))], axis=1).astype(np.float32) / 4
    rows[:4] = [[5, 5, 8, 8], [5, 5, 6, 6], [20, 20, 25, 28], [0, 0, 57, 43]]
    yield "sanitized", rows
    for name, (min_size, min_area) in SANITIZED.items():
        for cut in (True, False):
            boxes = F.clamp_bounding_boxes(boxes_of(rows)) if cut else boxes_of(rows)
            sample = {"boxes": boxes, "labels": torch.arange(len(rows))}
            kept = v2.SanitizeBoundingBoxes(min_size=min_size, min_area=min_area)(sample)
            yield f"kept {name} {'cut' if cut else 'uncut'}", kept["labels"].numpy()
            yield f"left {name} {'cut' if cut else 'uncut'}", kept["boxes"].numpy()


def random_crops():
    boxes = boxes_of(np.array(IOU_BOXES, np.float32), canvas=IOU_CANVAS)
    image = tv_tensors.Image(torch.zeros((1, *IOU_CANVAS), dtype=torch.uint8))
    yield "iou boxes", boxes.numpy()
    for scale, overlap in IOU_CROPS:
        crop = v2.RandomIoUCrop(scale, scale, sampler_options=[overlap])
        yield f"iou {scale} {overlap}", outcomes(lambda: crop(image, boxes)[1].numpy())
    zoom = v2.RandomZoomOut(side_range=(ZOOM, ZOOM), p=1)
    yield "zoomed", outcomes(lambda: zoom(image, boxes)[1].numpy())


def channels_last(image):
    return np.ascontiguousarray(image.permute(1, 2, 0).numpy())


def colors(rng):
    array = picture(7, 9, 3, rng)
    yield "colours", array
    image = tv_tensors.Image(torch.from_numpy(array).permute(2, 0, 1).contiguous())
    for name, factors in COLORS.items():
        for factor in factors:
            yield f"{name} {factor}", channels_last(getattr(F, f"adjust_{name}")(image, factor))
    ranges = {name: (factor, factor) for name, factor in DISTORTIONS.items()}
    distort = v2.RandomPhotometricDistort(**ranges, p=1)
    yield "distorted", outcomes(lambda: channels_last(distort(image)))


class _Always:
    """Stands in for a distribution: draws one number."""

    def __init__(self, number):
        self._number = number

    def sample(self, _):
        return self._number


def mixed(rng):
    rows = np.stack([picture(HEIGHT, WIDTH, 1, rng) for _ in range(ROWS)])
    yield "batch", rows
    images = torch.from_numpy(rows).permute(0, 3, 1, 2).float()
    labels = torch.arange(ROWS) % CLASSES
    mixup, cutmix = v2.MixUp(num_classes=CLASSES), v2.CutMix(num_classes=CLASSES)
    results = []
    for share in SHARES:
        mixup._dist = _Always(share / 16384)
        results.append(mixup(images, labels))
    yield "mixup images", np.stack([result[0].numpy() for result in results])
    yield "mixup labels", np.stack([result[1].numpy() for result in results])

    # Near 0.5 the rectangle has one size: what is left to chance is its place.
    cutmix._dist = _Always(0.5)

    def cut():
        result = cutmix(images, labels)
        return np.concatenate([result[0].numpy().reshape(ROWS, -1), result[1].numpy()], axis=1)

    yield "cutmix", outcomes(cut)


def main(folder):
    torch.manual_seed(63)
    rng = np.random.default_rng(63)
    arrays = [*moves(rng), *sanitized(rng), *random_crops(), *colors(rng), *mixed(rng)]
    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}, numpy {np.__version__}"
    write(folder, "v2.golden", versions, arrays)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
