"""`bulkhead preview`: the picture shows what a trainer gets."""

import json
import subprocess

import cv2
import numpy as np
import pytest

import bulkhead
from conftest import BIN, HERE, PYTHON, tool, write_spec
from escaping_stages import python_stage, refusal_in

GAP, LINE, SIDE = 8, 18, 192
PAPER = (27, 24, 24)  # as BGR


def preview(spec, out, *more, check=True):
    return subprocess.run(
        [BIN / "bulkhead", "preview", "--spec", spec, "--out", out, *map(str, more)],
        check=check, capture_output=True, text=True, timeout=120,
    )


def crop_spec(photos, folder, *stages):
    return write_spec(
        folder / "crops.yaml",
        source={"image_folder": {"path": str(photos / "folder")}},
        stages=["decode_image", {"random_resized_crop": {"size": [32, 32]}}, *stages],
        batch={"size": 8},
        order={"global": {}},
    )


def holds(sheet, image):
    """Whether the RGB image is part of the sheet, pixel by pixel."""
    wanted = image[:, :, ::-1].copy()
    _, _, (left, top), _ = cv2.minMaxLoc(cv2.matchTemplate(sheet, wanted, cv2.TM_SQDIFF))
    return np.array_equal(sheet[top : top + wanted.shape[0], left : left + wanted.shape[1]], wanted)


def test_the_sheet_shows_the_very_pixels_of_that_place(photos, folder):
    spec = crop_spec(photos, folder)
    with bulkhead.Loader(spec) as loader:
        loader.set_epoch(1)
        images = np.concatenate([np.array(loader.next_batch()["image"]) for _ in range(3)])
    said = preview(spec, folder / "sheet.png", "--epoch", 1, "--start", 5, "--samples", 11, "--cell", 32)
    assert "11 samples" in said.stdout
    sheet = cv2.imread(str(folder / "sheet.png"))
    assert [holds(sheet, image) for image in images[5:16]] == [True] * 11
    assert not holds(sheet, images[4]) and not holds(sheet, images[16])


def test_with_stages_every_column_is_what_that_stage_makes(photos, folder):
    spec = crop_spec(photos, folder, "random_horizontal_flip", {"normalize": {"divide": 255}})
    preview(spec, folder / "stages.png", "--stages", "--samples", 4, "--cell", 32)
    sheet = cv2.imread(str(folder / "stages.png"))
    assert sheet.shape[1] == GAP + 4 * (32 + GAP), "decode, crop, flip and normalize"
    with bulkhead.Loader(crop_spec(photos, folder, "random_horizontal_flip")) as loader:
        flipped = np.array(loader.next_batch()["image"])[:4]
    with bulkhead.Loader(crop_spec(photos, folder)) as loader:
        cropped = np.array(loader.next_batch()["image"])[:4]
    columns = [sheet[:, GAP + i * (32 + GAP) :][:, : 32 + GAP] for i in range(4)]
    assert all(holds(columns[1], image) for image in cropped)
    assert all(holds(columns[2], image) for image in flipped)
    assert not np.array_equal(cropped, flipped)


def test_the_values_behind_a_stage_are_those_of_the_image_not_of_its_thumbnail(photos, folder):
    """Whose bars are black, and which are averages of several pixels."""
    folder.joinpath("set").mkdir()
    rng = np.random.default_rng(1)
    images = [rng.integers(90, 110, (size, 300, 3), dtype=np.uint8) for size in (100, 200)]
    for number, image in enumerate(images):
        image[0, 0], image[-1, -1] = 50, 250
        cv2.imwrite(str(folder / f"set/{number}.png"), image)
    spec = write_spec(folder / "spec.yaml", source={"image_folder": {"path": "set", "unlabeled": True}},
                      stages=["decode_image", "random_horizontal_flip", {"resize": {"size": 32}}], batch={"size": 2})
    said = preview(spec, folder / "stages.png", "--stages", "--samples", 2, "--cell", 32).stdout
    values = np.concatenate([image.ravel() for image in images])
    for title in ("decode_image", "random_horizontal_flip"):
        assert f"behind {title}: image uint8 [any,any,3]  min 50  max 250  mean " in said
    told = json.loads(preview(spec, folder / "stages.png", "--stages", "--samples", 2, "--cell", 32, "--json").stdout)["stages"]
    assert [stage["stage"] for stage in told] == ["decode_image", "random_horizontal_flip", "resize"]
    [decoded] = told[0]["outputs"]
    assert (decoded["min"], decoded["max"]) == (50, 250) and decoded["mean"] == pytest.approx(values.mean(), rel=1e-5)
    assert not told[0]["as_drawn"] and told[2]["outputs"][0]["type"] == "uint8 [32,32,3]"


def test_the_values_of_every_output_are_printed(photos, folder):
    spec = crop_spec(photos, folder, {"normalize": {"mean": 100, "std": 50}})
    with bulkhead.Loader(spec) as loader:
        batch = loader.next_batch()
        image, label = np.array(batch["image"])[:4], np.array(batch["label"])[:4]
    said = preview(spec, folder / "sheet.png", "--samples", 4, "--cell", 32).stdout
    lines = dict(line.split(maxsplit=1) for line in said.split("\n") if "  min " in line)
    values = {name: [float(word) for word in line.split("min ")[1].split()[::2]] for name, line in lines.items()}
    assert values["image"] == pytest.approx([image.min(), image.max(), image.mean()], rel=1e-4, abs=1e-4)
    assert values["label"] == pytest.approx([label.min(), label.max(), label.mean()], rel=1e-4)
    assert f"image is drawn so that {image.min():.4g} is black and {image.max():.4g} white" in said


def test_floats_from_0_to_1_are_not_stretched(photos, folder):
    spec = crop_spec(photos, folder, {"normalize": {"divide": 255}})
    said = preview(spec, folder / "sheet.png", "--samples", 1, "--cell", 32).stdout
    assert "image is drawn so that 0 is black and 1 white\n" in said
    with bulkhead.Loader(crop_spec(photos, folder)) as loader:
        image = np.array(loader.next_batch()["image"])[0]
    sheet = cv2.imread(str(folder / "sheet.png"))
    assert holds(sheet, image)


def test_frames_in_nine_channels_are_drawn_side_by_side(photos, folder):
    numbers = {"name": "frames", "dtype": "uint8", "shape": [32, 32, 9]}
    spec = crop_spec(photos, folder, {"python": {"function": "user_functions:three_frames", "inputs": ["image"],
                                                 "outputs": [numbers]}})
    preview(spec, folder / "sheet.png", "--samples", 1, "--cell", 96, "--image", "frames", *CODE[:4])
    with bulkhead.Loader(crop_spec(photos, folder)) as loader:
        image = np.array(loader.next_batch()["image"])[0]
    sheet = cv2.imread(str(folder / "sheet.png"))
    assert holds(sheet, np.hstack([image, 255 - image, image[::-1]]))


def test_what_cannot_be_shown_is_refused_with_the_outputs(folder):
    spec = write_spec(folder / "numbers.yaml", source={"range": {"size": 100}}, batch={"size": 10})
    refused = preview(spec, folder / "sheet.png", check=False)
    assert refused.returncode == 1
    assert "no output looks like images; outputs: index" in refused.stderr
    assert not (folder / "sheet.png").exists()


def test_a_place_behind_the_epoch_is_refused(photos, folder):
    refused = preview(crop_spec(photos, folder), folder / "s.png", "--start", 150, check=False)
    assert refused.returncode == 1 and "positions 0 to 149" in refused.stderr


def test_declared_boxes_are_drawn_where_they_are(photos, folder):
    spec = write_spec(
        folder / "boxes.yaml",
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"image": {"bytes": {}}, "boxes": {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}}},
        stages=["decode_image", {"boxes": {"format": "xyxy"}}, {"resize": {"size": [64, 64]}}],
        batch={"size": 4},
    )
    with bulkhead.Loader(spec) as loader:
        batch = loader.next_batch()
        image, boxes = np.array(batch["image"][0]), np.array(batch["boxes"][0])[: int(batch["boxes_count"][0])]
    assert len(boxes) > 0
    preview(spec, folder / "sheet.png", "--samples", 1, "--cell", 64)
    sheet = cv2.imread(str(folder / "sheet.png"))[:, :, ::-1]
    cell = sheet[-64 - GAP - 3 * LINE :, GAP : GAP + 64]
    tops = [y for y in range(len(cell) - 63) if np.array_equal(cell[y : y + 64][image_mask(boxes)], image[image_mask(boxes)])]
    assert tops, "beside the boxes' lines the sheet shows the image"
    drawn = np.any(cell[tops[0] : tops[0] + 64] != image, axis=2)
    assert drawn.any(), "and lines where the boxes are"


def labelled_spec(photos, folder, first=1, outputs=("image", "boxes", "box_labels"), **more):
    """Boxes on images of SIDE pixels, numbered from `first` on."""
    numbers = {"name": "box_labels", "dtype": "int64", "shape": [-1], "max_count": 16}
    return write_spec(
        folder / f"labels{first}.yaml",
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"image": {"bytes": {}}, "boxes": {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}}},
        stages=["decode_image", {"boxes": {"format": "xyxy"}}, {"resize": {"size": [SIDE, SIDE]}},
                {"python": {"function": "user_functions:number_boxes", "inputs": ["boxes"], "outputs": [numbers],
                            "arguments": {"first": first}}}],
        batch={"size": 4}, outputs=list(outputs), **more,
    )


@pytest.mark.parametrize("sandbox, made", [("all", False), ("none", True)])
def test_the_workers_sandbox_holds_for_the_values_behind_stages(photos, folder, sandbox, made):
    python_stage(folder, "pass")
    image = {"name": "image", "dtype": "uint8", "shape": [32, 32, 3]}
    leaves = {"function": "escapes:leaves_a_file", "inputs": ["image"], "outputs": [image], "arguments": {"place": str(folder / "made")}}
    spec = write_spec(
        folder / "spec.json",
        source={"image_folder": {"path": str(photos / "folder")}},
        stages=["decode_image", {"resize": {"size": 32}}, {"python": leaves}, {"resize": {"shorter_side": 40}}, {"resize": {"size": 24}}],
        batch={"size": 4},
    )
    code = ["--python", PYTHON, "--python-path", folder / "code", "--sandbox", sandbox]
    said = json.loads(preview(spec, folder / "sheet.png", "--stages", "--samples", 2, "--json", *code).stdout)
    [behind] = [stage for stage in said["stages"] if stage["stage"] == "decode_image"]
    assert not behind["as_drawn"], "a process looked at the real values"
    assert (folder / "made").exists() == made


@pytest.mark.parametrize("what", ["socket.socket()", "open('/proc/1/status')"])
def test_a_stage_fails_in_preview_as_in_the_service(photos, folder, what):
    stage = python_stage(folder, what)
    spec = write_spec(folder / "spec.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=["decode_image", {"resize": {"size": 32}}, {**stage, "python": {**stage["python"], "inputs": ["label"]}}],
                      batch={"size": 4})
    code = ["--python", PYTHON, "--python-path", folder / "code"]
    refused = refusal_in(tool("stream", spec, *code, code=1))
    assert "the workers' sandbox denies" in refused
    assert refused == refusal_in(preview(spec, folder / "sheet.png", *code, check=False).stderr)
    preview(spec, folder / "sheet.png", "--sandbox", "none", *code)


CODE = ["--python", PYTHON, "--python-path", HERE, "--samples", 4, "--cell", SIDE]


def cells(sheet, rows=2, columns=2, titles=0):
    """The images of a sheet, row by row, whatever stands below them."""
    head = GAP + LINE * (1 + titles) + 4
    down, across = (sheet.shape[0] - head - GAP) // rows, SIDE + GAP
    return [sheet[head + y * down :, GAP + x * across :][:SIDE, :SIDE] for y in range(rows) for x in range(columns)]


def drawn(spec, out, *more):
    said = preview(spec, out, *CODE, *more)
    return cells(cv2.imread(str(out))), said.stdout


def tags_of(boxes, first):
    """Where labels from `first` on stand, by label: at the upper left corners, on the image, above or below their boxes
    or in the nearest row that has room where others stand there."""
    tags, taken = {}, []
    for label, (left, top, _, bottom) in enumerate(np.clip(boxes, -2, SIDE + 2), first):
        (width, above), below = cv2.getTextSize(str(label), cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
        width, height = width + 4, above + below + 4
        x, y = int(np.clip(np.rint(left), 0, SIDE - width)), int(np.clip(np.rint(top), 0, SIDE - height))
        rows = [y, int(np.rint(top)) - height, int(np.rint(bottom))]
        rows += [y + sign * far for far in range(1, SIDE - height + 1) for sign in (1, -1)]
        free = [row for row in rows if 0 <= row <= SIDE - height
                and not any(row < t + h and t < row + height and x < l + w and l < x + width for t, l, h, w in taken)]
        if free:
            taken.append((free[0], x, height, width))
            tags[label] = (slice(free[0], free[0] + height), slice(x, x + width))
    return tags


def glyphs_of(tag):
    """Where a tag is nearer to the letters' colour than to its own."""
    from_letters = np.abs(tag.astype(int) - PAPER).sum(axis=2)
    return 2 * from_letters < from_letters[0, 0]


def covered(tags):
    mask = np.zeros((SIDE, SIDE), int)
    for tag in tags.values():
        mask[tag] += 1
    return mask


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_labels_stand_at_their_boxes(photos, folder, packed):
    more = {"batch_stages": ["pack_rows"]} if packed else {}
    spec = labelled_spec(photos, folder, **more)
    plain, said = drawn(spec, folder / "plain.png", "--labels", "none")
    assert "`box_labels`" not in said
    value = json.loads(labelled_spec(photos, folder, first=9).read_text())
    value.update(stages=value["stages"][:-1], outputs=["image", "boxes"])
    with bulkhead.Loader(write_spec(folder / "boxes.json", **value)) as loader:
        batch = loader.next_batch()
        samples = [rows[:count].copy() for count, rows in zip(batch["boxes_count"], batch["boxes"])]
    assert sum(map(len, samples)) > 1
    glyphs = {}
    for first in (1, 3):
        labelled, said = drawn(labelled_spec(photos, folder, first, **more), folder / f"labels{first}.png")
        assert "`box_labels` at `boxes`" in said
        for image, bare, boxes in zip(labelled, plain, samples, strict=True):
            tags = tags_of(boxes, first)
            mask = covered(tags)
            assert mask.max() <= 1, "no label covers another"
            assert not np.any(np.any(image != bare, axis=2) & (mask == 0)), "nothing but tags is new"
            for label, tag in tags.items():
                if np.all(mask[tag] == 1):
                    glyphs.setdefault(label, set()).add(glyphs_of(image[tag]).tobytes())
    assert len(glyphs) > 1 and all(len(looks) == 1 for looks in glyphs.values()), "one look for each number"
    assert len({next(iter(looks)) for looks in glyphs.values()}) == len(glyphs), "and each has its own"


def test_names_of_classes_stand_at_boxes(photos, folder):
    spec = labelled_spec(photos, folder)
    names = folder / "names.txt"
    names.write_text("\n".join(str(number + 2) for number in range(30)))
    named, _ = drawn(spec, folder / "named.png", "--classes", names)
    numbered, _ = drawn(labelled_spec(photos, folder, first=3), folder / "numbered.png")
    plain, _ = drawn(spec, folder / "plain.png")
    assert all(np.array_equal(a, b) for a, b in zip(named, numbered, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(named, plain, strict=True))
    refused = preview(spec, folder / "s.png", *CODE, "--classes", folder / "missing.txt", check=False)
    assert refused.returncode == 1 and "missing.txt: cannot be opened" in refused.stderr


def test_names_of_classes_that_the_data_give_are_drawn(photos, folder):
    spec = crop_spec(photos, folder)
    with bulkhead.Loader(spec) as loader:
        names = loader.classes
    sheets = {}
    for kind, lines in (("given", names), ("other", [name[::-1] for name in names]), ("left out", None)):
        if lines is not None:
            (folder / "names.txt").write_text("\n".join(lines))
        preview(spec, folder / "sheet.png", "--samples", 2, *([] if lines is None else ["--classes", folder / "names.txt"]))
        sheets[kind] = (folder / "sheet.png").read_bytes()
    assert sheets["left out"] == sheets["given"] != sheets["other"]


def test_the_values_are_printed_as_json(photos, folder):
    said = json.loads(preview(crop_spec(photos, folder), folder / "sheet.png", "--samples", 4, "--json").stdout)
    assert said["samples"] == 4 and said["image"] == "image"
    outputs = {output["name"]: output for output in said["outputs"]}
    image = outputs["image"]
    assert image["type"] == "uint8 [32,32,3]" and 0 <= image["min"] < image["mean"] < image["max"] <= 255
    assert outputs["label"]["type"] == "int64 []"


def test_behind_each_stage_boxes_have_their_labels(photos, folder):
    spec = labelled_spec(photos, folder)
    value = json.loads(spec.read_text())
    value["stages"].append("random_horizontal_flip")
    spec.write_text(json.dumps(value))
    preview(spec, folder / "with.png", "--stages", *CODE)
    preview(spec, folder / "without.png", "--stages", "--labels", "none", *CODE)
    one, other = (cells(cv2.imread(str(folder / name)), 4, 3, titles=1) for name in ("with.png", "without.png"))
    new = [any(not np.array_equal(a, b) for a, b in zip(one[i::3], other[i::3], strict=True)) for i in range(3)]
    assert new == [False, False, True], "they are made behind the first two"


def test_labels_must_be_whole_numbers_that_are_delivered(photos, folder):
    refused = preview(labelled_spec(photos, folder), folder / "s.png", "--labels", "boxes", *CODE, check=False)
    assert refused.returncode == 1 and "--labels boxes: no integer output has that name" in refused.stderr


def image_mask(boxes):
    """Pixels of a 64 × 64 image that no box's outline touches."""
    mask = np.ones((64, 64), bool)
    for left, top, right, bottom in np.clip(np.rint(boxes), -2, 66).astype(int):
        inner = np.zeros((64, 64), bool)
        inner[max(top + 2, 0) : max(bottom - 2, 0), max(left + 2, 0) : max(right - 2, 0)] = True
        outer = np.zeros((64, 64), bool)
        outer[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = True
        mask &= inner | ~outer
    return mask
