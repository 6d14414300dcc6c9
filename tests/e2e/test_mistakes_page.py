"""docs/mistakes.md has the messages that its mistakes get today."""

import importlib.util
import pathlib

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "update_mistakes.py"


def test_every_mistake_is_told_as_the_page_says():
    spec = importlib.util.spec_from_file_location("update_mistakes", SCRIPT)
    update = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(update)
    page = update.generate()
    assert page.count("\n| ") > 40
    assert update.OUTPUT.read_text().splitlines() == page.splitlines(), "run scripts/update_generated.sh"
