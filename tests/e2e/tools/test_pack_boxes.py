"""`bulkhead pack` of COCO JSON and tables of boxes, and of images that are encoded again: what arrives in a trainer."""

import json
import os
import pathlib
import signal
import subprocess
import time

import cv2
import numpy as np
import pytest
import yaml

import bulkhead
from conftest import BIN, children_of, program_of, tool, write_spec
from tf_records import read_examples

HEIGHT, WIDTH = 90, 120
# By image: [x, y, width, height] in pixels and the category's id.
BOXES = [[([10.25, 20, 30.5, 40], 18)], [], [([0, 0, WIDTH, HEIGHT], 1), ([60, 30, 20, 10.75], 44)], [([70, 50, 50, 40], 1)], []]
CATEGORIES = [{"id": 44, "name": "bottle"}, {"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
LABELS = {1: 0, 18: 1, 44: 2}


def draw(path, boxes=(), height=HEIGHT, width=WIDTH):
    image = np.full((height, width, 3), 30, np.uint8)
    for x, y, w, h in boxes:
        image[round(y) : round(y + h), round(x) : round(x + w)] = 220
    assert cv2.imwrite(str(path), image, [cv2.IMWRITE_JPEG_QUALITY, 95])


def coco_of(folder, boxes=BOXES):
    """A folder `images` and an instances.json."""
    (folder / "images").mkdir()
    images, annotations = [], []
    for number, listed in enumerate(boxes):
        draw(folder / f"images/{number:03}.jpg", [box for box, _ in listed])
        images.append({"id": 500 + number, "file_name": f"{number:03}.jpg", "width": WIDTH, "height": HEIGHT})
        for box, category in listed:
            annotations.append({"id": len(annotations), "image_id": 500 + number, "category_id": category, "bbox": box, "iscrowd": 0})
    path = folder / "instances.json"
    path.write_text(json.dumps({"info": {}, "annotations": annotations[::-1], "images": images, "categories": CATEGORIES}))
    return path


@pytest.fixture
def coco(folder):
    return coco_of(folder)


def stream(spec, size=(HEIGHT, WIDTH), **changes):
    """The samples of a packed spec in the order of its files: boxes and labels without padding."""
    told = yaml.safe_load(spec.read_text())
    told.update({"stages": ["decode_image", {"boxes": {"format": "xyxy"}}, {"resize": {"size": list(size)}}], "batch": {"size": 2}, "epochs": 1,
                 "order": "sequential", **changes})
    if "mixture" in told["source"]:
        del told["order"]
    samples = []
    with bulkhead.Loader(write_spec(spec.parent / "sequential.json", **told), timeout=60) as loader:
        for batch in loader:
            for i in range(len(batch["boxes"])):
                sample = {name: np.array(batch[name][i]) for name in batch}
                for name in ("boxes", "labels"):
                    sample[name] = sample[name][: sample[f"{name}_count"]]
                samples.append(sample)
        return samples, loader.classes


def corners(boxes):
    return np.array([[x, y, x + w, y + h] for (x, y, w, h), _ in boxes], np.float32).reshape(-1, 4)


def test_boxes_of_coco_arrive_as_the_json_has_them_in_pixels_of_the_decoded_image(coco, folder):
    assert tool("pack", coco, folder / "packed", "--images", folder / "images", "--records", 2).startswith("5 records in 3 files")
    spec = folder / "packed/packed.yaml"
    assert "valid" in tool("validate", spec)
    samples, classes = stream(spec)
    assert classes == ("person", "dog", "bottle")
    for number, (sample, boxes) in enumerate(zip(samples, BOXES, strict=True)):
        boxes = boxes[::-1]  # the order of the file
        np.testing.assert_array_equal(sample["boxes"], corners(boxes))
        assert sample["labels"].tolist() == [LABELS[category] for _, category in boxes]
        assert sample["image_id"] == 500 + number and sample["path"] == f"{number:03}.jpg".encode()
        for xmin, ymin, xmax, ymax in sample["boxes"].round().astype(int):
            assert (sample["image"][ymin + 2 : ymax - 2, xmin + 2 : xmax - 2] > 180).all()
    assert (samples[1]["image"] < 60).all()
    assert (folder / "packed/classes.txt").read_text() == "person\ndog\nbottle\n"
    assert (folder / "packed/categories.csv").read_text() == 'label,category_id,name\n0,1,"person"\n1,18,"dog"\n2,44,"bottle"\n'
    # The spec as it was written trains.
    with bulkhead.Loader(spec, timeout=60) as loader:
        assert loader.classes == ("person", "dog", "bottle")
        batch = next(iter(loader))
        assert batch["image"].shape[1:] == (640, 640, 3) and batch["boxes"].shape[1:] == (2, 4)


def test_images_are_made_smaller_and_boxes_follow(coco, folder):
    # 60 x 45, a half.
    tool("pack", coco, folder / "packed", "--images", folder / "images", "--longer-side", 60, "--quality", 90)
    samples, _ = stream(folder / "packed/packed.yaml", size=(HEIGHT // 2, WIDTH // 2))
    for sample, boxes in zip(samples, BOXES, strict=True):
        np.testing.assert_array_equal(sample["boxes"], corners(boxes[::-1]) / 2)
        for xmin, ymin, xmax, ymax in sample["boxes"].round().astype(int):
            assert (sample["image"][ymin + 2 : ymax - 2, xmin + 2 : xmax - 2] > 180).all()
    for number, example in enumerate(read_examples(folder / "packed/part-000.tfrecord")):
        image = cv2.imdecode(np.frombuffer(example["image"][0], np.uint8), cv2.IMREAD_COLOR)
        assert image.shape == (HEIGHT // 2, WIDTH // 2, 3)
        stored = cv2.imread(str(folder / f"images/{number:03}.jpg"))
        smaller = cv2.resize(stored, (WIDTH // 2, HEIGHT // 2), interpolation=cv2.INTER_AREA)
        assert np.abs(image.astype(int) - smaller).mean() < 2


def test_images_without_boxes_have_files_of_their_own_with_keys_of_ones_own(coco, folder):
    found = json.loads(tool("pack", coco, folder / "packed", "--images", folder / "images", "--negatives", "apart", "--json",
                            "--key", "image=img_raw", "--key", "boxes=bbox"))
    assert found["sets"] == {"pos": 3, "neg": 2} and found["files"] == 2
    positives = list(read_examples(folder / "packed/pos-000.tfrecord"))
    negatives = list(read_examples(folder / "packed/neg-000.tfrecord"))
    assert [example["image_id"] for example in positives] == [[500], [502], [503]]
    assert [example["image_id"] for example in negatives] == [[501], [504]]
    assert sorted(positives[0]) == ["bbox", "image_id", "img_raw", "labels", "path"]
    assert positives[0]["img_raw"][0] == (folder / "images/000.jpg").read_bytes()
    spec = folder / "packed/packed.yaml"
    assert "valid" in tool("validate", spec)
    samples, _ = stream(spec)
    assert sorted(int(sample["image_id"]) for sample in samples)[:2] == [500, 501]
    for sample in samples:
        assert (len(sample["boxes"]) == 0) == (sample["source_id"] == 1) == (sample["image_id"] in (501, 504))


def test_a_table_of_boxes_is_packed_in_pixels_and_in_shares(coco, folder):
    names = {1: "person", 18: "dog", 44: "bottle"}
    pixels, shares = ["path,label,x,y,w,h"], ["xmin;ymin;xmax;ymax;class;filename"]
    for number, boxes in enumerate(BOXES):
        path = f"{number:03}.jpg"
        if not boxes:
            pixels.append(f"{path},,,,,")
            shares.append(f";;;;;{path}")
        for (x, y, w, h), category in boxes:
            pixels.append(f"{path},{names[category]},{x},{y},{w},{h}")
            shares.append(f"{x / WIDTH};{y / HEIGHT};{(x + w) / WIDTH};{(y + h) / HEIGHT};{names[category]};{path}")
    (folder / "images/pixels.csv").write_text("\n".join(pixels))
    (folder / "shares.csv").write_text("\n".join(shares))
    tool("pack", folder / "images/pixels.csv", folder / "pixels")
    tool("pack", folder / "shares.csv", folder / "shares", "--images", folder / "images", "--relative", "--classes", folder / "pixels/classes.txt")
    by_pixels, classes = stream(folder / "pixels/packed.yaml")
    by_shares, _ = stream(folder / "shares/packed.yaml")
    assert classes == ("bottle", "dog", "person")
    for one, other, boxes in zip(by_pixels, by_shares, BOXES, strict=True):
        np.testing.assert_array_equal(one["boxes"], corners(boxes))
        np.testing.assert_allclose(other["boxes"], corners(boxes), rtol=1e-6)
        assert one["labels"].tolist() == other["labels"].tolist() == [classes.index(names[category]) for _, category in boxes]


def test_mistakes_are_named_and_nothing_is_written(coco, folder):
    told = json.loads(coco.read_text())
    del told["annotations"][0]["bbox"]
    told["annotations"][1]["image_id"] = 3
    told["annotations"][2]["bbox"] = [100, 10, 21, 5]
    coco.write_text(json.dumps(told))
    error = tool("pack", coco, folder / "out", "--images", folder / "images", code=1)
    assert "instances.json: annotations[0].bbox: is missing" in error
    told["annotations"][0]["bbox"] = [1, 2, 3, 4]
    coco.write_text(json.dumps(told))
    assert "instances.json: annotations[1].image_id: 3 is no id of `images`" in tool("pack", coco, folder / "out", "--images", folder / "images", code=1)
    told["annotations"][1]["image_id"] = 500
    coco.write_text(json.dumps(told))
    error = tool("pack", coco, folder / "out", "--images", folder / "images", code=1)
    assert "instances.json: annotations[2].bbox: reaches beyond its image: 100, 10 to 121, 15 in 120 x 90" in error
    assert "images[0].file_name" in tool("pack", coco, folder / "out", code=1)  # no images beside it
    assert not (folder / "out").exists()
    assert "1 box cut at the edge of the image" in tool("pack", coco, folder / "out", "--images", folder / "images", "--bad-boxes", "cut")


def test_images_lie_in_the_folder_that_is_named(coco, folder):
    told = json.loads(coco.read_text())
    for name in ("../instances.json", "/etc/passwd", "a/../../images/001.jpg/../../instances.json"):
        told["images"][0]["file_name"] = name
        coco.write_text(json.dumps(told))
        error = tool("pack", coco, folder / "out", "--images", folder / "images", code=1)
        assert f"images[0].file_name: {name}: leads out of {folder / 'images'}; --images names a folder that holds all images" in error


def test_an_image_has_as_many_pixels_as_are_allowed(coco, folder):
    words = [coco, folder / "out", "--images", folder / "images"]
    assert "more than decode_image.max_pixels = 1000; raise max_pixels if such images are genuine" in tool("pack", *words, "--max-pixels", 1000, code=1)
    tool("pack", *words, "--max-pixels", 120 * 90)
    spec = folder / "out/packed.yaml"
    told = yaml.safe_load(spec.read_text())
    for most, code in ((1000, 1), (20000, 0)):
        [at] = [i for i, stage in enumerate(told["stages"]) if "decode_image" in stage]
        told["stages"][at] = {"decode_image": {"max_pixels": most}}
        spec.write_text(yaml.safe_dump(told))
        said = tool("pack", spec, folder / f"small{most}", "--quality", 80, "--max-pixels", 1000, code=code)
        assert ("more than decode_image.max_pixels = 1000" in said) == (code == 1)


def test_names_that_a_spec_cannot_have_are_noted(coco, folder):
    told = json.loads(coco.read_text())
    told["categories"][0]["name"] = ""
    coco.write_text(json.dumps(told))
    said = tool("pack", coco, folder / "out", "--images", folder / "images")
    assert "the spec has no names of classes: one is empty" in said and "classes: [" not in (folder / "out/packed.yaml").read_text()


def test_what_looks_like_boxes_but_is_none_is_told_apart(coco, folder):
    table = folder / "images/boxes.csv"
    table.write_text("000.jpg,dog,10,20,40,60\n002.jpg,cat,1,2,30,40\n")
    for more in ([], ["--images", folder / "images"]):
        error = tool("pack", table, folder / "out", *more, code=1)
        assert "boxes.csv: the first line has no titles of boxes; for boxes write such a line above: path,label,xmin,ymin,xmax,ymax" in error
    path = folder / "x.json"
    for text, words in (("", "x.json: is empty; was it written to the end?"), (" \n[{\"bbox\": [1, 2, 3, 4]}]", "x.json: is a list, as COCO's results are; boxes to train with")):
        path.write_text(text)
        assert words in tool("pack", path, folder / "out", "--images", folder / "images", code=1)
    assert not (folder / "out").exists()


def test_segmentations_that_are_left_out_are_counted(coco, folder):
    told = json.loads(coco.read_text())
    for annotation in told["annotations"][:2]:
        annotation["segmentation"] = [[1, 2, 3, 4, 5, 6]]
    coco.write_text(json.dumps(told))
    said = tool("pack", coco, folder / "out", "--images", folder / "images")
    assert "`segmentation` of 2 annotations left out: only boxes are packed" in said


def test_an_unfinished_table_goes_on_when_its_bad_boxes_are_cut_or_mended(coco, folder):
    table = folder / "images/boxes.csv"
    lines = [f"{number:03}.jpg,0,10,20,{200 if number == 4 else 40},60" for number in range(5)]
    table.write_text("\n".join(["path,label,xmin,ymin,xmax,ymax", *lines]))
    words = ["--records", 1, "--threads", 1]
    for out in ("cut", "mended"):
        error = tool("pack", table, folder / out, *words, code=1)
        assert "boxes.csv:6: reaches beyond its image: 10, 20 to 200, 60 in 120 x 90, 004.jpg; mend them, or give --bad-boxes cut" in error
    found = json.loads(tool("pack", table, folder / "cut", *words, "--bad-boxes", "cut", "--json"))
    assert (found["kept_files"], found["stale_files"]) == (4, 0)
    table.write_text(table.read_text().replace("200", "120"))
    found = json.loads(tool("pack", table, folder / "mended", *words, "--json"))
    assert (found["kept_files"], found["stale_files"]) == (4, 0)
    for number in range(5):
        name = f"part-{number:03}.tfrecord"
        assert (folder / "cut" / name).read_bytes() == (folder / "mended" / name).read_bytes()


def test_options_that_mean_nothing_are_refused(coco, folder, photos):
    assert "--relative: means something only for tables of boxes" in tool("pack", coco, folder / "out", "--relative", code=1)
    assert "there is no such file or folder; did you mean" in tool("pack", folder / "instance.json", folder / "out", "--images", folder, code=1)
    assert "--negatives: means something only for COCO JSON" in tool("pack", photos / "folder", folder / "out", "--negatives", "drop", code=1)
    assert "have no feature `img`, only image, label" in tool("pack", photos / "folder", folder / "out", "--key", "img=x", code=1)
    assert "--longer-side and --shorter-side exclude each other" in tool("pack", photos / "folder", folder / "out", "--longer-side", 9, "--shorter-side", 9, code=2)
    assert "there is no part 'nonsense'" in tool("pack", coco, folder / "out", "--images", folder / "images", "--sandbox", "nonsense", code=1)
    assert not (folder / "out").exists()


def test_who_takes_coco_json_for_a_spec_is_told_what_to_do(coco):
    assert "instances.json: holds boxes in COCO's format and is no spec; write TFRecords" in tool("inspect", coco, code=1)


def packed_bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".tfrecord", ".yaml", ".txt", ".csv")}


def start(*words):
    return subprocess.Popen([BIN / "bulkhead", "pack", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(what):
    deadline = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return found


def decoders_of(process):
    return [child for child in children_of(process.pid) if program_of(child) == "bulkhead"]


def test_a_run_that_was_killed_goes_on_with_any_number_of_threads(folder):
    coco = coco_of(folder, BOXES * 40)
    words = [coco, "--images", folder / "images", "--longer-side", 64, "--negatives", "apart", "--records", 4]
    tool("pack", words[0], folder / "whole", *words[1:])
    process = start(words[0], folder / "packed", *words[1:], "--threads", 1)
    wait_for(lambda: len(list((folder / "packed").glob("*.tfrecord"))) >= 3)
    process.kill()
    process.communicate()
    kept = list((folder / "packed").glob("*.tfrecord"))
    assert 3 <= len(kept) < 50 and not (folder / "packed/packed.yaml").exists()
    assert "with other options" in tool("pack", words[0], folder / "packed", *words[1:], "--quality", 80, code=1)
    found = json.loads(tool("pack", words[0], folder / "packed", *words[1:], "--threads", 3, "--json"))
    assert found["kept_files"] == len(kept) and found["files"] == 50
    assert packed_bytes(folder / "packed") == packed_bytes(folder / "whole")


def test_images_are_decoded_in_a_sandbox_and_a_death_there_names_the_image(folder):
    coco = coco_of(folder, BOXES * 100)
    words = [coco, folder / "packed", "--images", folder / "images", "--longer-side", 64, "--records", 4, "--threads", 1]
    process = start(*words)
    [decoder] = wait_for(lambda: len(list((folder / "packed").glob("*.tfrecord"))) >= 1 and decoders_of(process)[:1])
    process.send_signal(signal.SIGSTOP)  # it would end in half a second
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{decoder}/status").read_text().splitlines())
    assert status["Seccomp"].strip() == "2" and int(status["CapEff"], 16) == 0 and status["NoNewPrivs"].strip() == "1"
    for child in decoders_of(process):
        os.kill(child, signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert ".jpg: the process that decodes it was ended by signal 9" in error
    assert tool("pack", *words).startswith("500 records in 125 files")


def test_a_damaged_image_is_named(coco, folder):
    path = folder / "images/002.jpg"
    path.write_bytes(path.read_bytes()[:400])
    assert "002.jpg: " in tool("pack", coco, folder / "out", "--images", folder / "images", code=1)


@pytest.mark.parametrize("size, files", [("64KiB", 3), ("1GiB", 1)])
def test_files_have_about_the_size_that_is_asked(photos, folder, size, files):
    found = json.loads(tool("pack", photos / "folder", folder / "packed", "--file-size", size, "--json"))
    sizes = [path.stat().st_size for path in (folder / "packed").glob("*.tfrecord")]
    assert len(sizes) == found["files"] >= files
    assert max(sizes) < 1.1 * {"64KiB": 64 << 10, "1GiB": 1 << 30}[size]


def test_records_of_a_spec_are_made_smaller_with_their_boxes(photos, folder):
    spec = yaml.safe_load((photos / "tfrecord.yaml").read_text())
    spec.update({"source": {"tfrecord": {"files": str(photos / "records-*.tfrecord")}}, "stages": ["decode_image", {"boxes": {"format": "xyxy"}}],
                 "outputs": ["boxes", "label"], "batch": {"size": 150}, "order": "sequential", "epochs": 1})
    before = write_spec(folder / "before.json", **spec)
    tool("pack", before, folder / "packed", "--longer-side", 100)
    with bulkhead.Loader(before, timeout=60) as loader:
        [plain] = [{name: np.array(batch[name]) for name in batch} for batch in loader]
    with bulkhead.Loader(folder / "packed/packed.yaml", timeout=60) as loader:
        [packed] = [{name: np.array(batch[name]) for name in batch} for batch in loader]
    np.testing.assert_array_equal(plain["boxes_count"], packed["boxes_count"])
    np.testing.assert_array_equal(plain["label"], packed["label"])
    old = [example["image"][0] for path in sorted(photos.glob("records-*.tfrecord")) for example in read_examples(path)]
    new = [example["image"][0] for path in sorted((folder / "packed").glob("*.tfrecord")) for example in read_examples(path)]
    for number, (one, other) in enumerate(zip(old, new, strict=True)):
        was, now = (cv2.imdecode(np.frombuffer(image, np.uint8), cv2.IMREAD_COLOR).shape for image in (one, other))
        assert max(now[:2]) == min(100, max(was[:2]))
        scale = np.array([now[1] / was[1], now[0] / was[0]] * 2)
        np.testing.assert_allclose(packed["boxes"][number], plain["boxes"][number] * scale, rtol=1e-6)
