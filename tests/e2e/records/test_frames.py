"""`frames`: windows of consecutive images as samples, whose random stages treat all frames alike, whoever made them and wherever they overlap."""

import subprocess

import cv2
import numpy as np
import pytest

import bulkhead
from bulkhead import errors
from conftest import BIN, tool, write_spec

CLIPS = {"a": 12, "b": 2, "c": 7}
JOIN = {"concat": {"inputs": "image", "output": "image"}}
AUGMENTED = ["decode_image", {"random_resized_crop": {"size": 24}}, "random_horizontal_flip", {"color_jitter": {"contrast": 0.4}}, JOIN]
NCHW = [*AUGMENTED, {"normalize": {"divide": 127.5, "subtract": 1}}, {"layout": {"to": "nchw"}}]


@pytest.fixture
def clips(folder):
    """Noise, of which every frame is another; as JPEG, so that not all bytes of a file decide each pixel."""
    random = np.random.default_rng(5)
    for clip, frames in CLIPS.items():
        (folder / "clips" / clip).mkdir(parents=True)
        for i in range(frames):
            small = random.integers(0, 256, (9, 12, 3), np.uint8)
            cv2.imwrite(str(folder / f"clips/{clip}/{i:03}.jpg"), cv2.resize(small, (72, 54), interpolation=cv2.INTER_CUBIC))
    return folder


def spec_of(folder, window=3, stride=1, **more):
    source = {"image_folder": {"path": "clips", "unlabeled": True, **({"frames": {"window": window, "stride": stride}} if window else {})}}
    return write_spec(folder / "spec.yaml", **{"source": source, "stages": NCHW, "batch": {"size": 5}, "epochs": 2, "seed": 9, **more})


def names(batches):
    return [path.decode() for batch in batches for path in batch["path"]]


def taken(folder, **more):
    """Names and images of all batches of all epochs."""
    with bulkhead.Loader(spec_of(folder, **more)) as loader:
        batches = [{name: np.array(batch[name]) for name in ("path", "image")} for batch in loader.stream()]
    return names(batches), np.concatenate([batch["image"] for batch in batches])


def test_windows_stay_within_a_folder(clips):
    with bulkhead.Loader(spec_of(clips, epochs=1)) as loader:
        assert names(loader) == [f"a/{i:03}.jpg" for i in range(10)] + [f"c/{i:03}.jpg" for i in range(5)]
    with bulkhead.Loader(spec_of(clips, window=2, stride=4, epochs=1)) as loader:
        assert names(loader) == [f"a/{i:03}.jpg" for i in (0, 4, 8)] + ["b/000.jpg", "c/000.jpg", "c/004.jpg"]


def test_a_sample_has_the_pixels_of_its_frames(clips):
    resized = ["decode_image", {"resize": {"size": 24}}]
    paths, images = taken(clips, window=0, stages=resized)
    alone = dict(zip(paths, images))
    paths, images = taken(clips, stages=[*resized, JOIN, {"layout": {"to": "nchw"}}])
    assert images.shape == (30, 9, 24, 24)
    for path, image in zip(paths, images):
        for k in range(3):
            frame = f"{path[:2]}{int(path[2:5]) + k:03}.jpg"
            assert np.array_equal(image[3 * k : 3 * k + 3], alone[frame].transpose(2, 0, 1))


def test_random_stages_treat_all_frames_alike(clips):
    for path in (clips / "clips").rglob("*.jpg"):
        path.write_bytes((clips / "clips/a/000.jpg").read_bytes())
    _, images = taken(clips)
    assert images.shape == (30, 9, 24, 24) and images.dtype == np.float32
    assert np.array_equal(images[:, :3], images[:, 3:6]) and np.array_equal(images[:, :3], images[:, 6:])
    assert len({image.tobytes() for image in images}) == 30


@pytest.mark.parametrize("stages", [NCHW, ["decode_image", {"random_crop": {"size": 24}}, JOIN], ["decode_image", {"resize": {"size": 24}}, JOIN]])
def test_frames_that_samples_share_change_no_byte(clips, stages):
    """A sample alone in its batch shares none; in a lease of many it takes most frames from the sample before."""
    paths, images = taken(clips, stages=stages, batch={"size": 15})
    assert (paths, images.tobytes()) == (lambda one: (one[0], one[1].tobytes()))(taken(clips, stages=stages, batch={"size": 1}))


def test_shuffled_windows_are_the_same_samples(clips):
    resized = ["decode_image", {"resize": {"size": 24}}, JOIN]
    paths, images = taken(clips, stages=resized, epochs=1)
    shuffled, others = taken(clips, stages=resized, epochs=1, order={"global": {}})
    assert shuffled != paths and sorted(shuffled) == sorted(paths)
    wanted = dict(zip(paths, images))
    assert all(np.array_equal(wanted[path], image) for path, image in zip(shuffled, others))


def test_a_stream_goes_on_where_it_stopped(clips):
    spec = spec_of(clips, order={"global": {}})
    with bulkhead.Loader(spec) as loader:
        stream = loader.stream()
        wanted = [(names([batch]), batch["image"].tobytes(), batch.cursor) for batch in stream]
    with bulkhead.Loader(spec, cursor=wanted[1][2]) as loader:
        rest = [(names([batch]), batch["image"].tobytes(), batch.cursor) for batch in loader.stream()]
    assert rest == wanted[2:]
    assert sorted(path for paths, _, _ in wanted[:3] for path in paths) == sorted(path for paths, _, _ in wanted[3:] for path in paths)


def test_other_windows_are_another_order(clips):
    with bulkhead.Loader(spec_of(clips)) as loader:
        cursor = next(loader.stream()).cursor
    with pytest.raises(errors.BulkheadError, match="CURSOR_MISMATCH|the cursor belongs to other data"):
        bulkhead.Loader(spec_of(clips, stride=2), cursor=cursor)


def test_a_split_keeps_a_folder_in_one_part(clips):
    parts = []
    for use in ("train", "test"):
        with bulkhead.Loader(spec_of(clips, epochs=1, window=2, split={"parts": {"train": 0.5, "test": 0.5}, "use": use, "salt": 1})) as loader:
            parts.append(names(loader))
    assert len(parts[0]) + len(parts[1]) == 11 + 1 + 6
    assert not {path[0] for path in parts[0]} & {path[0] for path in parts[1]}


def test_a_damaged_frame_is_named_with_its_windows(clips):
    damaged = clips / "clips/c/003.jpg"
    damaged.write_bytes(damaged.read_bytes()[:300])
    with pytest.raises(errors.DataError, match=r"c/001\.jpg: `image/2`: stages\[0\] decode_image"):
        taken(clips)
    for shared in (15, 1):
        paths, _ = taken(clips, batch={"size": shared}, epochs=1, errors={"policy": "substitute", "max_fraction": 1})
        assert len(paths) == 15 and not {f"c/{i:03}.jpg" for i in (1, 2, 3)} & set(paths)
    good = clips / "good.yaml"
    subprocess.run([BIN / "bulkhead", "scan", spec_of(clips), "--write-spec", good], capture_output=True, timeout=120)
    assert "c/001.jpg" in good.read_text() and "c/003.jpg" in good.read_text() and "c/004.jpg" not in good.read_text()


def test_tools_count_and_show_windows(clips):
    spec = spec_of(clips, batch={"size": 15})
    said = tool("validate", spec, "--data")
    assert "15 of 21 records: windows of 3 begin at 15 of them" in said
    said = tool("explain", spec)
    assert "image/2" in said and "[9,24,24]" in said
    _, images = taken(clips, stages=[*AUGMENTED], epochs=1)
    subprocess.run([BIN / "bulkhead", "preview", "--spec", spec_of(clips, stages=AUGMENTED), "--out", clips / "sheet.png", "--cell", "72"], check=True, stdout=subprocess.DEVNULL)
    sheet = cv2.imread(str(clips / "sheet.png"))
    panes = np.concatenate([images[4, ..., 3 * k : 3 * k + 3] for k in range(3)], axis=1)[:, :, ::-1].copy()
    _, _, (left, top), _ = cv2.minMaxLoc(cv2.matchTemplate(sheet, panes, cv2.TM_SQDIFF))
    assert np.array_equal(sheet[top : top + 24, left : left + 72], panes)
    subprocess.run([BIN / "bulkhead", "preview", "--spec", spec, "--out", clips / "stages.png", "--stages", "--samples", "2"], check=True, stdout=subprocess.DEVNULL)


def test_no_window_is_an_error_that_says_so(clips):
    with pytest.raises(errors.BulkheadError, match="no folder has 13 images in a row"):
        bulkhead.Loader(spec_of(clips, window=13))


def test_lines_of_a_list_make_windows(clips):
    lines = [f"clips/a/{i:03}.jpg clips/c/{i:03}.jpg {i}" for i in (5, 3, 4, 0)]
    source = {"image_list": {"entries": lines, "images": ["left", "right"], "frames": {"window": 2}}}
    join = {"concat": {"inputs": ["left", "right"], "output": "image"}}
    stages = [*({name: {"input": side, **more}} for side in ("left", "right") for name, more in (("decode_image", {}), ("resize", {"size": 16}))), join]
    with bulkhead.Loader(spec_of(clips, source=source, stages=stages, epochs=1)) as loader:
        [batch] = loader
        assert batch["label"].tolist() == [5, 3, 4] and batch["image"].shape == (3, 16, 16, 12)
        assert np.array_equal(batch["image"][0, ..., 3:6], batch["image"][1, ..., :3])
        assert np.array_equal(batch["image"][1, ..., 9:], batch["image"][2, ..., 6:9])
