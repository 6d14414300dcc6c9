"""The installed C++ client, as a program outside this tree finds it."""

import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BIN, write_spec

SOURCE = pathlib.Path(os.environ["BULKHEAD_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["BULKHEAD_BUILD_DIR"])


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=250, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("client") / "installed"
    run("cmake", "--install", BUILD, "--component", "client", "--prefix", prefix)
    # Where it was installed first does not matter.
    moved = prefix.with_name("moved")
    shutil.move(prefix, moved)
    return moved


def check(program, tmp_path):
    spec = write_spec(tmp_path / "s.json", source={"range": {"size": 100}}, batch={"size": 8}, epochs=2)
    environment = {**os.environ, "BULKHEAD_SERVER": str(BIN / "bulkheadd"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = run(program, spec, env=environment)
    assert "output index\n" in said and "samples 200\n" in said and "batches 26, " in said and '"epoch"' in said
    libraries = run("ldd", program)
    assert "opencv" not in libraries and "jpeg" not in libraries


def test_the_example_finds_it_with_cmake(prefix, tmp_path):
    build = tmp_path / "build"
    run("cmake", "-S", SOURCE / "examples/cpp", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "--build", build)
    check(build / "take_batches", tmp_path)


def test_the_example_finds_it_with_pkg_config(prefix, tmp_path):
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = run("pkg-config", "--static", "--cflags", "--libs", "bulkhead", env=environment).split()
    program = tmp_path / "take_batches"
    run("c++", "-std=c++20", SOURCE / "examples/cpp/take_batches.cc", "-o", program, *flags)
    check(program, tmp_path)
