"""docs/first-hour.md as it stands: its files are written, its commands run in order, and print what stands below them.

The clone that the page begins in is a copy, already built: its scripts/setup.sh and scripts/build.sh do nothing. Home,
runtime folder and Python environment are new; the packages that pip would fetch are Debian's. tests/wheel runs the page
in an environment that has nothing but a wheel.
"""

import shutil

import pytest

from conftest import BIN, PYTHON_PACKAGE
from first_hour_page import Shell, follow


@pytest.fixture
def shell(tmp_path):
    """In a clone that is built, by somebody who has just come."""
    clone = tmp_path / "bulkhead"
    shutil.copytree(PYTHON_PACKAGE, clone / "client/python", ignore=shutil.ignore_patterns("__pycache__", "tests*", "build", "*.egg-info"))
    (clone / "build/release").mkdir(parents=True)
    (clone / "build/release/bin").symlink_to(BIN)
    (clone / "scripts").mkdir()
    for name in ("setup.sh", "build.sh"):
        (clone / "scripts" / name).symlink_to("/bin/true")
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
        "PYTHONPATH": f"{home}/environment:/usr/lib/python3/dist-packages", "PYTHONUNBUFFERED": "1",
        "PIP_TARGET": f"{home}/environment", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_NO_BUILD_ISOLATION": "0",  # which is how pip is told that it is not wanted
    }
    shell = Shell(clone, environment)
    yield shell
    shell.close()


def test_the_page_does_what_it_says(shell):
    follow(shell)
