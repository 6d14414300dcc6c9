"""All that is known of the options of specs, as the build writes it (build/<preset>/options.json).

The comments of the .proto files, joined with what is declared in server/stages and server/spec/declared_options.cc:
defaults, ranges, whether an option is required (server/spec/options/options_main.cc).
"""

import json
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def path():
    """Of the build that tests run on, or of the usual one."""
    build = os.environ.get("BULKHEAD_BUILD_DIR", ROOT / "build" / "release")
    return pathlib.Path(build) / "options.json"


def number(value):
    """A whole number without a point: some readers tell 1 from 1.0."""
    return int(value) if value == int(value) else value


def read():
    """By the full name of a message: what it means, its options, a stage's family, words of other libraries."""
    return json.loads(path().read_text(), parse_float=lambda text: number(float(text)))


def by_field():
    """The options by the full names of their fields."""
    return {f"{message}.{option['name']}": option for message, told in read().items() for option in told["options"]}


def spelled(message):
    """How specs call a message that is no choice of a oneof: "ErrorPolicy" is "error_policy"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message.rpartition(".")[2]).lower()
