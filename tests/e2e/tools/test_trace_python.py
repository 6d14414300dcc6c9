"""--trace-python: a leak of a Python stage is named down to function and line, and native memory is told apart."""

import re
import subprocess

import bulkhead
import leaking_lines
import pytest
from conftest import BIN, HERE, PYTHON, Service, wait_until, write_spec


def line_of(text):
    """The line of leaking_lines.py with this in it."""
    with open(leaking_lines.__file__) as lines:
        [number] = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def calling(folder, *functions):
    number = [{"name": "index", "dtype": "int64"}]
    stages = [
        {"python": {"function": f"leaking_lines:{name}", "inputs": ["index"], "outputs": number}} for name in functions
    ]
    return write_spec(folder / "s.json", source={"range": {"size": 1_000_000}}, stages=stages, batch={"size": 100})


def verdict_of(loader, traced=True):
    """The first verdict of a leak, and if Python is traced, with what that says: the worker tells it now and then."""
    for _batch in loader.stream():
        [verdict] = loader.status()["verdicts"]
        if verdict["kind"] == "VERDICT_KIND_LEAK" and (verdict["native_bytes_per_sample"] is not None or not traced):
            return verdict
    raise AssertionError("no leak")


@pytest.fixture
def leak_of(folder):
    services = []

    def find(*functions, trace="on"):
        home = folder / f"service{len(services)}"
        home.mkdir()
        services.append(Service(home, "--workers", "1", "--worker-quota", "3GiB", "--python", PYTHON, "--python-path",
                                HERE, "--trace-python", trace))
        with bulkhead.Loader(calling(home, *functions), services[-1].target, timeout=120) as loader:
            verdict = verdict_of(loader, trace == "on")
            # However late Python was, the log has it as well.
            log = home / "service.log"
            wait_until(lambda: trace == "off" or re.search(r" allocated at | by native code", log.read_text()))
            return verdict

    yield find
    for service in services:
        service.stop()


def test_the_worse_of_two_leaking_lines_is_named(leak_of):
    verdict = leak_of("sound", "in_two_lines")
    assert verdict["stage"] == "stages[1] python"
    assert verdict["line"] == f"leaking_lines.py:{line_of('the worse: 8 KiB')}"
    assert verdict["function"] == "Keeper.keep"
    assert verdict["line_bytes_per_sample"] == pytest.approx(8 << 10, rel=0.1)
    assert verdict["native_bytes_per_sample"] < 0.1 * verdict["bytes_per_sample"]
    assert re.search(
        r"\(leaking_lines:in_two_lines\) keeps [\d.]+KiB more with each sample, [\d.]+KiB of it allocated at "
        rf"leaking_lines\.py:{line_of('the worse: 8 KiB')} in Keeper\.keep: ",
        verdict["text"],
    ), verdict["text"]


def test_a_native_leak_is_told_apart(leak_of):
    verdict = leak_of("in_native_code")
    assert verdict["line"] == "", "no line of Python has a tenth of it"
    assert verdict["native_bytes_per_sample"] == pytest.approx(8 << 10, rel=0.1)
    assert re.search(
        r"more with each sample, [\d.]+KiB of it by native code, which Python does not see: ", verdict["text"]
    ), verdict["text"]


def test_without_the_option_no_line_is_known(leak_of):
    verdict = leak_of("in_two_lines", trace="off")
    assert verdict["line"] == "" and verdict["native_bytes_per_sample"] is None
    assert "allocated at" not in verdict["text"]


def test_an_embedded_service_traces_too(folder):
    """And `bulkhead status` says the line."""
    with bulkhead.Loader(calling(folder, "in_two_lines"), workers=1, worker_quota="3GiB", trace_python=True) as loader:
        verdict = verdict_of(loader)
        text = subprocess.run(
            [BIN / "bulkhead", "status", "--target", loader.target], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert verdict["function"] == "Keeper.keep"
    assert f"allocated at leaking_lines.py:{line_of('the worse: 8 KiB')} in Keeper.keep" in text
