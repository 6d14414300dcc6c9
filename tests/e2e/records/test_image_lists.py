"""Lists of encoded images in a record: each is decoded, stages treat all alike, and they are joined, stacked or delivered one by one."""

import subprocess

import cv2
import numpy as np
import pytest
import yaml

import bulkhead
from bulkhead import errors
from conftest import BIN, tool, write_spec
from tf_records import write_records, write_sequences

VIEWS = {"image": {"key": "views", "bytes": {"shape": [3]}}}
CROPPED = ["decode_image", {"random_resized_crop": {"size": 32}}, "random_horizontal_flip", {"color_jitter": {"brightness": 0.5, "hue": 0.2}}]
JOINED = {"concat": {"inputs": "image", "output": "image"}}


def spec_of(folder, **more):
    return write_spec(folder / "spec.yaml", **{"source": {"tfrecord": {"files": "x.tfrecord"}}, "features": VIEWS, "batch": {"size": 4}, "epochs": 1, **more})


def batch_of(folder, **more):
    with bulkhead.Loader(spec_of(folder, **more)) as loader:
        [batch] = loader
        return batch


@pytest.fixture
def views(photos, folder):
    """x.tfrecord: four records of three photos each, as a list, a list of steps, and one by one."""
    files = [image.read_bytes() for image in sorted((photos / "folder").rglob("*.jpg"))[:12]]
    write_sequences(folder / "x.tfrecord", [
        ({"views": ("bytes", files[i : i + 3]), **{f"view{k}": ("bytes", [files[i + k]]) for k in range(3)}}, {"views": ("bytes", [[file] for file in files[i : i + 3]])})
        for i in range(0, 12, 3)])
    return folder


def test_images_of_a_list_are_those_of_features_of_their_own(views):
    resized = ["decode_image", {"resize": {"size": 32}}]
    batch = batch_of(views, stages=[*resized, JOINED])
    assert batch["image"].shape == (4, 32, 32, 9)
    for k in range(3):
        alone = batch_of(views, features={"image": {"key": f"view{k}", "bytes": {}}}, stages=resized)
        assert np.array_equal(batch["image"][..., 3 * k : 3 * k + 3], alone["image"])


def test_random_stages_draw_alike_for_all_images(views):
    batch = batch_of(views, stages=[*CROPPED, JOINED])
    for k in range(3):
        alone = batch_of(views, features={"image": {"key": f"view{k}", "bytes": {}}}, stages=CROPPED)
        assert np.array_equal(batch["image"][..., 3 * k : 3 * k + 3], alone["image"])


def test_images_may_be_stacked_and_numbers_of_steps(views):
    stacked = [*CROPPED, {"concat": {"inputs": "image", "output": "clip", "stack": True}}, {"normalize": {"input": "clip", "divide": 255}}]
    joined = batch_of(views, stages=[*CROPPED, JOINED])["image"]
    clip = batch_of(views, stages=[*stacked, {"layout": {"input": "clip", "to": "nchw"}}])["clip"]
    assert clip.shape == (4, 3, 3, 32, 32) and clip.dtype == np.float32
    assert np.array_equal(clip.reshape(4, 9, 32, 32).transpose(0, 2, 3, 1), joined.astype(np.float32) / np.float32(255))
    steps = {"image": {"key": "views", "sequence": "view", "bytes": {"shape": [3]}}}
    assert np.array_equal(batch_of(views, features=steps, stages=[*CROPPED, JOINED])["image"], joined)


def test_boxes_follow_the_first_image(views):
    features = {**VIEWS, "label": {"int64": {"default": 1}}}
    batch = batch_of(views, features=features, stages=[*CROPPED], outputs=["image/0", "image/2", "label"])
    assert batch["image/2"].shape == (4, 32, 32, 3) and batch["label"].tolist() == [1] * 4


@pytest.mark.parametrize("count", [0, 2, 4])
def test_another_number_of_images_is_a_bad_sample(photos, folder, count):
    file = next((photos / "folder").rglob("*.jpg")).read_bytes()
    write_records(folder / "x.tfrecord", [{"views": ("bytes", [file] * 3)}, {"views": ("bytes", [file] * count)}])
    stages = ["decode_image", {"resize": {"size": 8}}, JOINED]
    with pytest.raises(errors.DataError, match=f"holds {count} images, the spec's shape needs 3"):
        batch_of(folder, stages=stages)
    good = batch_of(folder, stages=stages, errors={"policy": "substitute", "max_fraction": 1})["image"]
    assert np.array_equal(good[0], good[1])


def test_a_damaged_image_is_named(photos, folder):
    file = next((photos / "folder").rglob("*.jpg")).read_bytes()
    write_records(folder / "x.tfrecord", [{"views": ("bytes", [file, file, file[:200]])}])
    with pytest.raises(errors.DataError, match="`image/2`: stages.0. decode_image"):
        batch_of(folder, stages=["decode_image", {"resize": {"size": 8}}, JOINED])


def test_a_cache_keeps_all_images(views):
    stages = ["decode_image", {"resize": {"size": 40}}]
    plain = [*stages, {"random_crop": {"size": 32}}, JOINED]
    cached = [*stages, "cache", {"random_crop": {"size": 32}}, JOINED]
    with bulkhead.Loader(spec_of(views, stages=plain, epochs=3)) as loader:
        wanted = [np.array(batch["image"]) for batch in loader.stream()]
    with bulkhead.Loader(spec_of(views, stages=cached, epochs=3)) as loader:
        for batch, image in zip(loader.stream(), wanted):
            assert np.array_equal(batch["image"], image)


def test_tools_show_all_images(views):
    spec = spec_of(views, stages=["decode_image", {"resize": {"size": 32}}, {"concat": {"inputs": "image", "output": "clip", "stack": True}}])
    said = tool("explain", spec)
    assert said.count("stages[0] decode_image") <= 2 and "image/2" in said
    assert "clip" in tool("validate", spec)
    subprocess.run([BIN / "bulkhead", "preview", "--spec", spec, "--out", views / "sheet.png", "--cell", "96"], check=True, stdout=subprocess.DEVNULL)
    sheet = cv2.imread(str(views / "sheet.png"))
    [image] = batch_of(views, stages=["decode_image", {"resize": {"size": 32}}, JOINED])["image"][:1]
    panes = np.concatenate([image[..., 3 * k : 3 * k + 3] for k in range(3)], axis=1)[:, :, ::-1].copy()
    _, _, (left, top), _ = cv2.minMaxLoc(cv2.matchTemplate(sheet, panes, cv2.TM_SQDIFF))
    assert np.array_equal(sheet[top : top + 32, left : left + 96], panes)


def test_inspect_proposes_the_list(photos, folder):
    files = [image.read_bytes() for image in sorted((photos / "folder").rglob("*.jpg"))[:4]]
    write_records(folder / "x.tfrecord", [{"views": ("bytes", files[i : i + 2]), "label": ("int64", [i])} for i in (0, 2)])
    proposed = folder / "proposed.yaml"
    tool("inspect", folder / "x.tfrecord", "--out", proposed)
    spec = yaml.safe_load(proposed.read_text())
    assert spec["features"]["image"] == {"key": "views", "bytes": {"shape": [2]}}
    spec["batch"]["size"] = 2
    with bulkhead.Loader(spec, timeout=60) as loader:
        [batch] = loader
        assert batch["image"].shape == (2, 224, 224, 6)


def test_the_builder_knows_lists(views):
    pipeline = bulkhead.Pipeline.tfrecord(str(views / "x.tfrecord"), features=VIEWS)
    pipeline = pipeline.decode_image().resize(size=32).concat(inputs="image", output="clip", stack=True).batch(4).epochs(1)
    with bulkhead.Loader(pipeline) as loader:
        [batch] = loader
        assert batch["clip"].shape == (4, 3, 32, 32, 3)
