"""The programs of Bulkhead, as its wheel installs them: `bulkhead` and `bulkheadd` on the PATH, and what they start.

The folders bin and lib beside this file are those of `cmake --install`. This package imports nothing of the client, so
that a command starts at once.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def _become(name: str) -> NoReturn:
    program = os.path.join(FOLDER, name)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program} cannot be run: {error.strerror}; install the wheel bulkhead-loader again")


def bulkhead() -> NoReturn:
    """The command `bulkhead`."""
    _become("bulkhead")


def bulkheadd() -> NoReturn:
    """The service."""
    _become("bulkheadd")
