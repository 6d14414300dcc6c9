"""Writes bulkhead/_spec/option_limits.py; scripts/update_generated.sh runs it.

What is declared of options (server/stages, server/spec/declared_options.cc) and cannot be read from the messages. A test
fails while the file is stale.
"""

import json
import os
import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
OUTPUT = HERE / "bulkhead" / "_spec" / "option_limits.py"

HEADER = '''"""What is declared of options, by field. Written by update_option_limits.py."""

from __future__ import annotations

from typing import Dict, Tuple
'''


def limits():
    """Of the build that tests run on, or of the usual one."""
    build = os.environ.get("BULKHEAD_BUILD_DIR", HERE.parents[1] / "build" / "release")
    return json.loads((pathlib.Path(build) / "option_limits.json").read_text())


def entry(name, value):
    """One line of a dict, or two."""
    line = f'    "{name}": {value},'
    return line if len(line) <= 100 else f'    "{name}": (\n        {value}\n    ),'


def generate():
    """The text of the file."""
    lines = [HEADER, "# Why a number cannot be 0, which a message would take for one that is not set."]
    lines.append("ZEROS: Dict[str, str] = {")
    fields = sorted(limits().items())
    lines += [entry(name, json.dumps(told["zero"])) for name, told in fields if "zero" in told]
    lines += ["}", "# The values that an option takes, where its type has more."]
    lines.append("VALUES: Dict[str, Tuple[str, ...]] = {")
    for name, told in fields:
        values = told.get("values", [])
        if not values or not isinstance(values[0], str):
            continue
        text = ", ".join(json.dumps(value) for value in values)
        lines.append(f'    "{name}": (')
        lines += textwrap.wrap(text + ",", 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
        lines.append("    ),")
    lines.append("}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(generate())
    sys.stdout.write(f"wrote {OUTPUT}\n")
