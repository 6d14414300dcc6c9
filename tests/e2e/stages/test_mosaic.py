"""The stage `mosaic`: samples of other positions in one image, whatever runs, dies or is resumed."""

import subprocess

import bulkhead
import cv2
import numpy as np
import pytest
from conftest import BIN, digest_of, finish_digest, go_on, kill_embedded_workers, start_digest, wait_for_pause, write_spec

SAMPLES = 150
HEIGHT, WIDTH = 60, 80
SUBSTITUTE = {"policy": "substitute", "max_fraction": 0.3}
BEFORE = ["decode_image", {"boxes": {"format": "xyxy"}}, {"resize": {"size": [HEIGHT, WIDTH]}}, "random_horizontal_flip"]
# The middle, so that each image has a quarter.
MIDDLE = {"mosaic": {"size": [80, 100], "center": [0.5, 0.5], "with": ["again"]}}
BEHIND = [{"random_affine": {"degrees": 10}}, {"random_crop": {"size": [72, 90]}},
          {"sanitize_boxes": {"with": ["again"], "min_visibility": 0.2}}]


def records_spec(folder, photos, stages, name="mosaic.json", **more):
    spec = {
        "source": {"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        "features": {
            "image": {"bytes": {}},
            "label": {"int64": {}},
            "boxes": {"tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}},
            # Rows that belong to the boxes and stay as they are.
            "again": {"key": "boxes", "tensor": {"dtype": "float32", "shape": [-1, 4], "max_count": 16}},
        },
        "stages": stages, "batch": {"size": 15}, "order": {"global": {}}, "seed": 3, "epochs": 2,
    }
    return write_spec(folder / name, **{**spec, **more})


@pytest.fixture
def start(services, folder, photos):
    def start_one(*options, workers=1):
        return services(folder, "--root", photos, "--root", folder, "--workers", workers, *options)

    return start_one


def samples(spec, target, **options):
    """The samples of all batches by their epoch and position, and the cursors behind the batches."""
    found, cursors = {}, []
    with bulkhead.Loader(spec, target, timeout=120, **options) as loader:
        for batch in loader.stream():
            for i, position in enumerate(batch.positions):
                key = batch.epoch, position
                assert key not in found
                found[key] = {name: np.array(array[i]) for name, array in batch.items()}
            cursors.append(batch.cursor)
    return found, cursors


def as_bytes(found):
    return {key: {name: array.tobytes() for name, array in sample.items()} for key, sample in found.items()}


@pytest.fixture(scope="module")
def spec(photos):
    return records_spec(photos, photos, [*BEFORE, {"mosaic": {"size": 96, "with": ["again"]}}, *BEHIND])


@pytest.fixture(scope="module")
def reference(spec):
    return digest_of("cpp", spec, workers=1, threads=1)


@pytest.mark.parametrize("client, workers, threads", [("cpp", 4, 1), ("python", 2, 3)])
def test_workers_threads_and_clients_change_nothing(spec, reference, client, workers, threads):
    assert digest_of(client, spec, workers=workers, threads=threads) == reference


def test_kill_9_of_workers_in_mid_run_changes_nothing(spec, reference):
    process = start_digest("cpp", spec, workers=2, pause_after=3)
    wait_for_pause(process)
    kill_embedded_workers(process.pid, 2)
    go_on(process)
    assert finish_digest(process)["digest"] == reference


def test_batches_ranks_and_a_resume_change_nothing(start, folder, photos, spec):
    service = start(workers=2)
    whole, cursors = samples(spec, service.target)
    whole = as_bytes(whole)
    assert len(whole) == 2 * SAMPLES
    other = records_spec(folder, photos, [*BEFORE, {"mosaic": {"size": 96, "with": ["again"]}}, *BEHIND],
                         batch={"size": 25})
    assert as_bytes(samples(other, service.target)[0]) == whole
    rest = as_bytes(samples(other, service.target, cursor=cursors[4])[0])
    assert rest == {key: sample for key, sample in whole.items() if key >= (0, 75)}
    ranks = [as_bytes(samples(other, service.target, rank=rank, world_size=2)[0]) for rank in (0, 1)]
    assert not ranks[0].keys() & ranks[1].keys()
    assert {**ranks[0], **ranks[1]} == whole


def test_each_quarter_is_a_sample_as_it_is_before_the_mosaic(start, folder, photos):
    service = start()
    before, _ = samples(records_spec(folder, photos, BEFORE, "before.json"), service.target)
    made, _ = samples(records_spec(folder, photos, [*BEFORE, MIDDLE], "made.json"), service.target)
    # A quarter of the canvas is 40 × 50: what is left of an image is the part next to the middle.
    parts = [(slice(HEIGHT - 40, HEIGHT), slice(WIDTH - 50, WIDTH)), (slice(HEIGHT - 40, HEIGHT), slice(0, 50)),
             (slice(0, 40), slice(WIDTH - 50, WIDTH)), (slice(0, 40), slice(0, 50))]
    quarters = [(slice(0, 40), slice(0, 50)), (slice(0, 40), slice(50, 100)),
                (slice(40, 80), slice(0, 50)), (slice(40, 80), slice(50, 100))]
    by_part = [{} for _ in parts]
    for key, sample in before.items():
        for part, known in zip(parts, by_part):
            known.setdefault((key[0], sample["image"][part].tobytes()), []).append(key)
    taken = []
    for key, sample in made.items():
        four = [by_part[i][key[0], sample["image"][quarter].tobytes()] for i, quarter in enumerate(quarters)]
        assert key in four[0], "the upper left is the sample itself"
        assert sample["label"] == before[key]["label"]
        taken += [keys[0] for keys in four[1:]]
        rows = [before[keys[0]]["again"][: before[keys[0]]["again_count"]] for keys in four]
        rows = np.concatenate(rows)
        assert np.array_equal(sample["again"][: sample["again_count"]], rows)
        assert sample["boxes_count"] == len(rows)
        boxes = sample["boxes"][: sample["boxes_count"]]
        assert (boxes >= 0).all() and (boxes <= [100, 80, 100, 80]).all()
    # Others are drawn from the whole epoch: most come up, none much more often than others.
    assert len(set(taken)) > 0.85 * 2 * SAMPLES
    assert max(taken.count(key) for key in set(taken)) < 15


def photo_list(folder, photos, bad=()):
    """A list of 20 photos of which some are cut off."""
    lines = []
    for i, path in enumerate(sorted(photos.glob("folder/*/*.jpg"))[:20]):
        data = path.read_bytes()
        (folder / f"{i}.jpg").write_bytes(data[: len(data) // 2] if i in bad else data)
        lines.append(f"{i}.jpg {i}\n")
    (folder / "list.txt").write_text("".join(lines))


def list_spec(folder, **more):
    spec = {"source": {"image_list": {"path": "list.txt"}},
            "stages": ["decode_image", {"mosaic": {"size": 64}}], "outputs": ["image", "label"],
            "batch": {"size": 5}, "order": "sequential", "epochs": 1}
    return write_spec(folder / "list.json", **{**spec, **more})


def test_a_bad_photo_is_substituted_in_every_mosaic_that_meets_it(start, folder, photos):
    photo_list(folder, photos, bad=[7])
    service = start(workers=2)
    with bulkhead.Loader(list_spec(folder, errors={**SUBSTITUTE, "max_fraction": 1}), service.target) as loader:
        images = [np.array(batch["image"]) for batch in loader]
        told = loader.substitutions
    # The photo at 7 gives way to the one at 8, also for others.
    assert {(one.position, one.substitute_position) for one in told} == {(7, 8)}
    assert sum("stages[1] mosaic: its " in one.message for one in told) == len(told) - 1 > 0
    assert all("7.jpg" in one.message for one in told)
    with bulkhead.Loader(list_spec(folder, errors={**SUBSTITUTE, "max_fraction": 0.05}), service.target) as loader:
        with pytest.raises(bulkhead.BulkheadError) as error:
            list(loader)
    assert error.value.reason == "TOO_MANY_SUBSTITUTIONS", "each of them counts"
    with bulkhead.Loader(list_spec(folder), service.target) as loader:
        with pytest.raises(bulkhead.BulkheadError) as error:
            list(loader)
    assert "7.jpg" in str(error.value) and error.value.metadata["position"] == "7"
    # In quarantine it is as bad, without being read.
    with_set = [folder / "list.json"]
    write_spec(with_set[0], source={"image_list": {"path": "list.txt"}}, stages=["decode_image", {"mosaic": {"size": 64}}],
               outputs=["image", "label"], batch={"size": 5}, order="sequential", epochs=1,
               errors={**SUBSTITUTE, "max_fraction": 1})
    subprocess.run([BIN / "bulkhead", "quarantine", "add", "--target", service.target, "7.jpg"], check=True)
    with bulkhead.Loader(with_set[0], service.target) as loader:
        again = [np.array(batch["image"]) for batch in loader]
        assert len(loader.substitutions) == len(told)
    assert np.array_equal(np.concatenate(again), np.concatenate(images))


def test_a_poison_photo_is_found_among_four(start, folder, photos):
    photo_list(folder, photos)
    service = start("--allow-fault-stages", "--worker-quota", "128MiB", workers=2)
    stages = ["decode_image", {"fault": {"crash": True, "records": [7]}}, {"mosaic": {"size": 64}}]
    spec = list_spec(folder, stages=stages, errors={**SUBSTITUTE, "max_fraction": 1})
    found, cursors = samples(spec, service.target)
    assert len(found) == 20
    assert cursors[-1]["quarantined"] == ["7.jpg"], "nobody else is blamed"
    # The same set from the start gives the same samples.
    again, _ = samples(spec, service.target)
    assert as_bytes(again) == as_bytes(found)


def test_the_sheet_shows_it(start, folder, photos):
    photo_list(folder, photos)
    service = start()
    spec = list_spec(folder)
    found, _ = samples(spec, service.target)
    subprocess.run([BIN / "bulkhead", "preview", "--spec", spec, "--out", folder / "sheet.png", "--cell", "64",
                    "--samples", "6", "--stages", "--target", service.target], check=True)
    sheet = cv2.imread(str(folder / "sheet.png"))
    for position in range(6):
        wanted = found[0, position]["image"][:, :, ::-1].copy()
        _, _, (left, top), _ = cv2.minMaxLoc(cv2.matchTemplate(sheet, wanted, cv2.TM_SQDIFF))
        assert np.array_equal(sheet[top : top + 64, left : left + 64], wanted)


def test_it_is_pure_and_explained(folder, photos, spec):
    said = subprocess.run([BIN / "bulkhead", "validate", "--purity", "40", spec], capture_output=True, text=True)
    assert "pure: 40 samples" in said.stdout, said.stdout + said.stderr
    said = subprocess.run([BIN / "bulkhead", "explain", "--spec", spec], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    [at] = [i for i, line in enumerate(lines) if "] mosaic" in line]
    shown = "\n".join(lines[at : at + 3])
    assert "again  up to float32 [64,4]" in shown and "boxes  up to float32 [64,4]" in shown
    assert "uint8 [96,96,3]" in shown
