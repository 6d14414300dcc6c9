"""examples/frames: its program runs, and overlapping windows cost no more than single frames."""

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


def test_the_program_runs_and_windows_cost_about_what_their_frames_do(tmp_path):
    package = pathlib.Path(bulkhead.__file__).parents[1]
    file = tmp_path / "found.json"
    subprocess.run([sys.executable, EXAMPLE / "run.py", "--clips", "4", "--json", file],
                   env={**os.environ, "PYTHONPATH": str(package)}, timeout=500, check=True)  # fmt: skip
    found = json.loads(file.read_text())
    assert found["shape"] == [32, 9, 224, 224]
    # Machines that tests share are noisy: half is far from three times as slow.
    assert found["windows"] > 0.5 * found["single"]
    assert found["overlapping"] > 0.8 * found["windows"]


def test_the_spec_is_valid():
    assert "image" in tool("validate", EXAMPLE / "train.yaml")
