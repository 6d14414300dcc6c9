"""docs/mistakes.md has the messages that its mistakes get today, and each says what to do."""

import importlib.util
import re

from conftest import HERE

ROOT = HERE.parents[1]
PAGE = ROOT / "docs/mistakes.md"

VERBS = ("add|allow|begin|call|change|check|convert|copy|correct|crop|declare|do|get|give|indent|let|name|open|put|raise|remove|repair"
         "|return|use|write")
# What a message asks for, or says to be right.
ADVICE = re.compile(rf"did you mean \S+\?|[;:,(] (?:{VERBS}) |(?<!to )\bwrite `|is required: |valid are |must (?:be|stand) |paths come first"
                    r"|an ending is |`errors: {policy: substitute}` takes others")
WITHOUT_ADVICE = ["it raises an exception"]  # of the reader's own, whose line is named


def test_every_mistake_is_told_as_the_page_says():
    spec = importlib.util.spec_from_file_location("update_mistakes", ROOT / "scripts/update_mistakes.py")
    update = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(update)
    page = update.generate()
    assert page.count("\n| ") > 40
    assert update.OUTPUT == PAGE and PAGE.read_text().splitlines() == page.splitlines(), "run scripts/update_generated.sh"


def test_every_message_says_what_to_do():
    rows = [re.split(r"(?<!\\) \| ", line[2:-2]) for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    messages = {written: said for written, said in rows if written != "mistake"}
    assert len(messages) > 40
    assert [written for written, said in messages.items() if not ADVICE.search(said)] == WITHOUT_ADVICE
