"""examples/frames: its program runs. That overlapping windows share decoded frames: tests/pipeline/decoded_frames_test.cc."""

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


def test_the_spec_is_valid():
    assert "image" in tool("validate", EXAMPLE / "train.yaml")
