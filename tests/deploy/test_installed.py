"""What `cmake --install` puts into a folder, of the component with the programs."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("BULKHEAD_BUILD_DIR", ROOT / "build/release"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(
        ["cmake", "--install", BUILD, "--component", "runtime", "--strip", "--prefix", prefix],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return prefix


def test_the_programs_are_what_is_installed(installed):
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert files == {"bin/bulkheadd", "bin/bulkhead-worker", "bin/bulkhead-fetch", "bin/bulkhead-receive", "bin/bulkhead"}


def test_installed_programs_run_where_they_are_put(installed):
    for name in ("bulkheadd", "bulkhead"):
        said = subprocess.run([installed / "bin" / name, "--version"], check=True, capture_output=True, text=True)
        assert re.search(r"\d+\.\d+\.\d+", said.stdout)


def test_nothing_of_the_build_folder_is_left_in_the_programs(installed):
    for program in (installed / "bin").iterdir():
        headers = subprocess.run(["objdump", "-p", program], check=True, capture_output=True, text=True).stdout
        assert not re.search(r"RUNPATH|RPATH", headers), program
