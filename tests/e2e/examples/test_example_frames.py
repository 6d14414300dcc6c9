"""examples/frames: its program runs, and overlapping windows share the frames that are decoded."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

import bulkhead
from conftest import HERE, tool

EXAMPLE = HERE.parents[1] / "examples/frames"
pytest.importorskip("cv2")


def test_the_program_runs(tmp_path):
    package = pathlib.Path(bulkhead.__file__).parents[1]
    file = tmp_path / "found.json"
    subprocess.run([sys.executable, EXAMPLE / "run.py", "--clips", "4", "--json", file],
                   env={**os.environ, "PYTHONPATH": str(package)}, timeout=500, check=True)  # fmt: skip
    found = json.loads(file.read_text())
    assert found["shape"] == [32, 9, 224, 224]
    assert all(found[speed] > 0 for speed in ("single", "windows", "overlapping"))


def test_windows_in_blocks_share_decoded_frames(tmp_path):
    spec = importlib.util.spec_from_file_location("frames_run", EXAMPLE / "run.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.make_clips(tmp_path / "clips", 2)

    def decoded_a_sample(windows, order):
        with bulkhead.Loader(example.spec_of(tmp_path / "clips", windows, order), workers=1, threads=1) as loader:
            samples = sum(len(batch["image"]) for batch in loader)
            return sum(files["count"] for files in loader.status()["jpeg"]["files"]) / samples

    shuffled = {"global": {}}
    single, windows = decoded_a_sample(False, shuffled), decoded_a_sample(True, shuffled)
    overlapping = decoded_a_sample(True, {"block": {"block_size": 16, "window": 1}})
    assert single == 1 and windows > 2 and overlapping < 0.75 * windows, (single, windows, overlapping)


def test_the_spec_is_valid():
    assert "image" in tool("validate", EXAMPLE / "train.yaml")
