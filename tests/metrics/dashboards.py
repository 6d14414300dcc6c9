"""Reads Grafana dashboards: their panels, their queries, and what their variables stand for."""

from __future__ import annotations

import json
import pathlib
import re

from prometheus import ROOT

_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), *(?P<label>\w+)\)")


class Dashboard:
    def __init__(self, path: pathlib.Path):
        self.name = path.stem
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


DASHBOARDS = {path.stem: Dashboard(path) for path in sorted((ROOT / "dashboards").glob("*.json"))}
METRICS_PAGE = (ROOT / "docs/metrics.md").read_text()
# What the variables stand for while all is chosen.
VALUES = dict.fromkeys(("job", "instance", "pipeline", "stream"), ".+")


def substituted(expression: str, **values: str) -> str:
    """The expression as Grafana would send it; every variable in it must have a value."""
    def value(match: re.Match) -> str:
        assert match[1] in values, f"{expression}: what is ${match[1]}?"
        return values[match[1]]

    return re.sub(r"\$\{?(\w+)\}?", value, expression)


def metrics_in(text: str) -> set[str]:
    """The metrics in an expression or an exposition; of a histogram's series the histogram."""
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bbulkhead_\w+", text)}


def documented_labels() -> dict[str, set[str]]:
    """By metric."""
    rows = re.findall(r"^\| `(bulkhead_\w+)` \| \w+ \| \w* ?\| ([\w, ]*) ?\|", METRICS_PAGE, re.MULTILINE)
    return {metric: set(re.findall(r"\w+", labels)) for metric, labels in rows}


def documented_metrics() -> set[str]:
    return set(documented_labels())
