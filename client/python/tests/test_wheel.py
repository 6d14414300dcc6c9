"""The wheel holds the package, whole, for any CPython on any machine."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import bulkhead
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = ROOT.parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    missing = [
        name for name in ("pip", "setuptools", "wheel") if not importlib.util.find_spec(name)
    ]
    if missing:
        pytest.skip(f"a wheel needs python3-{', python3-'.join(missing)}")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "tests", "build", "*.egg-info")
    shutil.copytree(ROOT, source, ignore=ignored)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        + ["--no-index", "-w", folder / "out", source],
        check=True,
    )
    (built,) = (folder / "out").iterdir()
    return built


def test_it_is_for_any_machine(wheel):
    assert wheel.name == f"bulkhead_loader-{bulkhead.__version__}-py3-none-any.whl"


def test_it_holds_every_module_and_what_they_read(wheel):
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if name.startswith("bulkhead/")}
    package = ROOT / "bulkhead"
    wanted = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == {f"bulkhead/{name}" for name in wanted}
    assert {"py.typed", "_rpc/descriptors.binpb", "_spec/pipeline_methods.py"} <= wanted


def test_what_it_holds_works_by_itself(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path)
    code = (
        "import bulkhead, sys; assert bulkhead.__file__.startswith(sys.argv[1]); "
        "print(bulkhead.Pipeline.range(3).batch(2).to_yaml(), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == "source: {range: {size: 3}}\nbatch: {size: 2}\n"


def test_its_description_names_what_it_needs(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith("/METADATA"))
        text = file.read(name).decode()
    for line in ("Name: bulkhead-loader", "Requires-Python: >=3.9", "Requires-Dist: protobuf", "Provides-Extra: yaml"):
        assert line in text
    # What a package index shows.
    for line in ("License: Apache-2.0", "Classifier: Typing :: Typed", "Description-Content-Type: text/markdown"):
        assert line in text
    assert text.partition("\n\n")[2].startswith("# Bulkhead\n")


def test_cmake_takes_the_version_from_the_package():
    (said,) = [line for line in (REPOSITORY / "CMakeLists.txt").read_text().splitlines() if line.startswith("project(")]
    assert said == "project(Bulkhead VERSION ${version} LANGUAGES C CXX)"
    header = pathlib.Path(os.environ.get("BULKHEAD_BUILD_DIR", REPOSITORY / "build/release")) / "server/base/gen/server/base/version.h"
    if not header.exists():
        pytest.skip(f"nothing is built: there is no {header}")
    assert f'"{bulkhead.__version__}"' in header.read_text()
