"""The wheels in $BULKHEAD_WHEELS, and fresh environments with nothing but one of them. `scripts/wheel.sh --test` runs this.

$BULKHEAD_WHEEL_ENVIRONMENT names an environment that has the wheel already, with its extra `yaml`.
"""

import os
import pathlib
import subprocess
import sys
from typing import Optional

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Environment:
    """A virtual environment of $BULKHEAD_WHEEL_PYTHON, or else of this interpreter; without a wheel one that there is."""

    def __init__(self, folder: pathlib.Path, wheel: Optional[pathlib.Path], extra: str = ""):
        self.folder = folder
        base = os.environ.get("BULKHEAD_WHEEL_PYTHON", sys.executable)
        if wheel is not None:
            subprocess.run([base, "-m", "venv", folder], check=True)
            subprocess.run([self.program("pip"), "install", "-q", "--only-binary", ":all:", f"{wheel}{extra}"], check=True)
        code = "import os, bulkhead; print(os.path.dirname(os.path.dirname(bulkhead.__file__)))"
        self.packages = pathlib.Path(self.python(code).strip())
        self.programs = self.packages / "bulkhead_programs"

    def program(self, name: str) -> pathlib.Path:
        return self.folder / "bin" / name

    def run(self, *command, check=True, **more):
        """What it said; nothing of this tree or of another installation is in its way, nor anything of it on the PATH."""
        env = {name: os.environ[name] for name in ("HOME", "SSL_CERT_FILE") if name in os.environ}
        env["PATH"] = "/usr/bin:/bin"
        return subprocess.run(command, check=check, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)

    def python(self, code: str, *arguments, **more) -> str:
        done = self.run(self.program("python"), "-c", code, *arguments, check=False, **more)
        assert done.returncode == 0, done.stdout
        return done.stdout


def wheel_for(platform: str) -> pathlib.Path:
    folder = os.environ.get("BULKHEAD_WHEELS")
    if folder is None:
        pytest.fail("BULKHEAD_WHEELS names no folder of wheels; scripts/wheel.sh --test sets it")
    (wheel,) = pathlib.Path(folder).glob(f"bulkhead_loader-*-py3-none-{platform}.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel():
    return wheel_for("manylinux*_x86_64")


@pytest.fixture(scope="session")
def environment(request, tmp_path_factory):
    there = os.environ.get("BULKHEAD_WHEEL_ENVIRONMENT")
    if there:
        return Environment(pathlib.Path(there), None)
    return Environment(tmp_path_factory.mktemp("installed") / "env", request.getfixturevalue("wheel"), "[yaml]")


@pytest.fixture(scope="session")
def client_only(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("client") / "env", wheel_for("any"))


@pytest.fixture(scope="session")
def photos(environment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos") / "set"
    environment.run(environment.program("bulkhead"), "synth", folder, "--count", "150", "--size", "200x150", "--seed", "7")
    return folder
