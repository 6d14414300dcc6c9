"""Reads a Grafana dashboard: its panels, its queries, and what its variables stand for."""

from __future__ import annotations

import json
import pathlib
import re

from prometheus import ROOT

_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), *(?P<label>\w+)\)")


class Dashboard:
    def __init__(self, path: pathlib.Path):
        self.json = json.loads(path.read_text())
        self.panels = self.json["panels"]
        self.variables = {variable["name"]: variable for variable in self.json["templating"]["list"]}

    def expressions(self) -> list[tuple[str, str]]:
        """(title of the panel, expression) of every target."""
        return [(panel["title"], target["expr"]) for panel in self.panels for target in panel["targets"]]

    def expression(self, title: str) -> str:
        [found] = [expression for panel, expression in self.expressions() if panel == title]
        return found

    def label_queries(self) -> dict[str, tuple[str, str]]:
        """By variable: the series that it looks at, and the label whose values it offers."""
        found = {}
        for name, variable in self.variables.items():
            if variable["type"] == "query":
                match = _LABEL_VALUES.fullmatch(variable["query"]["query"])
                assert match, variable
                found[name] = (match["series"], match["label"])
        return found


def substituted(expression: str, **values: str) -> str:
    """The expression as Grafana would send it; every variable in it must have a value."""
    def value(match: re.Match) -> str:
        assert match[1] in values, f"{expression}: what is ${match[1]}?"
        return values[match[1]]

    return re.sub(r"\$\{?(\w+)\}?", value, expression)


def metrics_in(text: str) -> set[str]:
    """The metrics in an expression or an exposition; of a histogram's series the histogram."""
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bbulkhead_\w+", text)}


def documented_metrics() -> set[str]:
    return set(re.findall(r"^\| `(bulkhead_\w+)`", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
