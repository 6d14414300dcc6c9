"""A cursor saved by one client, moved by the tool, looked at again; and the example that resumes elastically."""

import contextlib
import json
import os
import subprocess
import sys

import cv2
import numpy as np
import pytest

import bulkhead
from conftest import BIN, HERE, PYTHON_PACKAGE, Service, write_spec


def bulkhead_command(*arguments, check=True):
    return subprocess.run(
        [BIN / "bulkhead", *map(str, arguments)], check=check, capture_output=True, text=True, timeout=120
    )


def photo_spec(photos, folder):
    return write_spec(
        folder / "photos.yaml",
        source={"image_folder": {"path": str(photos / "folder")}},
        stages=["decode_image", {"random_resized_crop": {"size": [32, 32]}}],
        batch={"size": 20},
        order={"global": {}},
        epochs=3,
    )


def test_advance_lands_where_training_lands(photos, folder):
    with bulkhead.Loader(photo_spec(photos, folder)) as loader:
        start = folder / "start.json"
        start.write_text(json.dumps(loader.state_dict()))
        cursors = [batch.cursor for batch in loader.stream()]
    assert len(cursors) == 3 * 8  # seven batches of 20 and one of 10
    for batches in (1, 7, 8, 9, 24):
        said = bulkhead_command("cursor", "advance", start, "--batches", batches, "--batch-size", 20)
        assert json.loads(said.stdout) == cursors[batches - 1]


def test_diff_says_whether_cursors_differ(folder):
    spec = write_spec(folder / "range.yaml", source={"range": {"size": 100}}, batch={"size": 10})
    with bulkhead.Loader(spec) as loader:
        (folder / "a.json").write_text(json.dumps(loader.state_dict()))
        loader.next_batch()
        (folder / "b.json").write_text(json.dumps(loader.state_dict()))
    same = bulkhead_command("cursor", "diff", folder / "a.json", folder / "a.json")
    assert "equal" in same.stdout
    other = bulkhead_command("cursor", "diff", folder / "a.json", folder / "b.json", check=False)
    assert (other.returncode, "10 positions ahead" in other.stdout) == (1, True)
    (folder / "b.json").write_text('{"version": 1,')
    broken = bulkhead_command("cursor", "diff", folder / "a.json", folder / "b.json", check=False)
    assert (broken.returncode, "b.json:1:" in broken.stderr) == (2, True)


def test_replay_gives_the_very_batches_that_training_saw(photos, folder):
    spec = photo_spec(photos, folder)
    with bulkhead.Loader(spec, credits=6) as loader:
        batches = [loader.next_batch() for _ in range(5)]
    (folder / "cursor.json").write_text(json.dumps(batches[2].cursor))
    out = folder / "spike"
    said = bulkhead_command(
        "replay", "--spec", spec, "--cursor", folder / "cursor.json", "--batches", 2, "--out", out
    )
    assert "epoch 0, positions 60 to 79: 20 samples" in said.stdout
    for batch in batches[3:]:
        prefix = f"epoch0-pos{batch.positions.start}-"
        for name, array in batch.items():
            replayed = np.load(out / f"{prefix}{name}.npy")
            assert replayed.dtype == array.dtype
            assert np.array_equal(replayed, array)
        assert json.loads((out / f"{prefix}next-cursor.json").read_text()) == batch.cursor
        sheet = cv2.imread(str(out / f"{prefix}image.png"))[:, :, ::-1]
        assert np.array_equal(sheet[2:34, 2:34], batch["image"][0])
        assert np.array_equal(sheet[36:68, 2:34], batch["image"][5])  # five columns


def test_replay_refuses_a_cursor_of_other_data(folder):
    spec = write_spec(folder / "a.yaml", source={"range": {"size": 100}}, batch={"size": 10})
    with bulkhead.Loader(spec) as loader:
        (folder / "c.json").write_text(json.dumps(loader.state_dict()))
    other = write_spec(folder / "b.yaml", source={"range": {"size": 101}}, batch={"size": 10})
    refused = bulkhead_command("replay", "--spec", other, "--cursor", folder / "c.json", check=False)
    assert refused.returncode == 1
    assert "the cursor belongs to other data" in refused.stderr


def test_the_largest_cursor_reaches_the_service_and_a_larger_one_is_refused_by_the_client(folder):
    spec = write_spec(folder / "a.yaml", source={"range": {"size": 100}}, batch={"size": 10})
    with bulkhead.Loader(spec) as loader:
        cursor = loader.state_dict()

    def refusal(files):
        code = [{"name": f"{number:04}{'n' * 1020}", "digest": "d" * 16} for number in range(files)]
        with pytest.raises(bulkhead.BulkheadError) as caught:
            bulkhead.Loader(spec, cursor={**cursor, "code": code})
        return caught.value.reason, str(caught.value)

    assert refusal(4096)[0] == "CURSOR_MISMATCH"  # over 4 MiB, gRPC's own limit; the files are not there
    assert refusal(4097)[0] == "CURSOR_MISMATCH"
    reason, message = refusal(8192)
    assert reason == "INVALID_ARGUMENT"
    assert "over the limit of 8388608 of a request" in message


def test_a_cursor_with_more_substitutions_than_samples_is_refused(folder):
    service = Service(folder, "--root", folder)
    spec = write_spec(folder / "spec.json", source={"range": {"size": 100}}, batch={"size": 10})
    with bulkhead.Loader(spec, service.target) as loader:
        next(iter(loader))
        cursor = dict(loader.state_dict())
    assert cursor["substitutions"] == 0
    for count, ok in [(100, True), (1 << 62, False)]:
        with contextlib.ExitStack() as stack:
            if not ok:
                stack.enter_context(pytest.raises(bulkhead.CursorMismatch, match="substituted by epoch 0, of 100 each"))
            with bulkhead.Loader(spec, service.target, cursor={**cursor, "substitutions": count}) as loader:
                assert next(iter(loader))["index"][0] == 10
    service.stop()


def test_the_elastic_resume_example_proves_what_it_says(folder):
    example = HERE.parents[1] / "examples/python/elastic_resume.py"
    run = subprocess.run(
        [sys.executable, example],
        env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "the 1003 samples of the epoch, each exactly once" in run.stdout
