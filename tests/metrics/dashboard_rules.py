"""Rules of Grafana's dashboard-linter that need no parser of PromQL, by its names; and two of our own: no irate, and each variable takes several values."""

from __future__ import annotations

import re
from collections.abc import Iterator

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Of those that Grafana knows, what our metrics are measured in.
UNITS = {"short", "percentunit", "bytes", "s", "cps", "bool_yes_no"}


def complaints(board: dict) -> Iterator[tuple[str, str]]:
    """(rule, where it is broken)."""
    if board["editable"]:
        yield "uneditable-dashboard", board["title"]
    yield from _of_variables(board["templating"]["list"])
    for panel in board["panels"]:
        where = panel.get("title", "")
        if not where or not panel.get("description"):
            yield "panel-title-description-rule", where
        if panel.get("datasource") != DATASOURCE:
            yield "panel-datasource-rule", where
        if panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
            yield "panel-units-rule", where
        if not panel["targets"]:
            yield "panel-no-targets-rule", where
        for target in panel["targets"]:
            if target.get("datasource") != DATASOURCE:
                yield "panel-datasource-rule", where
            for rule in _of_expression(target["expr"]):
                yield rule, f"{where}: {target['expr']}"


def _of_variables(variables: list[dict]) -> Iterator[tuple[str, str]]:
    sources = [
        (variable["name"], variable["label"], variable["query"])
        for variable in variables
        if variable["type"] == "datasource"
    ]
    if sources != [("datasource", "Data source", "prometheus")]:
        yield "template-datasource-rule", str(sources)
    named = {variable["name"]: variable for variable in variables}
    for name in ("job", "instance"):
        wanted = {
            "type": "query",
            "datasource": DATASOURCE,
            "label": name.capitalize(),
            "multi": True,
            "includeAll": True,
            "allValue": ".+",
        }
        if not wanted.items() <= named.get(name, {}).items():
            yield f"template-{name}-rule", name
    for variable in variables:
        if variable["type"] != "query":
            continue
        if variable["refresh"] != 2:
            yield "template-on-time-change-reload-rule", variable["name"]
        if variable["name"] not in ("job", "instance") and not (variable["multi"] and variable["includeAll"]):
            yield "several or all", variable["name"]


def _of_expression(expression: str) -> Iterator[str]:
    for selector in re.findall(r"\b(?:bulkhead_\w+|up\b)(\{[^}]*\})?", expression):
        for label in ("job", "instance"):
            if f'{label}=~"${label}"' not in selector:
                yield f"target-{label}-rule"
    if re.search(r"\bi?rate\((?![^()]*\[\$__rate_interval\]\))", expression):
        yield "target-rate-interval-rule"
    if "irate(" in expression:
        yield "no irate"
    if "_total" in re.sub(r"\b(i?rate|increase)\(\w+_total\{[^}]*\}\[[^]]*\]\)", "", expression):
        yield "target-counter-agg-rule"
    if "_bucket" in expression and not expression.startswith("histogram_quantile("):
        yield "target-histogram-rule"
