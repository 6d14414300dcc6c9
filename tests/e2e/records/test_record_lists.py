"""Byte strings with their lengths, lists of them, and the boxes of TensorFlow's Object Detection API, from records to batches."""

import subprocess

import numpy as np
import pytest
import yaml

import bulkhead
from bulkhead import errors
from conftest import BIN, write_spec
from tf_records import write_records

TEXTS = [b"cat", b"", b"end in zeros\0\0", b"\0", b"x" * 20]


def spec_of(folder, **more):
    return write_spec(folder / "spec.yaml", **{"source": {"tfrecord": {"files": "x.tfrecord"}}, "batch": {"size": 5}, "epochs": 1, **more})


def batch_of(folder, **more):
    with bulkhead.Loader(spec_of(folder, **more)) as loader:
        [batch] = loader
        return batch


def test_a_byte_string_with_its_length_is_whole(folder):
    write_records(folder / "x.tfrecord", ({"caption": ("bytes", [text])} for text in TEXTS))
    features = {"text": {"key": "caption", "bytes": {"max_bytes": 20, "length": "size"}}}
    batch = batch_of(folder, features=features)
    assert batch["size"].dtype == np.int64 and batch["size"].tolist() == [len(text) for text in TEXTS]
    assert [text.ljust(size, b"\0") for text, size in zip(batch["text"], batch["size"])] == TEXTS  # as docs/spec.md has it
    assert b"end in zeros" == batch["text"][2] != TEXTS[2]


def test_a_length_is_a_feature_as_others_are(folder):
    write_records(folder / "x.tfrecord", ({"text": ("bytes", [text])} for text in TEXTS))
    features = {"text": {"bytes": {"length": "size"}}}  # the string itself has no bound, and is no output
    stages = [{"cast": {"input": "size", "dtype": "float32"}}]
    batch = batch_of(folder, features=features, outputs=["size"], stages=stages, filter=[{"feature": "size", "min": 3, "max": 19}])
    assert batch["size"].dtype == np.float32 and batch["size"].tolist() == [3, 14]


def test_lists_of_byte_strings_are_rows(folder):
    names = [[b"cat", b"giraffe\0"], [], [b"emu"]]
    write_records(folder / "x.tfrecord", ({"names": ("bytes", row)} if row else {} for row in names))
    features = {"names": {"bytes": {"shape": [-1], "max_count": 3, "max_bytes": 8, "length": "sizes"}}}
    batch = batch_of(folder, features=features)
    assert batch["names"].shape == (3, 3, 8) and batch["names"].dtype == np.uint8
    assert batch["names_count"].tolist() == batch["sizes_count"].tolist() == [2, 0, 1]
    told = [[bytes(row[:size]) for row, size in zip(rows[:count], sizes)]
            for rows, sizes, count in zip(batch["names"], batch["sizes"], batch["names_count"])]
    assert told == names
    assert batch["sizes"].tolist() == [[3, 8, 0], [0, 0, 0], [3, 0, 0]]
    packed = batch_of(folder, features=features, batch_stages=["pack_rows"])
    assert packed["names"].shape == (3, 8) and packed["names_offsets"].tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize("limits, message", [
    ({"max_count": 1, "max_bytes": 8}, "holds 2 rows, max_count is 1"),
    ({"max_count": 2, "max_bytes": 2}, "has 3 bytes, max_bytes is 2"),
])
def test_what_is_over_a_bound_ends_the_stream(folder, limits, message):
    write_records(folder / "x.tfrecord", [{"names": ("bytes", [b"cat", b"emu"])}])
    with pytest.raises(errors.DataError, match=message):
        batch_of(folder, features={"names": {"bytes": {"shape": [-1], **limits}}})


BOXES = [[(0.125, 0.25, 0.5, 1), (0, 0, 0.25, 0.5)], [], [(0.5, 0.5, 0.75, 0.625)]]
SIDES = ("xmin", "ymin", "xmax", "ymax")


@pytest.fixture
def detections(photos, folder):
    """x.tfrecord: three photos with the boxes above, as TensorFlow's Object Detection API writes them."""
    images = sorted((photos / "folder").rglob("*.jpg"))
    write_records(folder / "x.tfrecord", (
        {"image/encoded": ("bytes", [image.read_bytes()]), "image/object/class/label": ("int64", list(range(1, len(boxes) + 1))),
         "image/object/class/text": ("bytes", [b"cat"] * len(boxes)),
         **{f"image/object/bbox/{side}": ("float", [box[i] for box in boxes]) for i, side in enumerate(SIDES)}}
        for image, boxes in zip(images, BOXES)))
    return folder


FEATURES = {"image": {"key": "image/encoded", "bytes": {}}, "boxes": {"boxes": {"max_count": 4}}}


def test_four_lists_become_boxes_that_move_with_their_image(detections):
    plain = batch_of(detections, features=FEATURES, outputs=["boxes"])
    assert plain["boxes"].shape == (3, 4, 4) and plain["boxes_count"].tolist() == [2, 0, 1]
    assert [tuple(box) for box in plain["boxes"][0, :2].tolist()] == BOXES[0]
    assert not plain["boxes"][1].any()
    stages = ["decode_image", {"boxes": {"format": "xyxy", "relative": True}}, {"random_horizontal_flip": {"probability": 1}}, {"resize": {"size": 32}}]
    mirrored = batch_of(detections, features=FEATURES, stages=stages)
    for boxes, got in zip(BOXES, mirrored["boxes"]):
        np.testing.assert_allclose(got[: len(boxes)], np.array([(1 - x1, y0, 1 - x0, y1) for x0, y0, x1, y1 in boxes]).reshape(-1, 4), atol=1e-6)


def test_lists_of_unequal_length_are_a_bad_sample(folder):
    write_records(folder / "x.tfrecord", [{f"image/object/bbox/{side}": ("float", [0.5] * (1 + (side == "xmax"))) for side in SIDES}])
    with pytest.raises(errors.DataError, match="`image/object/bbox`: its lists have unequal lengths: xmin 1, ymin 1, xmax 2, ymax 1"):
        batch_of(folder, features={"boxes": FEATURES["boxes"]})


def test_inspect_proposes_the_boxes_with_their_labels(detections):
    proposed = detections / "proposed.yaml"
    subprocess.run([BIN / "bulkhead", "inspect", detections / "x.tfrecord", "--out", proposed], capture_output=True, check=True)
    spec = yaml.safe_load(proposed.read_text())
    assert spec["features"]["boxes"] == {"boxes": {"max_count": 4}}
    spec["batch"]["size"], spec["order"] = 3, {"sequential": {}}
    with bulkhead.Loader(spec, timeout=60) as loader:
        [batch] = loader
        assert batch["boxes"].shape == (3, 4, 4) and batch["boxes_count"].tolist() == batch["label_count"].tolist()
    wrong = spec_of(detections, features={**FEATURES, "boxes": {"key": "image/objects/bbox", "boxes": {"max_count": 4}}}, outputs=["boxes"])
    said = subprocess.run([BIN / "bulkhead", "inspect", wrong], capture_output=True, text=True).stderr
    assert "no record that was looked at holds `image/objects/bbox/xmin`; did you mean `image/object/bbox/xmin`?" in said
