"""Writes data/geometry.golden: what Pillow and TensorFlow make of a few small images.

    python3 -m venv env && env/bin/pip install tensorflow-cpu pillow
    env/bin/python make_geometry_golden.py data

golden_geometry_test.cc compares bit for bit. The file holds arrays, each a line "name dtype shape" and its bytes, row-major; the
first line says what wrote it. Names say how an array came about, such as "pillow rgb linear".
"""

import io
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import PIL
import tensorflow as tf
from golden_arrays import picture
from PIL import Image, ImageOps

SIZES = [(24, 32), (50, 71), (37, 20), (12, 53), (3, 5), (1, 1)]  # height, width; of 37 x 53
# Channels and the mode of Pillow's that treats them as four planes, not as colours and an alpha.
MODES = {"gray": (1, "L"), "rgb": (3, "RGB"), "four": (4, "CMYK")}


def as_pillow(array, mode):
    return Image.fromarray(array[:, :, 0] if mode == "L" else array, mode)


def as_array(image):
    array = np.asarray(image)
    return array[:, :, None] if array.ndim == 2 else array


def saved(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def resized(rng):
    for name, (channels, mode) in MODES.items():
        array = picture(37, 53, channels, rng)
        yield f"{name}", array
        for height, width in SIZES:
            for filter_name, flag in [("linear", Image.BILINEAR), ("cubic", Image.BICUBIC)]:
                result = as_pillow(array, mode).resize((width, height), flag)
                yield f"pillow {name} {filter_name}", as_array(result)
            if name == "four":
                continue
            for centers in ["corner", "aligned"]:
                linear = tf.compat.v1.image.resize_bilinear(
                    array[None], (height, width), align_corners=centers == "aligned"
                )
                yield f"tf1 {name} linear {centers}", tf.round(linear[0]).numpy().astype(np.uint8)
                nearest = tf.compat.v1.image.resize_nearest_neighbor(
                    array[None], (height, width), align_corners=centers == "aligned"
                )
                yield f"tf1 {name} nearest {centers}", nearest[0].numpy()


def encoded(data):
    return np.frombuffer(data, np.uint8)


def cmyk(rng):
    """Pillow writes CMYK inverted, behind an Adobe marker; with another transform in it the same data are YCCK."""
    data = saved(Image.fromarray(picture(21, 35, 4, rng), "CMYK"), "JPEG", quality=95)
    marker = data.index(b"Adobe") + 11
    assert data[marker] == 0
    for name, file in [("cmyk", data), ("ycck", data[:marker] + b"\2" + data[marker + 1 :])]:
        image = Image.open(io.BytesIO(file))
        assert image.mode == "CMYK"
        yield f"file {name}", encoded(file)
        yield f"pillow rgb of {name}", as_array(image.convert("RGB"))
        yield f"pillow gray of {name}", as_array(image.convert("RGB").convert("L"))


def oriented(rng):
    image = Image.fromarray(picture(16, 26, 3, rng))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        exif[0x010F] = "a maker"
        for form in ["JPEG", "PNG", "WEBP"] if orientation in (1, 6, 7) else ["JPEG"]:
            options = {"lossless": True} if form == "WEBP" else {}
            file = saved(image, form, exif=exif, **options)
            yield f"file {form} {orientation}", encoded(file)
            upright = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
            yield f"pillow upright {form} {orientation}", as_array(upright.convert("RGB"))


def decoded(rng):
    file = saved(Image.fromarray(picture(45, 67, 3, rng)), "JPEG", quality=90, subsampling="4:2:0")
    yield "file photo", encoded(file)
    ways = {
        "plain": {"fancy_upscaling": False, "dct_method": "INTEGER_ACCURATE"},
        "ifast": {"dct_method": "INTEGER_FAST"},
        "scale 2": {"ratio": 2, "dct_method": "INTEGER_ACCURATE"},
        "scale 4": {"ratio": 4, "dct_method": "INTEGER_ACCURATE"},
        "scale 8": {"ratio": 8, "dct_method": "INTEGER_ACCURATE"},
    }
    for name, options in ways.items():
        yield f"tf {name}", tf.io.decode_jpeg(file, channels=3, **options).numpy()


def main(folder):
    rng = np.random.default_rng(60)
    with open(os.path.join(folder, "geometry.golden"), "wb") as out:
        out.write(f"tensorflow {tf.__version__}, pillow {PIL.__version__}, numpy {np.__version__}\n".encode())
        for part in [resized, cmyk, oriented, decoded]:
            for name, array in part(rng):
                shape = "x".join(map(str, array.shape))
                out.write(f"{name} {array.dtype} {shape}\n".encode())
                out.write(np.ascontiguousarray(array).tobytes())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
