"""examples/face: the label rule on boxes made by hand, the pictures with their boxes, and the specs as a trainer reads them."""

import itertools
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import bulkhead
from conftest import BIN, HERE, PYTHON, PYTHON_PACKAGE, Service, tool

EXAMPLE = HERE.parents[1] / "examples/face"
SWITCHES = ("training", "is_augment", "is_normalize")
MAPS = [f"labels_{extent}" for extent in (159, 79, 39, 19, 9)]
VARIANTS = pytest.mark.xdist_group("variants")  # where they are made once

sys.path.insert(0, str(EXAMPLE))
cv2 = pytest.importorskip("cv2")
import face  # noqa: E402
import face_labels  # noqa: E402
import resizing  # noqa: E402
from variants import face_pipeline  # noqa: E402


# The label rule.


def marked(maps, channel):
    """(map, row, column) of every location where `channel` is 1."""
    return [(k, int(i), int(j)) for k, one in enumerate(maps) for i, j in np.argwhere(one[..., channel] == 1)]


def masked(maps):
    return [(k, int(i), int(j)) for k, one in enumerate(maps) for i, j in np.argwhere(one[..., :2].sum(axis=2) == 0)]


def test_without_faces_every_location_is_negative():
    maps = face_labels.label_maps(np.zeros((0, 4), np.float32))
    assert [one.shape for one in maps] == [(v, v, 6) for v in (159, 79, 39, 19, 9)]
    for one in maps:
        assert one.dtype == np.float32
        assert np.all(one[..., 1] == 1)
        assert not np.any(one[..., [0, 2, 3, 4, 5]])


def test_a_face_marks_the_locations_in_its_box():
    # 12 wide and 8 high: map 0, whose points are 3, 7, 11, ... (4 x (j + 1) - 1).
    maps = face_labels.label_maps([[11, 20, 23, 28]])
    assert marked(maps, 0) == [(0, 5, 2), (0, 5, 3), (0, 5, 4), (0, 6, 2), (0, 6, 3), (0, 6, 4)]
    assert masked(maps) == []
    # Row 5 looks at y = 23, column 3 at x = 15: the box begins 4 to the left and 3 above; 5 strides are 20.
    assert maps[0][5, 3].tolist() == np.array([1, 0, -4 / 20, -3 / 20, 8 / 20, 5 / 20], np.float32).tolist()
    assert maps[0][6, 2].tolist() == np.array([1, 0, 0, -7 / 20, 12 / 20, 1 / 20], np.float32).tolist()
    assert maps[0][5, 5].tolist() == [0, 1, 0, 0, 0, 0]  # x = 23, the first behind the box


@pytest.mark.parametrize("k, size", [(0, 10), (0, 17), (1, 25), (2, 50), (3, 100), (4, 160), (4, 319)])
def test_each_map_looks_after_its_sizes(k, size):
    stride = 4 << k
    maps = face_labels.label_maps([[100, 110, 100 + size, 110 + size / 2]])
    points = stride * np.arange(1, 160) - 1
    assert marked(maps, 0) == [
        (k, i, j)
        for i in range(face_labels.EXTENTS[k]) if 110 <= points[i] < 110 + size / 2
        for j in range(face_labels.EXTENTS[k]) if 100 <= points[j] < 100 + size
    ] != []
    own = maps[k][maps[k][..., 0] == 1]
    assert np.all(own[:, 1] == 0)
    np.testing.assert_allclose((own[:, 4] - own[:, 2]) * 5 * stride, size, rtol=1e-6)
    np.testing.assert_allclose((own[:, 5] - own[:, 3]) * 5 * stride, size / 2, rtol=1e-6)


@pytest.mark.parametrize("size, owner, near", [
    (8.9, [], []), (9, [], [0]), (9.9, [], [0]),
    (17.9, [0], []), (18, [0], [1]), (19.9, [0], [1]), (20, [1], [0]), (21.9, [1], [0]), (22, [1], []),
    (36, [1], [2]), (40, [2], [1]), (44, [2], []), (144, [3], [4]), (160, [4], [3]), (176, [4], []),
    (319, [4], []), (320, [], [4]), (351, [], [4]), (352, [], []),
])
def test_between_two_maps_the_other_one_is_masked(size, owner, near):
    maps = face_labels.label_maps([[64, 64, 64 + size, 64 + size]])
    assert sorted({k for k, _, _ in marked(maps, 0)}) == owner
    assert sorted({k for k, _, _ in masked(maps)}) == near
    for k in near:
        points = (4 << k) * np.arange(1, face_labels.EXTENTS[k] + 1) - 1
        inside = (points >= 64) & (points < np.float32(64 + size))
        assert np.array_equal(maps[k][..., 1] == 0, np.outer(inside, inside))
        assert not np.any(maps[k][..., 2:])


def test_where_faces_meet_the_location_is_masked():
    maps = face_labels.label_maps([[0, 0, 16, 16], [8, 0, 24, 16]])
    first, both, second = [0, 1], [2, 3], [4, 5]  # columns whose points are 3, 7 | 11, 15 | 19, 23
    assert marked(maps, 0) == [(0, i, j) for i in range(4) for j in first + second]
    assert masked(maps) == [(0, i, j) for i in range(4) for j in both]
    assert not np.any(maps[0][:, both, 2:])
    assert maps[0][0, 4, 2] == np.float32((8 - 19) / 20)  # of the second box
    # A face that is nearly of the map's size masks another's locations, too; a large one does not.
    maps = face_labels.label_maps([[0, 0, 16, 16], [8, 0, 29, 16]])
    assert {location for location in masked(maps) if location[0] == 0} == {
        (0, i, j) for i in range(4) for j in range(2, 7)}
    maps = face_labels.label_maps([[0, 0, 16, 16], [8, 0, 108, 100]])
    assert [location for location in masked(maps) if location[0] == 0] == []


def test_random_boxes_follow_the_written_rule():
    """One location at a time, as the rule says it."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        corners = rng.uniform(-20, 600, (6, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(5, 200, (6, 2))], axis=1).astype(np.float32)
        maps = face_labels.label_maps(boxes)
        for k in range(1, 5):
            stride = 4 << k
            for i in range(640 // stride - 1):
                for j in range(640 // stride - 1):
                    x, y = np.float32(stride * (j + 1) - 1), np.float32(stride * (i + 1) - 1)
                    expected, claims = [0, 0, 0, 0, 0, 0], 0
                    for x1, y1, x2, y2 in boxes:
                        size = max(x2 - x1, y2 - y1)
                        if x1 <= x < x2 and y1 <= y < y2 and 2.25 * stride <= size < 5.5 * stride:
                            claims += 1
                            if 2.5 * stride <= size < 5 * stride:
                                expected = [1, 0, *(np.float32([x1 - x, y1 - y, x2 - x, y2 - y]) / np.float32(5 * stride))]
                    if claims != 1:
                        expected = [0, claims == 0, 0, 0, 0, 0]
                    assert maps[k][i, j].tolist() == np.float32(expected).tolist(), (k, i, j)


# Pictures and their boxes.


class Spy:
    """A generator that notes what was drawn."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.uniforms = []
        self.calls = 0

    def __getattr__(self, name):
        self.calls += 1
        return getattr(self._rng, name)

    def uniform(self, *arguments, **more):
        self.calls += 1
        drawn = self._rng.uniform(*arguments, **more)
        self.uniforms.append((arguments, drawn))
        return drawn


def picture(width, height, boxes):
    """Gray, with a red rectangle where each box is."""
    image = np.full((height, width, 3), 60, np.uint8)
    for x1, y1, x2, y2 in np.asarray(boxes, int):
        image[y1:y2, x1:x2] = (200, 60, 60)
    return image


def redness(image):
    return image[..., 0].astype(int) - image[..., 1]


@pytest.mark.parametrize("width, height, boxes", [
    (400, 300, [[100, 120, 190, 200]]),
    (1200, 900, [[10, 20, 50, 70], [700, 400, 1190, 890]]),
    (300, 800, [[0, 0, 40, 50], [200, 700, 300, 800]]),
])
def test_boxes_move_with_their_faces(width, height, boxes):
    image = picture(width, height, boxes)
    kept = 0
    for seed in range(40):
        out, moved, *maps = face.process_img(image, np.float32(boxes), np.random.default_rng(seed))
        assert out.shape == (640, 640, 3) and out.dtype == np.uint8
        assert moved.dtype == np.float32 and np.all((moved >= 0) & (moved <= 640))
        assert len(moved) >= 1  # the face that was chosen stays
        red = redness(out) > 40
        for x1, y1, x2, y2 in moved:
            inner = red[int(y1) + 4 : int(y2) - 4, int(x1) + 4 : int(x2) - 4]
            assert np.all(inner)
            for strip in (red[int(y1) + 4 : int(y2) - 4, max(0, int(x1) - 4) : max(0, int(x1) - 3)],
                          red[max(0, int(y1) - 4) : max(0, int(y1) - 3), int(x1) + 4 : int(x2) - 4]):
                assert not np.any(strip)
        for one, expected in zip(maps, face_labels.label_maps(moved)):
            assert np.array_equal(one, expected)
        kept += sum(int(np.any(one[..., 0])) for one in maps)
    assert kept >= 38  # a size at the end of a range may be rounded out of it


def test_augmented_faces_get_every_size_and_side():
    image, boxes = picture(500, 400, [[150, 100, 250, 220]]), np.float32([[150, 100, 250, 220]])
    maps, left, bright = set(), 0, set()
    for seed in range(200):
        out, moved, *labels = face.process_img(image, boxes, np.random.default_rng(seed))
        maps |= {k for k, one in enumerate(labels) if np.any(one[..., 0])}
        [box] = moved
        left += box[0] + box[2] < 640
        bright.add(int(out[int(box[1] + box[3]) // 2, int(box[0] + box[2]) // 2, 0]))
    assert maps == {0, 1, 2, 3, 4}
    assert 60 < left < 140
    assert len(bright) > 50


def test_pictures_are_mirrored_half_of_the_time():
    box = [100, 100, 200, 200]
    image = picture(400, 300, [box])
    image[100:200, 150:200] = (60, 60, 200)  # its right half is blue
    mirrored = 0
    for seed in range(100):
        out, [moved], *_ = face.process_img(image, np.float32([box]), np.random.default_rng(seed))
        middle, quarter = int(moved[1] + moved[3]) // 2, int(moved[2] - moved[0]) // 4
        red_left = redness(out)[middle, int(moved[0]) + quarter] > 40
        assert red_left != (redness(out)[middle, int(moved[2]) - quarter] > 40)
        mirrored += not red_left
    assert 30 < mirrored < 70


def test_negatives_are_scaled_and_nothing_else():
    image = picture(200, 150, [])
    image[:, :, 1] = 90
    seen = []
    for seed in range(100):
        spy = Spy(seed)
        out, boxes, *maps = face.process_img(image, np.zeros((0, 4), np.float32), spy, is_augment=bool(seed % 2))
        [((low, high), scale)] = spy.uniforms
        assert (low, high) == (0.5, 3.5)
        seen.append(scale)
        assert len(boxes) == 0
        assert all(np.all(one[..., 1] == 1) for one in maps)
        lit = np.argwhere(out.any(axis=2))
        height, width = lit.max(axis=0) - lit.min(axis=0) + 1
        assert width == min(640, round(200 * scale)) and height == min(640, round(150 * scale))
        assert np.all(out[out.any(axis=2)] == (60, 90, 60))  # no change of colour
    assert min(seen) < 0.6 and max(seen) > 3.4


def test_what_is_seen_and_where_it_lies_is_random():
    image = np.empty((700, 900, 3), np.uint8)
    image[..., 0] = 1 + np.arange(900) // 4
    image[..., 1:] = 1
    no_boxes = np.zeros((0, 4), np.float32)
    parts = {int(face.place(image, no_boxes, 1, np.random.default_rng(seed))[0][0, 0, 0]) for seed in range(50)}
    assert len(parts) > 20 and max(parts) - min(parts) > 40
    corners = set()
    for seed in range(50):
        out, _ = face.place(image, no_boxes, 0.5, np.random.default_rng(seed))
        corners.add(tuple(np.argwhere(out[..., 1])[0].tolist()))
    for axis in (0, 1):
        assert len({corner[axis] for corner in corners}) > 20


def test_without_its_switch_a_picture_comes_whole():
    box = np.float32([[100, 60, 200, 160]])
    image = picture(400, 300, box)
    for training in (False, True):
        spy = Spy(1)
        out, moved, *_ = face.process_img(image, box, spy, training=training, is_augment=False)
        assert spy.calls == 0
        assert moved.tolist() == [[160, 96, 320, 256]]
        assert np.array_equal(out[:480], cv2.resize(image, (640, 480)))
        assert not np.any(out[480:])
    for is_augment in (False, True):
        spy = Spy(1)
        out, *_ = face.process_img(image, np.zeros((0, 4), np.float32), spy, training=False, is_augment=is_augment)
        assert spy.calls == 0 and np.array_equal(out[:480], cv2.resize(image, (640, 480)))


def test_faces_are_augmented_outside_of_training_too():
    box = np.float32([[100, 60, 200, 160]])
    image = picture(400, 300, box)
    one, other = (face.process_img(image, box, np.random.default_rng(4), training=training) for training in (True, False))
    assert all(np.array_equal(a, b) for a, b in zip(one, other))
    assert one[1].tolist() != [[160, 96, 320, 256]]


def test_faces_that_are_mostly_outside_are_dropped():
    frame = np.array([0, 0, 640, 640])
    boxes = np.array([[-40, 0, 60, 100], [-60, 0, 40, 100], [600, 600, 620, 620], [-50, -50, -10, -10]], float)
    assert face.visible(boxes, frame).tolist() == [[0, 0, 60, 100], [600, 600, 620, 620]]


# The specs, by a service.


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """A copy of the example's specs, with `faces` beside them as its README says."""
    folder = tmp_path_factory.mktemp("face")
    subprocess.run([BIN / "bulkhead", "synth", folder / "faces", "--schema", "face", "--count", "80", "--size", "120x90..300x200"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for spec in EXAMPLE.glob("*.yaml"):
        shutil.copy(spec, folder)
    return folder


@pytest.fixture(scope="module")
def target(specs):
    service = Service(specs, "--root", specs, "--python", PYTHON, "--python-path", EXAMPLE, "--workers", 2)
    yield service.target
    assert service.stop() == 0


def take(spec, target, batches):
    with bulkhead.Loader(spec, target, timeout=120) as loader:
        stream = loader.stream()
        return [{name: np.array(batch[name]) for name in batch} for batch, _ in zip(stream, range(batches))]


@pytest.mark.parametrize("is_augment", [True, False])
def test_training_batches_are_what_the_example_says(specs, target, is_augment):
    pipeline = face_pipeline(str(specs / "faces"), is_augment=is_augment)
    with bulkhead.Loader(pipeline, target) as loader:
        assert [(one.name, one.dtype_name, one.shape) for one in loader.schema] == [("image", "uint8", (640, 640, 3))] + [
            (f"labels_{v}", "float32", (v, v, 6)) for v in (159, 79, 39, 19, 9)]
        assert loader.batch_size == 16
        assert next(loader.stream())["image"].shape == (16, 640, 640, 3)
    batches = take(pipeline.outputs("bbox", "label", "source_id", *MAPS), target, 10)
    drawn = np.concatenate([batch["source_id"] for batch in batches])
    assert np.count_nonzero(drawn == 1) == 16  # one in ten of 160
    for batch in batches:
        for s in range(16):
            boxes = batch["bbox"][s, : batch["bbox_count"][s]]
            assert (len(boxes) > 0) == (batch["source_id"][s] == 0) == (batch["label"][s] == 1)
            for map_name, expected in zip(MAPS, face_labels.label_maps(boxes)):
                assert np.array_equal(batch[map_name][s], expected)
    positives = sum(int(batch[map_name][..., 0].any(axis=(1, 2)).sum()) for batch in batches for map_name in MAPS)
    assert positives > 100


@pytest.fixture(scope="module")
def variants(specs, target):
    """Ten samples of each: {(training, is_augment, is_normalize): outputs}, `label` among them."""
    made = {}
    for switches in [*itertools.product((False, True), (False, True), (False,)), (False, False, True), (True, True, True)]:
        pipeline = face_pipeline(str(specs / "faces"), **dict(zip(SWITCHES, switches)))
        if not switches[0]:
            pipeline = pipeline.skip(35).take(10)  # the last without faces, the first with
        [made[switches]] = take(pipeline.outputs("label", "image", *MAPS).batch(10), target, 1)
    return made


def equal_samples(one, other, names=("image", *MAPS)):
    """Of each sample, whether all these outputs are equal."""
    return np.all([(one[name] == other[name]).reshape(10, -1).all(axis=1) for name in names], axis=0).tolist()


@VARIANTS
def test_normalization_changes_the_values_of_the_image_alone(variants):
    for on in (False, True):
        plain, normalized = (variants[on, on, is_normalize] for is_normalize in (False, True))
        assert (plain["image"].dtype, normalized["image"].dtype) == (np.uint8, np.float32)
        assert normalized["image"].min() == -1 and 0.5 < normalized["image"].max() <= 1
        np.testing.assert_allclose(normalized["image"], plain["image"] / np.float32(127.5) - 1, atol=1e-6)
        assert all(equal_samples(plain, normalized, ["label", *MAPS]))


@VARIANTS
def test_augmentation_changes_pictures_with_faces_alone(variants):
    for training in (False, True):
        plain, augmented = (variants[training, is_augment, False] for is_augment in (False, True))
        assert 0 < np.count_nonzero(plain["label"]) < 10
        assert equal_samples(plain, augmented) == [label == 0 for label in augmented["label"]]
        assert equal_samples(plain, augmented, ["label"]) == [True] * 10


def is_whole(image):
    """Whether a picture lies at the upper left, its longer side 640 pixels; the drawn ones have hardly a black pixel."""
    lit = np.argwhere(image.any(axis=2))
    return lit.min() == 0 and lit.max() == 639 and np.mean(image[: lit[:, 0].max() + 1, : lit[:, 1].max() + 1].any(axis=2)) > 0.98


@VARIANTS
def test_training_scales_pictures_without_faces_at_random(variants):
    for training in (False, True):
        batch = variants[training, False, False]
        assert all(is_whole(image) for image in batch["image"][batch["label"] == 1])
        assert all(is_whole(image) for image in batch["image"][batch["label"] == 0]) == (not training)


def test_training_mixes_forever_and_else_every_picture_comes_once(specs):
    for is_augment, is_normalize in itertools.product((False, True), repeat=2):
        training, not_training = (
            face_pipeline(training=training, is_augment=is_augment, is_normalize=is_normalize).to_dict()
            for training in (True, False))
        assert [part["weight"] for part in training["source"]["mixture"]["sources"]] == [0.9, 0.1]
        assert "epochs" not in training and not_training["epochs"] == 1
        assert not_training["source"]["tfrecord"]["files"] == ["faces/pos-*.tfrecord", "faces/neg-*.tfrecord"]
        assert not_training["outputs"] == [*training["outputs"], "bbox", "label"]


def test_the_files_are_two_of_the_variants():
    """What stands twice does not drift apart."""
    for name, switches in (("train", (True, True, False)), ("validate", (False, False, True))):
        assert bulkhead.Pipeline.from_yaml((EXAMPLE / f"{name}.yaml").read_text()) == face_pipeline(**dict(zip(SWITCHES, switches)))


@pytest.mark.parametrize("words, switches", [
    ([], (True, True, False)), (["--no-augment"], (True, False, False)), (["--normalize"], (True, True, True)),
    (["--no-training", "--no-normalize"], (False, True, False)),
])
def test_the_program_writes_a_variant(words, switches):
    said = subprocess.run(
        [sys.executable, EXAMPLE / "variants.py", "--faces", "/faces", *words], env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)},
        stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    assert bulkhead.Pipeline.from_yaml(said) == face_pipeline("/faces", **dict(zip(SWITCHES, switches)))


def test_training_goes_on_forever(specs, target):
    with bulkhead.Loader(specs / "train.yaml", target) as loader:
        loader.set_epoch(1_000_000)
        epochs = [batch.epoch for batch, _ in zip(loader.stream(), range(loader.batches_per_epoch + 1))]
    assert epochs[0] == 1_000_000 and epochs[-1] == 1_000_001


def test_validation_reads_every_picture_once_and_whole(specs, target):
    batches = take(specs / "validate.yaml", target, 100)
    assert [len(batch["label"]) for batch in batches] == [16] * 5
    assert np.concatenate([batch["label"] for batch in batches]).tolist() == [0] * 40 + [1] * 40  # neg-* sorts before pos-*
    for batch in batches:
        assert batch["image"].dtype == np.float32
        assert batch["image"].min() == -1 and 0.5 < batch["image"].max() <= 1
        for s in range(16):
            lit = np.argwhere((batch["image"][s] > -1).any(axis=2)).max(axis=0) + 1
            assert lit.max() == 640
            for map_name, expected in zip(MAPS, face_labels.label_maps(batch["bbox"][s, : batch["bbox_count"][s]])):
                assert np.array_equal(batch[map_name][s], expected)


def test_the_same_batches_come_from_any_number_of_workers(specs, target, tmp_path):
    alone = Service(tmp_path, "--root", specs, "--python", PYTHON, "--python-path", EXAMPLE, "--workers", 1)
    try:
        for one, other in zip(take(specs / "train.yaml", target, 3), take(specs / "train.yaml", alone.target, 3)):
            assert all(np.array_equal(one[name], other[name]) for name in one)
    finally:
        alone.stop()


# What a resize costs.


def test_both_ways_of_resizing_give_the_same_picture():
    rng = np.random.default_rng(5)
    image = cv2.GaussianBlur(rng.integers(0, 256, (480, 400, 3), dtype=np.uint8), (0, 0), 3)
    one, other = (way(image).astype(int) for way in (resizing.opencv, resizing.numpy_float64))
    assert one.shape == other.shape == (640, 640, 3)
    # At the border OpenCV repeats the outermost pixels where scikit-image mirrors.
    assert np.abs(one - other)[1:-1, 1:-1].max() <= 1


def test_resizing_as_scikit_image_does_smooths_what_shrinks():
    stripes = np.zeros((8, 66, 1), np.uint8)
    stripes[:, ::2] = 255
    small = resizing.resize_float64(stripes, 8, 22)
    assert small.dtype == np.float64 and small.shape == (8, 22, 1)
    assert np.abs(small - 0.5).max() < 0.02  # every third pixel alone would be 0 or 1
    row = np.zeros((1, 30, 1), np.uint8)
    row[0, 15] = 255
    spread = resizing.resize_float64(row, 1, 10)[0, :, 0]
    # Sigma is (3 - 1) / 2 = 1; the new pixels look at the places 1, 4, 7, ...
    weights = np.exp(-0.5 * np.arange(-4, 5) ** 2.0)
    assert spread[[4, 5, 6]] == pytest.approx(weights[[2, 5, 8]] / weights.sum(), abs=1e-12)


def test_explain_shows_what_a_resize_costs(specs, folder):
    said = tool("explain", "--spec", specs / "resize_cost.yaml", "--python", PYTHON, "--python-path", EXAMPLE, "--samples", 8)
    times, shares = [], []
    for stage, feature in (("stages[1] python", "by_scikit_image"), ("stages[2] python", "by_opencv"), ("stages[3] resize", "image")):
        [line] = [line for line in said.splitlines() if line.strip().startswith(stage)]
        assert feature in line.split()
        times.append(float(re.search(r" ([\d.]+) ms\b", line)[1]))
        shares.append(int(re.search(r" (\d+)%", line)[1]))
    # Ratios within one run, a tenth of the usual ones: nothing but other code makes such a difference.
    assert min(times) > 0
    assert times[0] > 5 * max(times[1:])
    assert shares[0] > 5 * max(shares[1:])
