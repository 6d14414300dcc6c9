"""Which stage leaks, and that a stage without a leak is never replaced for one."""

import contextlib
import re
import subprocess

import pytest

import bulkhead
from conftest import BIN, HERE, PYTHON, Service, write_spec



def calling(folder, *functions):
    """A spec whose stages call functions of large_tables.py."""
    number = [{"name": "index", "dtype": "int64"}]
    stages = [
        {"python": {"function": f"large_tables:{name}", "inputs": ["index"], "outputs": number}} for name in functions
    ]
    return write_spec(folder / "tables.json", source={"range": {"size": 100_000}}, stages=stages, batch={"size": 100})


@contextlib.contextmanager
def loader_of(folder, *functions, workers=1, quota="512MiB"):
    service = Service(folder, "--workers", workers, "--worker-quota", quota, "--python", PYTHON, "--python-path", HERE)
    with bulkhead.Loader(calling(folder, *functions), service.target, timeout=120) as loader:
        yield loader
    service.stop()


@pytest.mark.parametrize("function", ["imported", "at_first_call", "over_1000_calls"])
def test_a_large_table_is_no_leak(folder, function):
    with loader_of(folder, function, workers=2) as loader:
        for batch, _ in zip(loader.stream(), range(150)):
            assert len(batch["index"]) == 100
        status = loader.status()
    assert status["recent_recyclings"] == []
    assert status["recent_exits"] == []
    assert [worker["generation"] for worker in status["workers"] if not worker["standby"]] == [1, 1]
    [verdict] = status["verdicts"]
    assert verdict["kind"] in ("VERDICT_KIND_WARM_UP", "VERDICT_KIND_CLEAN", "VERDICT_KIND_CACHE")
    assert verdict["seconds_to_quota"] is None


def test_the_stage_that_leaks_is_named_and_not_the_largest(folder):
    def verdict_of(loader):
        [verdict] = loader.status()["verdicts"]
        return verdict

    # So much that the leak meets it long after the samples at which a probe is made, also where a successor warms up slowly.
    with loader_of(folder, "at_first_call", "keeps", quota="3GiB") as loader:
        verdicts = []
        for _batch in loader.stream():
            verdicts.append(verdict_of(loader))
            if verdicts[-1]["confirmed"]:
                break
        target, status = loader.target, loader.status()
        text = subprocess.run(
            [BIN / "bulkhead", "status", "--target", target], check=True, stdout=subprocess.PIPE, text=True).stdout
    told = re.findall(r"pipeline \S+: leak: (stages\[1\] python .*)", (folder / "service.log").read_text())
    assert "unconfirmed" in told[0] and "unconfirmed" not in told[-1], told
    leaks = [verdict for verdict in verdicts if verdict["kind"] == "VERDICT_KIND_LEAK"]
    assert {verdict["stage"] for verdict in leaks} == {"stages[1] python"}
    assert not leaks[0]["confirmed"] and leaks[-1]["confirmed"]
    assert leaks[-1]["code"] == "large_tables:keeps"
    assert leaks[-1]["bytes_per_sample"] == pytest.approx(8 << 10, rel=0.05)
    assert leaks[-1]["seconds_to_quota"] > 0
    assert "RECYCLE_CAUSE_PROBE" in {recycling["cause"] for recycling in status["recent_recyclings"]}
    # Of a successor, which makes the table while it warms up, that is counted with the imports.
    assert re.search(
        r"leak; stages\[1\] python \(large_tables:keeps\) keeps 8(\.\d)?KiB more with each sample: "
        r"[\d.]+MiB of 3GiB since it started; imports hold [2-4]\d\d(\.\d)?MiB\n",
        text,
    ), text
