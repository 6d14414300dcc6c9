"""A stage that leaks: its worker is replaced, and nobody else notices."""

import contextlib
import json
import pathlib
import re
import subprocess
import sys

import pytest

import bulkhead
from conftest import BIN, Service, children_of, write_spec


def bench_leak(photos, **options):
    arguments = [f"--{key}={value}" for key, value in options.items()]
    output = subprocess.run(
        [BIN / "bulkhead", "bench", "leak", "--spec", photos / "tfrecord.yaml", "--json", *arguments],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    return json.loads(output)


@pytest.mark.parametrize("fault", ["leak", "leak_mmap"])
def test_a_leaking_worker_is_replaced_and_its_stage_named(photos, folder, fault):
    report = bench_leak(photos, samples=3000, rounds=1, fault=fault, quota="256MiB", leak="512KiB")
    assert report["digests_equal"] == 1
    assert report["recycles"] >= 2
    assert 64 << 20 < report["worker_peak_bytes"] <= report["quota_bytes"] == 256 << 20
    assert report["control_worker_peak_bytes"] < 64 << 20
    assert "fault" in report["blamed_stage"]
    assert report["blamed_stage_bytes"] > 32 << 20
    for phase in ("start", "bind", "warm", "touch", "reap"):
        assert report["recycle_seconds"][phase]["p50"] > 0, phase


def test_a_worker_whose_python_function_leaks_is_replaced_too(photos):
    report = bench_leak(photos, samples=12000, rounds=1, fault="python", python=sys.executable, every=32, quota="160MiB")
    assert report["digests_equal"] == 1
    assert report["recycles"] >= 2
    assert 64 << 20 < report["worker_peak_bytes"] <= report["quota_bytes"] == 160 << 20
    assert "python" in report["blamed_stage"]
    assert report["blamed_stage_bytes"] > 16 << 20


def leaking_range(folder):
    return write_spec(
        folder / "leak.json",
        source={"range": {"size": 1000}},
        stages=[{"fault": {"leak": "1MiB"}}],
        batch={"size": 50},
        epochs=1,
    )


def read_indices(service, spec):
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        return [index for batch in loader for index in batch["index"].tolist()]


def test_without_planned_replacements_the_quota_bites_and_nothing_is_lost(folder):
    service = Service(
        folder, "--workers", 2, "--worker-quota", "64MiB", "--recycle-growth", "false", "--allow-fault-stages")
    assert read_indices(service, leaking_range(folder)) == list(range(1000))
    status = bulkhead.service_status(service.target)
    assert int(status["limit_events"]) >= 10
    assert not status.get("recent_recyclings")
    death = status["recent_exits"][-1]
    assert death["cause"] == "EXIT_CAUSE_OUT_OF_MEMORY"
    assert "fault" in death["refused_stage"] and int(death["refused_bytes"]) >= 1 << 20
    assert re.search(
        r"; stages\[0\] fault asked for 1(\.\d)?MiB when the worker held [\d.]+MiB of its quota of 64MiB, "
        r"most of it in stages\[0\] fault \([\d.]+MiB\)$",
        death["reason"],
    ), death["reason"]
    assert "fault" in death["stages"][0]["stage"] and int(death["stages"][0]["live_bytes"]) > 16 << 20
    assert death["activity"][0]["sample"].startswith("range@")
    service.stop()


def asks_for_huge_pages(service):
    """Whether any worker of the service does, among those that have started by now."""
    asking = False
    for worker in children_of(service.process.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            asking = asking or b"glibc.malloc.hugetlb=1" in pathlib.Path(f"/proc/{worker}/environ").read_bytes()
    return asking


def test_who_comes_after_a_fast_leak_asks_for_huge_pages(services, folder):
    service = services(folder, "--workers", 1, "--worker-quota", "256MiB", "--allow-fault-stages")
    common = {"source": {"range": {"size": 100_000}}, "batch": {"size": 20}}
    clean = write_spec(folder / "clean.json", stages=[{"fault": {"touch": "1MiB"}}], **common)
    with bulkhead.Loader(clean, service.target, timeout=120) as loader:
        for _batch, _number in zip(loader.stream(), range(100)):
            assert not asks_for_huge_pages(service)
    fast = write_spec(folder / "fast.json", stages=[{"fault": {"leak": "1MiB"}}], **common)
    with bulkhead.Loader(fast, service.target, timeout=120) as loader:
        assert any(asks_for_huge_pages(service) for _batch in loader.stream())


def test_status_and_recycle_of_the_command_line(folder):
    service = Service(folder, "--workers", 2, "--allow-fault-stages")
    spec = write_spec(
        folder / "slow.json",
        source={"range": {"size": 100_000}},
        stages=[{"fault": {"slow": 0.001}}],
        batch={"size": 50},
    )
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        stream = loader.stream()
        next(stream)
        tool = [BIN / "bulkhead"]
        said = subprocess.run(
            [*tool, "recycle", "--target", service.target], check=True, stdout=subprocess.PIPE, text=True).stdout
        assert said.startswith("2 workers are being replaced")
        while len(bulkhead.service_status(service.target).get("recent_recyclings", [])) < 2:
            next(stream)
        text = subprocess.run(
            [*tool, "status", "--target", service.target], check=True, stdout=subprocess.PIPE, text=True).stdout
        assert "requested by hand" in text
        assert "quota: kernel-" in text
        nobody = subprocess.run([*tool, "recycle", "--slot", "7", "--target", service.target], stdout=subprocess.PIPE)
        assert nobody.returncode == 1
    status = bulkhead.service_status(service.target)
    assert int(status.get("leases_redone", 0)) == 0
    service.stop()


def recyclings_of(folder, faults, *options, enough):
    """Streams until `enough` replacements are done, and returns them."""
    service = Service(folder, "--workers", 1, "--allow-fault-stages", *options)
    spec = write_spec(
        folder / "spec.json",
        source={"range": {"size": 1_000_000}},
        stages=[{"fault": fault} for fault in faults],
        batch={"size": 20},
    )
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        for number, batch in enumerate(loader.stream()):
            assert batch["index"].tolist() == list(range(20 * number, 20 * number + 20))
            done = bulkhead.service_status(service.target).get("recent_recyclings", [])
            if len(done) >= enough:
                break
    status = bulkhead.service_status(service.target)
    assert int(status.get("leases_redone", 0)) == 0
    service.stop()
    return done


def test_workers_are_replaced_after_so_many_samples(folder):
    done = recyclings_of(folder, [{"slow": 0.001}], "--recycle-samples", 200, enough=3)
    assert {recycling["cause"] for recycling in done} == {"RECYCLE_CAUSE_SAMPLES"}


def test_workers_are_replaced_when_they_are_old(folder):
    done = recyclings_of(folder, [{"slow": 0.001}], "--recycle-age", 1, enough=2)
    assert {recycling["cause"] for recycling in done} == {"RECYCLE_CAUSE_AGE"}


def test_a_stage_that_becomes_slow_has_its_worker_replaced(folder):
    """The first stage sets the pace, so that there is a window of some seconds in which the second is fast."""
    faults = [{"slow": 0.001}, {"slow": 0.01, "after_samples": 9000}]
    [slow] = recyclings_of(folder, faults, enough=1)
    assert slow["cause"] == "RECYCLE_CAUSE_SLOWDOWN"
    told = re.fullmatch(
        r"stages\[1\] fault takes [\d.]+ ms a sample after (\d+), [\d.]+ times as long as in its first samples", slow["reason"])
    assert told, slow["reason"]
    assert 9000 < int(told[1]) <= 1.5 * 9000
