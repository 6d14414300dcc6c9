"""docs/first-hour.md in a fresh environment: "with a wheel there is nothing to build: `pip install` it, and begin below"."""

import os
import sys

from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "e2e"))

from first_hour_page import Shell, follow  # noqa: E402


def test_the_page_does_what_it_says(environment, tmp_path):
    kept = {name: os.environ[name] for name in ("SSL_CERT_FILE",) if name in os.environ}
    shell = Shell(tmp_path, {**kept, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "LANG": "C.UTF-8",
                             "PATH": f"{environment.folder}/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"})
    try:
        follow(shell, first="## Look at the data")
    finally:
        shell.close()
