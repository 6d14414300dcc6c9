"""Writes the tables of options in docs/spec.md and docs/stages/*.md from the declarations; scripts/update_generated.sh runs it.

A table stands between `<!-- options: NAME -->` and `<!-- end of options -->`. NAME is what specs call a stage, a source
or an order, or the message otherwise ("error_policy"); the first line may name options, where the page
tells of them in several tables. A test fails while a page is stale.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs" / "spec.md", *sorted((ROOT / "docs" / "stages").glob("*.md"))]
sys.path.insert(0, str(ROOT / "client" / "python"))

import option_table  # noqa: E402
from update_pipeline import Descriptors, last  # noqa: E402

END = "<!-- end of options -->"
_TABLE = re.compile(rf"<!-- options: ([\w ]+) -->\n.*?{END}", re.DOTALL)
# Messages whose members specs call by name.
CHOICES = ("Source", "Stage", "BatchStage", "Order")
# Told of where others are.
ELSEWHERE = ("float_feature", "stage_output", "truncated_images")


def tables():
    """The options of each table, by its name."""
    types = Descriptors()
    named = {}
    for choice in CHOICES:
        named.update((field.type_name, field.name) for field in types.message(choice).field)
    found = {}
    for message, told in option_table.read().items():
        options = [option for option in told["options"] if option["meaning"]]
        if last(message) not in CHOICES:
            found[named.get(f".{message}", option_table.spelled(message))] = options
    return found


def rows(options, headings):
    """A table's lines; a column that says nothing is left out."""
    yield ("option", "meaning", "allowed", "default")
    yield ("---",) * 4
    for option in options:
        default = "required" if option["required"] else option["default"]
        name, anchor = f"`{option['name']}`", option["name"].replace("_", "-")
        name = f"[{name}](#{anchor})" if anchor in headings else name
        yield (name, option["meaning"].rstrip("."), option["allowed"], default)


def table(found, words, headings, shown):
    """The lines of one table; `shown` gains the (table, option) that it has."""
    name, *wanted = words.split()
    options = found[name]
    if not wanted:  # of most stages the page says once what `input` is
        named = [o for o in options if o["name"] == "input" and "is read and replaced" in o["meaning"]]
        shown.update((name, o["name"]) for o in named)
        wanted = [o["name"] for o in options if o not in named]
    shown.update((name, option) for option in wanted)
    columns = list(zip(*rows([next(o for o in options if o["name"] == name) for name in wanted], headings)))
    lines = zip(*(column for column in columns if any(column[2:])))
    table_lines = [f"|{'|'.join(line)}|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"<!-- options: {words} -->", *table_lines, END])


def outputs():
    """The texts of the pages."""
    found, shown, texts = tables(), set(), {}
    for page in PAGES:
        text = page.read_text()
        headings = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.*)$", text, re.MULTILINE)}
        headings = headings if page.name == "spec.md" else set()
        texts[page] = _TABLE.sub(lambda match, of=headings: table(found, match[1], of, shown), text)
    every = {(name, o["name"]) for name, options in found.items() for o in options if name not in ELSEWHERE}
    missing = [f"{name}.{option}" for name, option in sorted(every - shown) if option != "input"]
    if missing:
        raise SystemExit(f"docs/spec.md and docs/stages have no table with {', '.join(missing)}")
    return texts


if __name__ == "__main__":
    for path, text in outputs().items():
        path.write_text(text)
        sys.stdout.write(f"wrote {path}\n")
