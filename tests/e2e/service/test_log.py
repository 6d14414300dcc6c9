"""The service's log: what it is, who came and why they went, and what may not be most of it."""

import errno
import json
import os
import re
import subprocess
import sys

import bulkhead
import pytest
from conftest import BIN, HERE, Service, write_spec


OUTPUT = {"name": "index", "dtype": "int64", "shape": []}


def lines(folder):
    return (folder / "service.log").read_text().splitlines()


def test_the_first_line_says_what_the_service_is_and_streams_who_reads_them(folder):
    spec = write_spec(folder / "s.yaml", source={"range": {"size": 20}}, batch={"size": 10}, epochs=1)
    service = Service(folder, "--workers", "2", "--threads", "1", "--worker-quota", "200MiB", "--memory-budget", "2GiB")
    try:
        boot = bulkhead.service_status(service.target)["boot_id"]
        with bulkhead.Loader(spec, service.target, name="train") as loader:
            list(loader)
    finally:
        service.stop()
    log = lines(folder)
    first = next(line for line in log if " listening on " in line)
    assert f"listening on {service.target}; 2 workers × 1 threads for each pipeline, each with a quota of 200MiB (" in first
    assert f"), in a memory budget of 2GiB; bulkheadd {bulkhead.__version__}, boot {boot}" in first
    [opened] = [line for line in log if "stream train of rank 0 is opened" in line]
    assert f"spec {spec}, pipeline " in opened and f"(process {os.getpid()}); boot {boot}" in opened
    [ended] = [line for line in log if "stream train of rank 0 has ended" in line]
    assert "it is complete" in ended


def test_the_first_line_says_how_many_workers_a_small_budget_holds(folder):
    service = Service(folder, "--workers", "auto", "--worker-quota", "200MiB", "--memory-budget", "700MiB")
    service.stop()
    [first] = [line for line in lines(folder) if " listening on " in line]
    assert re.search(r"; (1 to )?2 workers × ", first), first
    assert re.search(r"in a memory budget of 700MiB, which holds no more of \d+ to \d+; bulkheadd ", first), first


def test_a_substituted_sample_and_a_quarantined_record_have_a_line(photos, folder):
    (folder / "faces").mkdir()
    for number, photo in zip(range(5), sorted((photos / "folder").rglob("*.jpg"))):
        (folder / "faces" / f"{number}.jpg").write_bytes(b"no image" if number == 2 else photo.read_bytes())
    spec = {
        "source": {"image_folder": {"path": str(folder / "faces"), "unlabeled": True}},
        "stages": [{"fault": {"crash": True, "records": [3]}}, {"decode_image": {}}, {"resize": {"size": [64, 64]}}],
        "batch": {"size": 5},
        "epochs": 1,
        "errors": {"policy": "substitute", "max_fraction": 0.5},
    }
    service = Service(folder, "--allow-fault-stages", "--workers", "1", "--root", folder)
    try:
        with bulkhead.Loader(spec, service.target, name="train") as loader:
            list(loader)
        status = bulkhead.service_status(service.target)
    finally:
        service.stop()
    [pipeline] = [worker["pipeline"] for worker in status["workers"][:1]] or [""]
    log = lines(folder)
    [substituted] = [line for line in log if "stream train of rank 0 substitutes a sample: " in line and "2.jpg" in line]
    [quarantined] = [line for line in log if "stream train of rank 0 quarantines a record: 3.jpg ended " in line]
    for line in (substituted, quarantined):
        assert line.endswith(f"; pipeline {pipeline}, boot {status['boot_id']}")


def test_as_json_every_line_is_an_object(folder):
    spec = write_spec(
        folder / "s.json",
        source={"range": {"size": 20}},
        stages=[{"python": {"function": "user_functions:commands_a_terminal", "inputs": ["index"], "outputs": [OUTPUT]}}],
        batch={"size": 10},
        epochs=1,
        errors={"policy": "substitute"},
    )
    service = Service(folder, "--workers", "1", "--python", sys.executable, "--python-path", HERE, "--log-format", "json")
    try:
        with bulkhead.Loader(spec, service.target, name='"train"') as loader:
            list(loader)
    finally:
        service.stop()
    read = [json.loads(line) for line in lines(folder)]
    assert all(set(line) == {"time", "level", "text"} for line in read)
    printed = [line["text"] for line in read if line["level"] == "output"]
    assert "written \\x1b[2J" in printed and any(text.startswith("printed\twith an ü") for text in printed)
    assert any('stream "train" of rank 0 is opened' in line["text"] and line["level"] == "info" for line in read)


def test_a_worker_cannot_read_what_others_print_and_its_last_words_arrive(folder):
    stage = {"function": "user_functions:looks_for_what_others_print", "inputs": ["index"], "outputs": [{**OUTPUT, "name": "found"}]}
    spec = write_spec(
        folder / "s.json",
        source={"range": {"size": 20}},
        stages=[{"python": stage}],
        batch={"size": 10},
        epochs=1,
        errors={"policy": "substitute", "max_fraction": 0.5},
    )
    service = Service(folder, "--workers", "2", "--python", sys.executable, "--python-path", HERE)
    try:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            found = {int(value) for batch in loader for value in batch["found"]}
    finally:
        service.stop()
    assert found == {-errno.ENXIO}
    log = lines(folder)
    deaths = sum("killed by signal 11" in line and " lease" in line for line in log)
    assert deaths >= 3
    assert log.count("  | whole line") == log.count("  | last words") == deaths


def test_replacements_are_summed_up_with_their_stage(folder):
    spec = write_spec(
        folder / "s.json",
        source={"range": {"size": 4000}},
        stages=[{"fault": {"leak": "16KiB"}}, {"fault": {"slow": 0.001}}],
        batch={"size": 20},
        epochs=1,
    )
    service = Service(folder, "--workers", "1", "--allow-fault-stages", "--recycle-samples", "100")
    try:
        with bulkhead.Loader(spec, service.target) as loader:
            list(loader)
        replaced = len(bulkhead.service_status(service.target)["recent_recyclings"])
    finally:
        service.stop()
    log = [line for line in lines(folder) if "replaced" in line]
    assert replaced > 3 and len(log) < replaced
    assert "of pipeline" in log[0] and "held most: stages[0] fault " in log[0]
    assert "of them with most memory in stages[0] fault; the last: " in log[-1]


def test_a_fatal_error_has_time_and_level(folder):
    def last_line_of(*options):
        command = [BIN / "bulkheadd", "--cache-dir", folder / "other", "--log-format", "json", *options]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 1
        last = json.loads(ended.stderr.splitlines()[-1])
        assert last["level"] == "critical" and last["time"]
        return last["text"]

    service = Service(folder)
    try:
        assert service.target.removeprefix("unix:") in last_line_of("--listen", service.target)
    finally:
        service.stop()
    assert "--metrics 9464: " in last_line_of("--listen", f"unix:{folder}/s.sock", "--metrics", "9464")


def test_many_refusals_are_not_most_of_the_log(folder):
    service = Service(folder, "--open-rate", "0")
    try:
        for _ in range(60):
            with pytest.raises(bulkhead.SpecError):
                bulkhead.Loader({"source": {"nothing": {}}}, service.target)
        counts = bulkhead.service_status(service.target)["stream_counts"]
    finally:
        service.stop()
    assert [one["count"] for one in counts if one["reason"] == "SPEC_INVALID"] == [60]
    assert len([line for line in lines(folder) if "is refused to" in line]) < 40
