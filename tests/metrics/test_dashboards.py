"""The files of the dashboards."""

import re

import pytest
from dashboards import DASHBOARDS, METRICS_PAGE, documented_labels, documented_metrics, metrics_in

pytestmark = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


def test_it_is_named_and_linked_like_its_file(dashboard):
    assert dashboard.json["uid"] == dashboard.name
    assert f"(../dashboards/{dashboard.name}.json)" in METRICS_PAGE


def test_expressions_use_documented_metrics_only(dashboard):
    for title, expression in dashboard.expressions():
        assert metrics_in(expression) or re.search(r"\bup\{", expression), title
        assert metrics_in(expression) <= documented_metrics(), title


def test_panels_are_whole_and_do_not_overlap(dashboard):
    taken = set()
    assert len({panel["id"] for panel in dashboard.panels}) == len(dashboard.panels)
    for panel in dashboard.panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"


def test_every_series_is_of_what_is_chosen(dashboard):
    labels = {"up": set(), **documented_labels()}
    for title, expression in dashboard.expressions():
        for metric, selector in re.findall(r"\b(bulkhead_\w+|up\b)(\{[^}]*\})?", expression):
            [metric] = metrics_in(metric) or [metric]
            for variable in ("job", "instance", *(labels[metric] & dashboard.variables.keys())):
                assert f'{variable}=~"${variable}"' in selector, (title, metric, selector)
