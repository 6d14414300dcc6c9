"""Writes bulkhead/_spec/option_limits.py and foreign_words.py; scripts/update_generated.sh runs it.

What is declared of options (server/stages, server/spec/declared_options.cc) and cannot be read from the messages. A test
fails while the file is stale.
"""

import json
import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import option_table  # noqa: E402

OUTPUT = HERE / "bulkhead" / "_spec" / "option_limits.py"

WORDS = OUTPUT.with_name("foreign_words.py")

WORDS_HEADER = '''"""Words of other libraries, and what to write instead. Written by update_option_limits.py."""

from __future__ import annotations

from typing import Dict, Tuple

# By message, and by the word without case and signs: a sentence, what stands for its $0 if nothing was written, and the
# stage that takes the options of a map as they are.
WORDS: Dict[str, Dict[str, Tuple[str, str, str]]] = {
'''

HEADER = '''"""What is declared of options, by field. Written by update_option_limits.py."""

from __future__ import annotations

from typing import Dict, Tuple
'''


def entry(name, value):
    """One line of a dict, or two."""
    line = f'    "{name}": {value},'
    return line if len(line) <= 100 else f'    "{name}": (\n        {value}\n    ),'


def generate():
    """The text of the file."""
    lines = [HEADER, "# Why a number cannot be 0, which a message would take for one that is not set."]
    lines.append("ZEROS: Dict[str, str] = {")
    fields = sorted(option_table.by_field().items())
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


def generate_words():
    """The text of the other file (server/spec/yaml/foreign_words.cc)."""
    lines = [WORDS_HEADER.rstrip("\n")]
    for message, told in sorted(option_table.read().items()):
        if "foreign_words" not in told:
            continue
        lines.append(f'    "{message}": {{')
        for word, (sentence, *rest) in sorted(told["foreign_words"].items()):
            parts = [json.dumps(line) for line in textwrap.wrap(sentence, 76, drop_whitespace=False)]
            tail = ", ".join(map(json.dumps, rest))
            if len(parts) == 1 and len(parts[0]) + len(word) + len(tail) < 82:
                lines.append(f'        "{word}": ({parts[0]}, {tail}),')
            else:
                lines.append(f'        "{word}": (')
                lines += [" " * 12 + part for part in parts[:-1]]
                lines += [f"            {parts[-1]},", f"            {tail},", "        ),"]
        lines.append("    },")
    lines += ["}", "# The names of options here by those there.", "OPTION_NAMES: Dict[str, str] = {"]
    names = option_table.read()["bulkhead.v1.Stage"]["foreign_names"]
    return "\n".join([*lines, *(f'    "{there}": "{here}",' for there, here in sorted(names.items())), "}"]) + "\n"


if __name__ == "__main__":
    for path, text in ((OUTPUT, generate()), (WORDS, generate_words())):
        path.write_text(text)
        sys.stdout.write(f"wrote {path}\n")
