"""BMP, TIFF and PNM held to Pillow's verdicts: what it refuses is refused, and what is decoded has its pixels.

    BULKHEAD_SEED=7 BULKHEAD_DAMAGES=200 pytest tests/image/rare     # another corpus, or a larger one
"""

import collections
import io
import os
import pathlib
import subprocess
import warnings

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image  # noqa: E402

import rare_files  # noqa: E402

DECODER = pathlib.Path(os.environ["BULKHEAD_BIN_DIR"]) / "bulkhead-decode-rare"
SEED = int(os.environ.get("BULKHEAD_SEED", "18"))
DAMAGES = int(os.environ.get("BULKHEAD_DAMAGES", "12" if "BULKHEAD_EXTENDED" in os.environ else "3"))

# What Pillow decodes and Bulkhead refuses. docs/stages/decode.md lists them for users; a kind that is not here is decoded.
REFUSED = (
    "bmp40-16", "bmp40-rle", "-bitfields-565", "-bitfields-555", "-bitfields-xbgr", "-bitfields-abgr",
    "-bitfields-rgba", "-bitfields-none", "bmp40-8-beyond",
    "tiff-RGBA", "tiff-RGBX", "tiff-CMYK", "tiff-LAB", "tiff-LA-", "tiff-YCbCr-tiff_", "tiff-YCbCr-packbits",
    "tiff-I-", "tiff-F-", "-lzma", "-zstd", "-webp", "tiff-white16", "tiff-gray16-1-tile", "tiff-gray16-8-tile",
    "tiff-gray16-big-1-tile", "tiff-gray16-big-8-tile", "-extra", "tiff-four", "tiff-orientation", "-format2",
    "-format3", "-format4", "tiff-fill", "tiff-cmyk", "tiff-ycbcr", "tiff-lab",
    "pnm-head-comment-inside", "pnm-head-plus",
    *(f"pnm-p{kind}-{top}" for kind in (2, 3, 5, 6) for top in (1, 256)),  # and 15, 100, 1000
)
# Pillow reads these in a way of its own: 16 bits become 8 by cutting, not by rounding.
ROUNDED = 1
# Of the damaged files that Pillow decodes, at most this part may be refused.
MAX_REFUSED_PART = 0.3


def pillows(file):
    """The RGB pixels that Pillow gives, and whether they had 16 bits; None where it refuses the file."""
    try:
        image = Image.open(io.BytesIO(file))
        image.load()
        if not image.mode.startswith("I"):
            return np.asarray(image.convert("RGB")), False
        gray = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return np.repeat(gray[..., None], 3, axis=2), True
    except Exception:  # whatever it is: Pillow has many
        return None


def bulkheads(files, folder):
    """For each of `files`: its RGB pixels, or the reason why it is refused."""
    for number, file in enumerate(files):
        (folder / str(number)).write_bytes(file)
    names = "".join(f"{number}\n" for number in range(len(files)))
    out = io.BytesIO(subprocess.run([DECODER, folder], input=names.encode(), stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, check=True).stdout)
    results = []
    for _ in files:
        line = out.readline().decode().split()
        assert line and line[0] != "!", line
        if line[0] != "ok":
            results.append(line[0])
            continue
        height, width = map(int, line[1:])
        results.append(np.frombuffer(out.read(height * width * 3), np.uint8).reshape(height, width, 3))
    return results


def compare(pairs, folder):
    """(verdict, name, what) for each file of `pairs`."""
    warnings.simplefilter("ignore")
    names, files = zip(*pairs)
    for name, file, result in zip(names, files, bulkheads(files, folder)):
        theirs = pillows(file)
        if isinstance(result, str):
            yield "both refuse" if theirs is None else "only Bulkhead refuses", name, result
        elif theirs is None:
            yield "only Pillow refuses", name, ""
        elif result.shape != theirs[0].shape:
            yield "other size", name, f"{result.shape} {theirs[0].shape}"
        else:
            apart = int(np.abs(result.astype(int) - theirs[0]).max())
            yield ("equal" if apart <= allowed(name) else "other pixels"), name, str(apart)


def allowed(name):
    return ROUNDED if "rgb16" in name or "-65535" in name else 0


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    print(f"seed {SEED}, {DAMAGES} damages of each file")
    return list(compare(rare_files.corpus(SEED, DAMAGES), tmp_path_factory.mktemp("files")))


def of(verdicts, *kinds, damaged):
    return [row for row in verdicts if row[0] in kinds and ("~" in row[1]) == damaged]


def test_no_file_is_accepted_that_pillow_refuses_or_decodes_otherwise(verdicts):
    wrong = [row for row in verdicts
             if row[0] in ("only Pillow refuses", "other size", "other pixels")]
    assert not wrong, f"{len(wrong)} of {len(verdicts)} (seed {SEED}): {wrong[:40]}"


def test_whole_files_are_refused_only_of_the_kinds_that_are_listed(verdicts):
    refused = of(verdicts, "only Bulkhead refuses", damaged=False)
    unlisted = [row for row in refused if not any(kind in row[1] for kind in REFUSED)]
    assert not unlisted
    assert len(of(verdicts, "equal", damaged=False)) > 300


def test_few_damaged_files_are_refused_that_pillow_takes(verdicts):
    whole = {row[1] for row in of(verdicts, "equal", damaged=False)}
    rows = [row for row in verdicts if "~" in row[1] and row[1].split("~")[0] in whole]
    count = collections.Counter(row[0] for row in rows)
    print(dict(count))
    assert count["both refuse"] > 100 and count["equal"] > 100
    assert count["only Bulkhead refuses"] <= MAX_REFUSED_PART * (count["only Bulkhead refuses"] + count["equal"])
