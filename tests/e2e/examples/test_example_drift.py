"""examples/native-drift: a C library that leaks, becomes slow and crashes is contained and named, and its bytes are right."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import bulkhead
from conftest import HERE

EXAMPLE = HERE.parents[1] / "examples/native-drift"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What run.py wrote of a run with the faults, and of one without."""
    package = pathlib.Path(bulkhead.__file__).parents[1]
    file = tmp_path_factory.mktemp("drift") / "runs.json"
    subprocess.run([sys.executable, EXAMPLE / "run.py", "--records", "1200", "--json", file],
                   env={**os.environ, "PYTHONPATH": str(package)}, timeout=500, check=True)  # fmt: skip
    return json.loads(file.read_text())


def test_the_trainer_gets_every_sample_with_the_bytes_of_a_sound_library(runs):
    assert runs["faulty"]["each_once"] and runs["sound"]["each_once"]
    assert runs["faulty"]["digest"] == runs["sound"]["digest"]


def test_slow_workers_are_replaced_and_the_stage_is_named(runs):
    reasons = [reason for cause, reason in runs["faulty"]["replaced"] if cause == "slowdown"]
    assert reasons and all(reason.startswith("stages[0] python takes ") for reason in reasons)


def test_crashes_are_named_with_stage_and_record(runs):
    assert runs["sound"]["deaths"] == []
    assert runs["faulty"]["deaths"]
    for death in runs["faulty"]["deaths"]:
        assert death.startswith("killed by signal 11 ") and ", at stages[0] python of range@" in death


def test_what_the_library_kept_is_counted_for_its_stage_and_no_quota_is_met(runs):
    assert runs["faulty"]["limit_events"] == 0
    for stage, size, samples in runs["faulty"]["held"]:
        assert stage == "stages[0] python"
        assert 0.9 < size / (samples * (24 << 10)) < 1.3
