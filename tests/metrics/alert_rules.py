"""The rules and alerts of dashboards/bulkhead-alerts.yaml, and the same for a test's patience."""

from __future__ import annotations

import pathlib
import re

import yaml
from prometheus import ROOT

RULES = ROOT / "dashboards/bulkhead-alerts.yaml"


def rules() -> list[dict]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def alerts() -> dict[str, dict]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def quick(folder: pathlib.Path) -> pathlib.Path:
    """The rules with seconds in the place of hours, and no patience."""
    text = re.sub(r"\[\d+[hm]\]", "[20s]", RULES.read_text())
    path = folder / "rules.yaml"
    path.write_text(re.sub(r"^ +for: .*\n", "", text, flags=re.MULTILINE))
    return path
