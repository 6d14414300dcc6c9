"""Writes what torchvision and Pillow make of one small picture, for golden_ops_test.cc.

    apt-get install python3-torch python3-torchvision python3-pil     # Debian 12: PyTorch for CPUs only
    python3 make_golden_ops.py data

data/ops.bin   all arrays behind each other, row-major, little-endian
data/ops.txt   one line an array: name, dtype, shape; first the libraries' versions, as comments

The operations are torchvision's functional ones on uint8 tensors (those that RandAugment runs by its own dispatcher);
equalize and autocontrast are Pillow's. Everything is seeded, and every parameter stands in golden_ops_test.cc, too.
Linear warps are recorded without a fill: with one, torchvision weights a border pixel's own share twice.
"""

import os
import sys

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode as Mode
from torchvision.transforms import autoaugment
from torchvision.transforms import functional as F

HEIGHT, WIDTH = 25, 33
FILL = [10.0, 200.0, 90.0]
MODES = {"nearest": Mode.NEAREST, "linear": Mode.BILINEAR}
AFFINES = {  # angle, translate (x, y), scale, shear (x, y)
    "turned": (33.3, (0, 0), 1.0, (0.0, 0.0)),
    "all": (-17.0, (3, -2), 0.83, (11.0, -7.5)),
    "large": (201.0, (-4, 1), 2.3, (-20.0, 0.0)),
}
CORNERS = [[3, 2], [30, 0], [29, 22], [1, 20]]
AUGMENTS = {  # space, magnitude's number, sign
    "rand": (autoaugment.RandAugment()._augmentation_space(31, (HEIGHT, WIDTH)), 23, -1),
    "trivial": (autoaugment.TrivialAugmentWide()._augmentation_space(31), 17, 1),
}


def picture(rng):
    """Gradients, an edge, noise, grays, black and white; red uses a part of the range only."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    planes = [
        125 + 70 * np.sin(x / 5) * np.cos(y / 7),
        128 + 100 * np.sin(x / 7) * np.cos(y / 4) + 30 * (x > WIDTH / 2),
        110 + 130 * np.cos(x / 9 + y / 6),
    ]
    pixels = np.stack([plane + rng.normal(0, 8, plane.shape) for plane in planes], axis=-1)
    pixels = np.clip(pixels, 0, 255).astype(np.uint8)
    pixels[..., 0] = np.clip(pixels[..., 0], 40, 210)
    pixels[:3, :5] = 77
    pixels[-4:, -6:, 1:] = 255
    pixels[-4:, :4, 1:] = 0
    return pixels


def channels_last(tensor):
    return np.ascontiguousarray(tensor.permute(1, 2, 0).numpy())


def colors(image, gray):
    for factor in (0.0, 0.4, 1.7):
        yield f"brightness {factor}", F.adjust_brightness(image, factor)
        yield f"contrast {factor}", F.adjust_contrast(image, factor)
        yield f"saturation {factor}", F.adjust_saturation(image, factor)
        yield f"sharpness {factor}", F.adjust_sharpness(image, factor)
    yield "gray contrast 1.7", F.adjust_contrast(gray, 1.7)
    for shift in (-0.5, -0.13, 0.07, 0.4):
        # As torchvision's transforms v2 do it: through floats, back to bytes by convert_image_dtype().
        turned = F.adjust_hue(F.convert_image_dtype(image, torch.float32), shift)
        yield f"hue {shift}", F.convert_image_dtype(turned, torch.uint8)
    yield "grayscale", F.rgb_to_grayscale(image, 3)


def tables(image, pixels):
    for bits in (1, 4, 7):
        yield f"posterize {bits}", F.posterize(image, bits)
        posterized = np.asarray(ImageOps.posterize(Image.fromarray(pixels), bits))
        assert (channels_last(F.posterize(image, bits)) == posterized).all()
    for threshold in (0, 128, 201):
        yield f"solarize {threshold}", F.solarize(image, threshold)
        solarized = np.asarray(ImageOps.solarize(Image.fromarray(pixels), threshold))
        assert (channels_last(F.solarize(image, threshold)) == solarized).all()
    for name, operation in [("equalize", ImageOps.equalize), ("autocontrast", ImageOps.autocontrast)]:
        yield name, torch.from_numpy(np.array(operation(Image.fromarray(pixels)))).permute(2, 0, 1)
    # Few pixels, of which the last value has many: the table leaves the range and is cut off.
    dark = np.where(pixels > 128, 255, pixels // 32).astype(np.uint8)
    yield "dark", torch.from_numpy(dark).permute(2, 0, 1)
    yield "dark equalize", torch.from_numpy(np.array(ImageOps.equalize(Image.fromarray(dark)))).permute(2, 0, 1)


def warps(image):
    for kernel, sigma in ((3, 0.5), (7, 1.5), (23, 4.0), (5, 0.1)):
        yield f"blur {kernel} {sigma}", F.gaussian_blur(image, [kernel, kernel], [sigma, sigma])
    corners = [[0, 0], [WIDTH - 1, 0], [WIDTH - 1, HEIGHT - 1], [0, HEIGHT - 1]]
    for mode_name, mode in MODES.items():
        fill = FILL if mode_name == "nearest" else None
        for name, (angle, translate, scale, shear) in AFFINES.items():
            yield f"affine {name} {mode_name}", F.affine(image, angle, translate, scale, shear, mode, fill)
        yield f"rotate 20 {mode_name}", F.rotate(image, 20.0, mode, fill=fill)
        yield f"perspective {mode_name}", F.perspective(image, corners, CORNERS, mode, fill)


def augments(image):
    for space_name, (space, number, sign) in AUGMENTS.items():
        rows = []
        for name, (magnitudes, signed) in space.items():
            values = magnitudes.double().numpy() if magnitudes.ndim > 0 else np.zeros(31)
            rows.append(values)
            magnitude = float(values[number]) * (sign if signed else 1)
            if name in ("AutoContrast", "Equalize"):
                continue  # Pillow's, above
            yield f"{space_name} {name}", autoaugment._apply_op(image, name, magnitude, Mode.NEAREST, None)
        yield f"{space_name} magnitudes", np.stack(rows)


def main(folder):
    rng = np.random.default_rng(7)
    pixels = picture(rng)
    image = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
    arrays = [("picture", image)]
    arrays += colors(image, image[1:2])
    arrays += tables(image, pixels)
    arrays += warps(image)
    arrays += augments(image)
    os.makedirs(folder, exist_ok=True)
    lines = [f"# torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}"]
    with open(os.path.join(folder, "ops.bin"), "wb") as out:
        for name, array in arrays:
            array = channels_last(array) if isinstance(array, torch.Tensor) else array
            out.write(array.astype(array.dtype.newbyteorder("<")).tobytes())
            lines.append(f"{name.replace(' ', '_')} {array.dtype} {'x'.join(map(str, array.shape))}")
    with open(os.path.join(folder, "ops.txt"), "w") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
