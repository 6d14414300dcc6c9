"""The files of the dashboards."""

import copy
import re

import pytest
from dashboard_rules import complaints
from dashboards import DASHBOARDS, METRICS_PAGE, documented_labels, documented_metrics, metrics_in

each = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


@each
def test_it_is_named_and_linked_like_its_file(dashboard):
    assert dashboard.json["uid"] == dashboard.name
    assert f"(../dashboards/{dashboard.name}.json)" in METRICS_PAGE


@each
def test_expressions_use_documented_metrics_only(dashboard):
    for title, expression in dashboard.expressions():
        assert metrics_in(expression) or re.search(r"\bup\{", expression), title
        assert metrics_in(expression) <= documented_metrics(), title


@each
def test_panels_do_not_overlap(dashboard):
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


@each
def test_every_series_is_of_what_is_chosen(dashboard):
    labels = {"up": set(), **documented_labels()}
    for title, expression in dashboard.expressions():
        for metric, selector in re.findall(r"\b(bulkhead_\w+|up\b)(\{[^}]*\})?", expression):
            [metric] = metrics_in(metric) or [metric]
            for variable in ("job", "instance", *(labels[metric] & dashboard.variables.keys())):
                assert f'{variable}=~"${variable}"' in selector, (title, metric, selector)


@each
def test_the_rules_of_dashboard_linter_are_kept(dashboard):
    assert list(complaints(dashboard.json)) == []


def variable(board, name):
    [found] = [entry for entry in board["templating"]["list"] if entry["name"] == name]
    return found


def say(board, expression):
    board["panels"][0]["targets"][0]["expr"] = expression


CHOSEN = '{job=~"$job",instance=~"$instance"}'
PLANTED = [
    ("uneditable-dashboard", lambda board: board.update(editable=True)),
    ("template-datasource-rule", lambda board: variable(board, "datasource").update(label="Source")),
    ("template-job-rule", lambda board: variable(board, "job").update(multi=False)),
    ("template-job-rule", lambda board: variable(board, "job").update(name="service")),
    ("template-instance-rule", lambda board: variable(board, "instance").update(allValue=".*")),
    ("template-on-time-change-reload-rule", lambda board: variable(board, "instance").update(refresh=1)),
    (
        "several or all",
        lambda board: board["templating"]["list"].append({**variable(board, "instance"), "name": "stream", "multi": False}),
    ),
    ("panel-title-description-rule", lambda board: board["panels"][0].pop("title")),
    ("panel-title-description-rule", lambda board: board["panels"][0].update(description="")),
    ("panel-datasource-rule", lambda board: board["panels"][0].pop("datasource")),
    ("panel-datasource-rule", lambda board: board["panels"][0]["targets"][0].update(datasource={"uid": "mine"})),
    ("panel-units-rule", lambda board: board["panels"][0]["fieldConfig"]["defaults"].update(unit="samples")),
    ("panel-no-targets-rule", lambda board: board["panels"][0].update(targets=[])),
    ("target-job-rule", lambda board: say(board, 'sum(up{instance=~"$instance"})')),
    ("target-instance-rule", lambda board: say(board, 'bulkhead_build_info{job=~"$job",instance="$instance"}')),
    ("target-rate-interval-rule", lambda board: say(board, f"rate(bulkhead_cpu_seconds_total{CHOSEN}[5m])")),
    ("target-counter-agg-rule", lambda board: say(board, f"sum(bulkhead_cpu_seconds_total{CHOSEN})")),
    ("no irate", lambda board: say(board, f"irate(bulkhead_cpu_seconds_total{CHOSEN}[$__rate_interval])")),
    ("target-histogram-rule", lambda board: say(board, f"bulkhead_stream_batch_gap_seconds_bucket{CHOSEN}")),
]


@pytest.mark.parametrize(("rule", "plant"), PLANTED)
def test_a_broken_rule_is_named(rule, plant):
    board = copy.deepcopy(DASHBOARDS["bulkhead-fleet"].json)
    plant(board)
    assert [broken for broken, _ in complaints(board)] == [rule]
