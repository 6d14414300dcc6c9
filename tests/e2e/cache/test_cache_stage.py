"""The stage `cache`: the same batches with and without it, in any number of epochs, services and workers."""

import itertools
import json
import pathlib

import bulkhead
import cv2
import numpy as np
import pytest
from conftest import read_bytes, tool, write_spec

EPOCHS = 3
SAMPLES = 150
RANDOM = [{"random_crop": {"size": [40, 40]}}, "random_horizontal_flip", {"color_jitter": {"brightness": 0.3}}]
RESIZE = {"resize": {"size": [64, 64]}}


def spec_with(folder, photos, stages, name="s.json", **more):
    return write_spec(
        folder / name,
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"image": {"bytes": {}}, "label": {"int64": {}}},
        stages=stages, outputs=["image", "label"],
        batch={"size": 15}, order={"global": {}}, seed=3, epochs=EPOCHS, **more,
    )


@pytest.fixture
def start(services, folder, photos):
    def start_one(*options, workers=1):
        return services(folder, "--root", photos, "--root", folder, "--workers", workers, *options)

    return start_one


def kept(service):
    return bulkhead.service_status(service.target)["kept"]


@pytest.mark.parametrize("place", [1, 2], ids=["whole images", "resized images"])
def test_it_changes_no_batch_and_spares_later_epochs(start, folder, photos, place):
    stages = ["decode_image", RESIZE, *RANDOM]
    plain = spec_with(folder, photos, stages, "plain.json")
    cached = spec_with(folder, photos, [*stages[:place], "cache", *stages[place:]])
    service = start(workers=2)
    expected = read_bytes(service, plain)
    assert read_bytes(service, cached) == expected
    assert kept(service)["added"] + kept(service)["found"] == EPOCHS * SAMPLES
    assert SAMPLES <= kept(service)["added"] <= SAMPLES + 40, "two workers may make one twice"
    service.stop()
    again = start()
    assert read_bytes(again, cached) == expected, "and a later service has it from the start"
    assert kept(again) == {"found": EPOCHS * SAMPLES, "added": 0}


def test_it_may_stand_between_a_decoder_and_its_crop(start, folder, photos):
    stages = ["decode_image", {"random_resized_crop": {"size": [64, 64]}}, "random_horizontal_flip"]
    service = start()
    expected = read_bytes(service, spec_with(folder, photos, stages, "plain.json"))
    cached = spec_with(folder, photos, [stages[0], "cache", *stages[1:]])
    assert read_bytes(service, cached) == expected
    assert kept(service) == {"found": (EPOCHS - 1) * SAMPLES, "added": SAMPLES}


def test_a_cursor_goes_on_with_a_cache_and_without(start, folder, photos):
    stages = ["decode_image", RESIZE, *RANDOM]
    plain = spec_with(folder, photos, stages, "plain.json")
    cached = spec_with(folder, photos, [*stages[:2], "cache", *stages[2:]])
    service = start()
    expected = read_bytes(service, plain)
    with bulkhead.Loader(cached, service.target) as loader:
        stream = loader.stream()
        for _ in range(7):
            next(stream)
        cursor = loader.state_dict()
    assert read_bytes(service, plain, cursor=cursor) == expected[7:]


def test_killed_workers_change_nothing(start, folder, photos):
    stages = ["decode_image", RESIZE, *RANDOM]
    cached = spec_with(folder, photos, [*stages[:2], "cache", *stages[2:]])
    service = start(workers=2)
    expected = read_bytes(service, spec_with(folder, photos, stages, "plain.json"))

    def kill(number):
        if number % 4 == 3:
            service.kill_worker(number)

    assert read_bytes(service, cached, kill) == expected


def test_boxes_are_kept_as_they_were_moved(start, folder, photos):
    stages = [
        "decode_image", {"boxes": {"input": "boxes", "format": "xyxy"}}, {"resize": {"size": [64, 64]}},
        {"center_crop": {"size": [48, 48]}}, "random_horizontal_flip",
        {"sanitize_boxes": {"min_visibility": 0.3}}, {"pad_rows": {"to": 16, "count": "boxes_kept"}},
    ]

    def spec(name, stages):
        path = spec_with(folder, photos, stages, name)
        value = json.loads(path.read_text())
        value["features"]["boxes"] = {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}}
        value["outputs"] = ["image", "boxes", "boxes_kept"]
        path.write_text(json.dumps(value))
        return path

    service = start()
    expected = read_bytes(service, spec("plain.json", stages))
    assert read_bytes(service, spec("cached.json", [*stages[:4], "cache", *stages[4:]])) == expected
    assert kept(service)["found"] == (EPOCHS - 1) * SAMPLES


def test_what_stands_before_it_is_part_of_what_it_is_found_by(start, folder, photos):
    service = start()
    for size in (32, 48):
        resize = {"resize": {"size": [size, size]}}
        plain = spec_with(folder, photos, ["decode_image", resize], "plain.json")
        cached = spec_with(folder, photos, ["decode_image", resize, "cache"], "cached.json")
        assert read_bytes(service, cached) == read_bytes(service, plain)
    assert kept(service)["added"] == 2 * SAMPLES


def test_damaged_records_end_as_without_it(start, folder, photos):
    """A JPEG that is damaged below its crop: without a cache stage nobody notices, so with one nobody may."""
    data = folder / "data"
    data.mkdir()
    for number, path in enumerate(sorted((photos / "folder").rglob("*.jpg"))[:20]):
        content = bytearray(path.read_bytes())
        if number % 2 == 0:
            for at in range(len(content) * 9 // 10, len(content) - 4):
                content[at] = 0xAA
        (data / path.name).write_bytes(content)

    def spec(name, stages):
        return write_spec(
            folder / name, source={"image_folder": {"path": str(data), "unlabeled": True}}, stages=stages,
            outputs=["image"], batch={"size": 5}, order={"sequential": {}}, epochs=2,
            errors={"policy": "substitute", "max_fraction": 1.0},
        )

    stages = ["decode_image", {"random_crop": {"size": [40, 40]}}]
    service = start()
    expected = read_bytes(service, spec("plain.json", stages))
    assert read_bytes(service, spec("cached.json", [stages[0], "cache", stages[1]])) == expected
    assert 0 < kept(service)["added"] < 20


def test_the_bound_is_kept_and_the_rest_is_made_as_ever(start, folder, photos):
    stages = ["decode_image", {"resize": {"size": [640, 640]}}, "cache", {"center_crop": {"size": [8, 8]}}]
    spec = spec_with(folder, photos, stages)
    plain = spec_with(folder, photos, [*stages[:2], stages[3]], "plain.json")
    service = start("--stage-cache-bytes", "64MiB")  # 150 images have 176 MiB
    assert read_bytes(service, spec) == read_bytes(service, plain)
    status = bulkhead.service_status(service.target)
    assert 0 < status["kept"]["added"] < 60
    assert int(status["stage_cache"]["bytes"]) == 64 << 20
    assert "67108864" in status["stage_cache"]["reason"]
    service.stop()
    off = start("--stage-cache-bytes", "0")
    assert read_bytes(off, spec) == read_bytes(off, plain)
    assert bulkhead.service_status(off.target)["stage_cache"]["reason"] == "--stage-cache-bytes is 0"


@pytest.mark.parametrize("stages, problem", [
    (["cache", "decode_image"], "stages[0].cache: is before all stages"),
    (["decode_image", {"random_crop": {"size": [8, 8]}}, "cache"],
     "stages[2].cache: would keep what stages[1].random_crop drew in the first epoch"),
    (["decode_image", "cache", RESIZE, "cache"], "stages[3].cache: is the second cache that a sample passes, after stages[1]"),
    (["decode_image", RESIZE,
      {"python": {"function": "m:f", "inputs": ["image"],
                  "outputs": [{"name": "image", "dtype": "uint8", "shape": [64, 64, 3]}]}}, "cache"],
     "stages[3].cache.key: is missing"),
])
def test_where_it_cannot_stand(folder, photos, stages, problem):
    assert problem in tool("validate", spec_with(folder, photos, stages), code=1)


def test_validate_says_what_it_will_take(folder, photos):
    def report(stages, *options):
        [report] = json.loads(tool("validate", "--json", *options, spec_with(folder, photos, stages)))
        return report

    small = report(["decode_image", RESIZE, "cache", *RANDOM])
    assert small["caches"] == [{"path": "stages[2].cache", "sample_bytes": 12288, "bytes": 0, "samples_measured": 0}]
    assert small["warnings"] == [], "no more than a photo's file"
    assert "stages[2].cache keeps 12288 bytes (12.0 KiB) a sample" in tool("validate", folder / "s.json")
    [large] = report(["decode_image", {"resize": {"size": [640, 640]}}, "cache", *RANDOM])["warnings"]
    assert "stages[2].cache keeps 1228800 bytes (1.2 MiB) a sample" in large
    [whole] = report(["decode_image", "cache", RESIZE])["warnings"]
    assert "stages[1].cache keeps whole images" in whole and "put resize before it" in whole
    [shorter] = report(["decode_image", {"resize": {"shorter_side": 64}}, "cache", {"center_crop": {"size": 40}}])["warnings"]
    assert "stages[2].cache keeps images of any size" in shorter and "bulkhead explain" in shorter


def test_validate_measures_what_whole_images_take(folder, photos):
    spec = spec_with(folder, photos, ["decode_image", "cache", RESIZE], take=40)
    value = json.loads(spec.read_text())
    del value["features"]
    value.update(source={"image_folder": {"path": str(photos / "folder")}}, outputs=["image", "path"])
    spec.write_text(json.dumps(value))
    with bulkhead.Loader(spec) as loader:
        paths = [bytes(path).rstrip(b"\0").decode() for batch in itertools.islice(loader.stream(), 3) for path in batch["path"]]
    files = [next((photos / "folder").rglob(pathlib.Path(path).name)) for path in paths]
    assert len(set(files)) == 40
    pixels = np.mean([cv2.imread(str(file)).size for file in files])
    times = pixels / np.mean([file.stat().st_size for file in files])
    [report] = json.loads(tool("validate", "--json", "--data", spec))
    [kept] = report["caches"]
    assert kept["samples_measured"] == 40 and kept["bytes"] == 40 * kept["sample_bytes"]
    assert pixels <= kept["sample_bytes"] < pixels + 1024
    if times > 5:
        [warning] = report["warnings"]
        assert "for 40 samples" in warning and "times what is read for it" in warning


def test_a_single_epoch_keeps_nothing(start, folder, photos):
    stages = ["decode_image", RESIZE, "cache", *RANDOM]
    service = start()
    once = spec_with(folder, photos, stages, "once.json")
    once.write_text(json.dumps({**json.loads(once.read_text()), "epochs": 1}))
    first = read_bytes(service, once)
    assert kept(service) == {"found": 0, "added": 0}
    assert read_bytes(service, spec_with(folder, photos, stages))[:len(first)] == first
    assert kept(service)["added"] == SAMPLES
    read_bytes(service, once)
    assert kept(service)["found"] == SAMPLES * EPOCHS, "what is there is used"


def test_a_users_function_is_kept_under_its_key(start, folder, photos):
    (folder / "own.py").write_text("import numpy as np\n\n\ndef halved(image):\n    return image // 2\n")

    def spec(name, **key):
        halve = {"python": {"function": "own:halved", "inputs": ["image"],
                            "outputs": [{"name": "image", "dtype": "uint8", "shape": [64, 64, 3]}]}}
        return spec_with(folder, photos, ["decode_image", RESIZE, halve, *key.values()], name)

    service = start("--python", "/usr/bin/python3", "--python-path", folder)
    expected = read_bytes(service, spec("plain.json"))
    assert read_bytes(service, spec("one.json", key={"cache": {"key": "1"}})) == expected
    assert kept(service) == {"found": (EPOCHS - 1) * SAMPLES, "added": SAMPLES}
    assert read_bytes(service, spec("two.json", key={"cache": {"key": "2"}})) == expected
    assert kept(service)["added"] == 2 * SAMPLES
