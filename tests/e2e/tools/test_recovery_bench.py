"""The recovery bench gives every figure it promises, from real kills."""

import json
import subprocess

from conftest import BIN, write_spec


def test_it_measures_each_fault(folder):
    spec = write_spec(folder / "s.yaml", source={"range": {"size": 1000}}, batch={"size": 10})
    done = subprocess.run(
        [BIN / "bulkhead", "bench", "recovery", "--spec", spec, "--trials", "2", "--json"],
        capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for fault in ("worker_kill", "worker_kill_single", "service_kill"):
        assert report[fault]["trials"] == 2
        assert 0 <= report[fault]["p50"] <= report[fault]["p99"]
    # Nothing comes while the only service, or the only worker, is not there.
    assert report["worker_kill_single"]["p99"] > 0
    assert report["service_kill"]["p50"] > 0
