"""scripts/quickstart.sh says at once what is wrong with its argument, and building says what goes on."""

import os
import pathlib
import shutil
import subprocess

import pytest

SCRIPTS = pathlib.Path(os.environ["BULKHEAD_SOURCE_DIR"]) / "scripts"


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path):
    """One in which nothing is installed and built, and `bulkhead` repeats its arguments."""
    for name in ("quickstart.sh", "common.sh"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        shutil.copy(SCRIPTS / name, tmp_path / "scripts")
    for name in ("setup.sh", "build.sh"):
        program(tmp_path / "scripts" / name, f"echo {name} ran")
    program(tmp_path / "build/release/bin/bulkhead", 'echo "bulkhead $*"')
    return tmp_path


def quickstart(clone, *arguments):
    return subprocess.run([clone / "scripts/quickstart.sh", *arguments], cwd=clone, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("wrong", ["nowhere", "none-*.tfrecord", "--batches"])
def test_data_that_are_not_there_are_told_before_anything_is_installed(clone, wrong):
    done = quickstart(clone, wrong, "5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"quickstart: there is no file or folder '{wrong}'; the data come first, then options: try --help\n"


@pytest.mark.parametrize("data", ["photos", "a list.txt", "shard-*.tar", "s3://bucket/x-*.tar"])
def test_data_that_may_be_there_are_streamed(clone, data):
    (clone / "photos").mkdir()
    for name in ("a list.txt", "shard-0.tar"):
        (clone / name).touch()
    done = quickstart(clone, data, "--batches", "5")
    assert done.returncode == 0 and "setup.sh ran" in done.stdout, done
    assert done.stdout.endswith(f"bulkhead stream {data} --batches 5\n")


def test_without_a_terminal_building_says_how_far_it_is(clone):
    steps = "".join(f"[{percent:3}%] Building CXX object x.o\\n" for percent in (0, 4, 13, 19, 52, 100))
    program(clone / "path/cmake", f'[[ $1 == --preset ]] || printf %b "{steps}"')
    done = subprocess.run(
        ["bash", "-c", "source scripts/common.sh && build bulkheadd"], cwd=clone, capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{clone / 'path'}:{os.environ['PATH']}"})
    first, *lines, last = done.stderr.splitlines()
    assert first == "build: bulkheadd (the first time takes some minutes)"
    assert [line.partition(" after ")[0] for line in lines] == ["build: 10 %", "build: 50 %", "build: 100 %"]
    assert last.startswith("build: done in ")
