"""examples/runaway: a greedy stage stays in its compartment, and a consumer that dawdles makes nothing grow."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import bulkhead
from conftest import HERE

EXAMPLE = HERE.parents[1] / "examples/runaway"
RECORDS = 160
STAGE_BYTES = 40 << 20  # that every call takes
LARGE_BATCH_BYTES = 8 << 20  # of large.yaml

sys.path.insert(0, str(EXAMPLE))
import run as runaway  # noqa: E402

pytestmark = pytest.mark.xdist_group("runaway")  # where the runs are made once


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What run.py printed, and what it wrote."""
    package = pathlib.Path(bulkhead.__file__).parents[1]
    file = tmp_path_factory.mktemp("runaway") / "runs.json"
    said = subprocess.run(
        [sys.executable, EXAMPLE / "run.py", "--records", str(RECORDS), "--json", file],
        env={**os.environ, "PYTHONPATH": str(package)}, stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout
    return said.splitlines(), json.loads(file.read_text())


@pytest.fixture(scope="module")
def runs(told):
    """What run.py did: with 8 workers in order, with 4 as batches come, with large batches; a quick consumer and a slow one each."""
    runs = told[1]
    assert [(run["spec"], run["workers"], run["sleep"]) for run in runs] == [
        (spec, workers, sleep)
        for spec, workers in (("ordered.yaml", 8), ("unordered.yaml", 4), ("large.yaml", 4)) for sleep in (0, 0.2)]
    return runs


def test_every_index_comes_once_with_its_mean(runs):
    for run in runs:
        assert sorted(run["indices"]) == list(range(RECORDS)), run["spec"]
        assert run["means"] == run["indices"]  # the mean of equal numbers
        assert run["deaths"] == 0


def test_in_order_is_the_order_of_the_spec(runs):
    spec = {"source": {"range": {"size": RECORDS}}, "order": "global", "seed": 1, "batch": {"size": 1}, "epochs": 1}
    with bulkhead.Loader(spec, workers=1) as loader:
        expected = [int(index) for batch in loader for index in batch["index"]]
    assert expected != sorted(expected)
    assert runs[0]["indices"] == runs[1]["indices"] == expected


def test_explain_says_what_the_run_is_promised(runs):
    for run in runs:
        assert run["explained_bytes"] == run["bound_bytes"]


def test_the_peak_stays_below_what_is_expected_and_that_below_the_bound(runs):
    for run in runs:
        assert run["peak_bytes"] < run["expected_bytes"] < run["explained_bytes"]


def test_the_peak_comes_near_to_what_is_expected(runs):
    """Less than a call of each worker is missing: how many of them meet at a time is chance. The bound is much further off."""
    for run in runs[:4]:
        calls_bytes = run["workers"] * STAGE_BYTES
        assert run["peak_bytes"] > run["expected_bytes"] - calls_bytes
        assert run["peak_bytes"] < run["explained_bytes"] - calls_bytes
        # The calls are seen at all.
        assert run["peak_bytes"] > 2 * STAGE_BYTES


def footprint(run):
    return run["peak_bytes"] + run["trainer_bytes"]


def test_a_slow_consumer_does_not_raise_the_peak(runs):
    """By less than the calls take: how many of them meet at a time is chance. Large batches tell more."""
    for quick, slow in (runs[:2], runs[2:4]):
        assert footprint(slow) < footprint(quick) + slow["workers"] * STAGE_BYTES


def test_large_batches_do_not_pile_up_before_a_slow_consumer(runs):
    """By less than four batches of twenty: they are made much faster than it takes them."""
    quick, slow = runs[4:]
    assert footprint(slow) < footprint(quick) + 4 * LARGE_BATCH_BYTES


def test_large_batches_that_may_pile_up_are_seen(runs):
    """What the test above looks at does grow, if batches wait."""
    waiting = runaway.run("large.yaml", 4, RECORDS, 0.2, ahead=20)
    assert footprint(waiting) > footprint(runs[5]) + 10 * LARGE_BATCH_BYTES


def test_prediction_and_peak_are_printed(told):
    lines, runs = told
    assert len(lines) == 1 + len(runs)
    for line, run in zip(lines[1:], runs):
        sizes = [f"{run[name] / 2**20:.0f} MiB" for name in ("explained_bytes", "expected_bytes", "peak_bytes", "trainer_bytes")]
        assert line.split("  ")[0] == run["spec"]
        assert re.findall(r"\S+ MiB", line) == sizes
        assert line.endswith(f"{RECORDS}, each once")


def test_the_two_specs_differ_in_nothing_but_determinism():
    lines = {name: (EXAMPLE / name).read_text().splitlines()[1:] for name in ("ordered.yaml", "unordered.yaml")}
    extra = [line for line in lines["unordered.yaml"] if line not in lines["ordered.yaml"]]
    assert [line.split("#")[0].strip() for line in extra] == ["deterministic: false"]
    assert [line for line in lines["unordered.yaml"] if line in lines["ordered.yaml"]] == lines["ordered.yaml"]
