"""The table of all stages and their options that the build writes (build/<preset>/stages.json).

What stages.proto says of an option, and what its declaration in server/stages knows: default,
range, whether it is required.
"""

import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def path():
    """Of the build that tests run on, or of the usual one."""
    build = os.environ.get("BULKHEAD_BUILD_DIR", ROOT / "build" / "release")
    return pathlib.Path(build) / "stages.json"


def read():
    """By the name of the stage's message: its name in specs, its meaning, its options."""
    return json.loads(path().read_text())
