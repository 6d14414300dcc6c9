"""A virtual environment for each peer, in build/peers, with what its list in bench/peers/requirements names."""

import filecmp
import os
import shutil
import subprocess
import sys
import time

from support import ROOT

REQUIREMENTS = ROOT / "bench/peers/requirements"
ENVIRONMENTS = ROOT / "build/peers"


def uv():
    """The program that installs, in an environment of its own."""
    home = ENVIRONMENTS / "uv"
    if not (home / "bin/uv").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin/pip", "install", "-q", "uv"], check=True)
    return home / "bin/uv"


def prepare(name):
    """The Python of the environment, which is made where it is missing or its list has changed.

    None, with a line that says why, where it cannot be made.
    """
    home, wanted = ENVIRONMENTS / name, REQUIREMENTS / f"{name}.txt"
    python, made_of = home / "bin/python", home / "requirements.txt"
    if made_of.exists() and filecmp.cmp(wanted, made_of, shallow=False):
        return python
    sys.stderr.write(f"environment of {name}: is made in {home.relative_to(ROOT)} …\n")
    started = time.monotonic()
    shutil.rmtree(home, ignore_errors=True)
    try:
        ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
        installer = uv()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
        subprocess.run(
            [installer, "pip", "install", "-q", "--python", python, "-r", wanted],
            check=True, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "UV_CACHE_DIR": str(ENVIRONMENTS / "store")},  # so that PyTorch lies on the disk once
        )
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or str(error)).strip().splitlines()[0]
        sys.stderr.write(f"environment of {name}: cannot be made: {reason}\n")
        return None
    shutil.copyfile(wanted, made_of)
    sys.stderr.write(f"environment of {name}: made in {time.monotonic() - started:.0f} s\n")
    return python
