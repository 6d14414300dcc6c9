"""Writes the tables of options in docs/stages/*.md from the declarations; scripts/update_generated.sh runs it.

A table stands between `<!-- options: STAGE -->` and `<!-- end of options -->`. The first line may name options, if the
page lists a stage's options in several tables. A test fails while a page is stale.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "stages").glob("*.md"))
sys.path.insert(0, str(ROOT / "client" / "python"))

import stage_table  # noqa: E402

END = "<!-- end of options -->"
_TABLE = re.compile(rf"<!-- options: ([\w ]+) -->\n.*?{END}", re.DOTALL)


def rows(options):
    """A table's lines; a column that says nothing is left out."""
    yield ("option", "meaning", "allowed", "default")
    yield ("---",) * 4
    for option in options:
        default = "required" if option["required"] else option["default"]
        yield (f"`{option['name']}`", option["meaning"].rstrip("."), option["allowed"], default)


def table(stages, words, shown):
    """The lines of one table; `shown` gains the (stage, option) that it has."""
    name, *wanted = words.split()
    options = stages[name]
    if not wanted:  # docs/stages.md says what `input` is for most stages
        named = [o for o in options if o["name"] == "input" and "is read and replaced" in o["meaning"]]
        shown.update((name, o["name"]) for o in named)
        wanted = [o["name"] for o in options if o not in named]
    shown.update((name, option) for option in wanted)
    columns = list(zip(*rows([next(o for o in options if o["name"] == name) for name in wanted])))
    lines = zip(*(column for column in columns if any(column[2:])))
    table_lines = [f"|{'|'.join(line)}|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"<!-- options: {words} -->", *table_lines, END])


def generate():
    """The text of each page, by its path."""
    stages = {stage["stage"]: stage["options"] for stage in stage_table.read().values()}
    shown = set()
    texts = {page: _TABLE.sub(lambda match: table(stages, match[1], shown), page.read_text()) for page in PAGES}
    missing = sorted({(s, o["name"]) for s, options in stages.items() for o in options} - shown)
    missing = [f"{stage}.{option}" for stage, option in missing if option != "input"]
    if missing:
        raise SystemExit(f"docs/stages has no table with {', '.join(missing)}")
    return texts


if __name__ == "__main__":
    for page, text in generate().items():
        page.write_text(text)
    sys.stdout.write(f"wrote {PAGES[0].parent}\n")
