"""Alerts: promtool's verdict, a page for each, and each firing in a real Prometheus on a real fault."""

import subprocess

import bulkhead
import pytest
import yaml
from alert_rules import RULES, alerts, quick, rules
from dashboards import documented_metrics, metrics_in
from prometheus import ROOT, program
from watched import Trainer, Watched, promised_bytes, spec_of


def test_promtool_accepts_the_rules_and_their_cases():
    for command in (["check", "rules", RULES], ["test", "rules", RULES.with_suffix(".test.yaml")]):
        run = subprocess.run([program("promtool"), *map(str, command)], capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr


def test_every_alert_has_cases_and_a_page_that_begins_with_it():
    cases = yaml.safe_load(RULES.with_suffix(".test.yaml").read_text())["tests"]
    tested = {test["alertname"] for case in cases for test in case["alert_rule_test"] if test.get("exp_alerts")}
    assert tested == set(alerts())
    for name, rule in alerts().items():
        page = (ROOT / rule["annotations"]["runbook"]).read_text()
        assert page.startswith(f"# What do I do when {name} fires?\n")
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs/runbooks").glob("*.md")}
    assert pages == {rule["annotations"]["runbook"] for rule in alerts().values()}


def test_expressions_use_documented_metrics_only():
    for rule in rules():
        assert metrics_in(rule["expr"]) <= documented_metrics()


@pytest.fixture
def watched(tmp_path):
    made = []

    def make(*options):
        made.append(Watched(tmp_path / f"service{len(made)}", *options, rules=quick(tmp_path)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_a_leak_fires(watched):
    one = watched("--workers", "1", "--worker-quota", "96MiB")
    spec = spec_of(one.folder, {"fault": {"leak": "64KiB"}}, {"fault": {"slow": 0.002}})
    trainer = Trainer(spec, one.service.target)
    try:
        one.wait_for("BulkheadStageLeaks")
    finally:
        trainer.stop()


def test_crashes_and_the_quarantine_fire(watched):
    one = watched("--workers", "2")
    spec = spec_of(
        one.folder, {"fault": {"crash": True, "records": [40, 90, 140]}}, errors={"policy": "substitute"}
    )
    trainer = Trainer(spec, one.service.target)
    try:
        one.wait_for("BulkheadWorkersCrash")
        one.wait_for("BulkheadQuarantineGrows")
    finally:
        trainer.stop()


def test_a_trainer_that_waits_fires_and_one_that_is_slow_does_not(watched):
    starved, healthy = watched("--workers", "1"), watched("--workers", "1")
    slow_stage = spec_of(starved.folder, {"fault": {"slow": 0.02}})
    trainers = [Trainer(slow_stage, starved.service.target)]
    with bulkhead.Loader(spec_of(healthy.folder), healthy.service.target, name="trainer") as loader:
        try:
            starved.wait_for("BulkheadTrainerStarves", meanwhile=loader.next_batch)
            assert "BulkheadTrainerStarves" not in healthy.firing()
            assert healthy.prometheus.value("bulkhead:stream_waiting_for_workers:ratio") is not None
        finally:
            for trainer in trainers:
                trainer.stop()


def test_a_full_budget_fires(watched):
    roomy = watched("--workers", "1", "--worker-quota", "256MiB", "--memory-budget", "2GiB")
    with bulkhead.Loader(spec_of(roomy.folder), roomy.service.target) as loader:
        loader.next_batch()
        needed = promised_bytes(roomy.service)
        tight = watched("--workers", "1", "--worker-quota", "256MiB", "--memory-budget", f"{(needed >> 20) + 2}MiB")
        with bulkhead.Loader(spec_of(tight.folder), tight.service.target):
            tight.wait_for("BulkheadBudgetNearlyFull")
            assert "BulkheadBudgetNearlyFull" not in roomy.firing()


def test_restarts_fire(watched):
    one = watched("--workers", "1")
    for number in range(4):
        one.wait_until_scraped()
        if number < 3:
            one.restart()
    one.wait_for("BulkheadServiceRestarts")
