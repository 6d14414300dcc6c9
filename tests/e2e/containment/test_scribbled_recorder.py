"""A stage that writes into its worker's flight recorder: what the status and the metrics tell all the same."""

import math
import re
import sys
import urllib.request

import bulkhead
import pytest
from conftest import write_spec

# Maps of the recorder: a header with the names of the stages, then what each thread counts.
SCRIBBLER = '''
import ctypes
import random

SHAPES = [lambda size: b"\\xff" * size, lambda size: b"\\x00" * size, lambda size: b"\\x7f" * size, random.randbytes,
          lambda size: ((5000).to_bytes(8, "little") * (size // 8 + 1))[:size]]
calls = 0


def scribble(begin, end):
    global calls
    calls += 1
    names = ctypes.string_at(begin, end - begin).find(b"worker\\0" + bytes(89) + b"source\\0")
    if names < 0:
        names = known
    globals()["known"] = names
    counters = names + 64 * 96
    size = end - begin - counters
    ctypes.memmove(begin + counters, SHAPES[calls % len(SHAPES)](size), size)
    for number in range(64):
        name = b"forged\\n\\x1b[2J stage %d" % (1000 * calls + number)
        ctypes.memmove(begin + names + 96 * number, name.ljust(96, b"\\0"), 96)
    ctypes.memmove(begin, (64).to_bytes(4, "little"), 4)


def same(index):
    for line in open("/proc/self/maps"):
        if "bulkhead-flight" in line:
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            scribble(begin, end)
    return index
'''

KNOWN = {"worker", "source", "stages[0] python", "unknown"}
# Of one worker with one decode thread, and the threads that it may start: allocations over a minute.
MOST_COUNTED = 100 * 60 * 1e8
MOST_BYTES = 1 << 40


def numbers_in(thing):
    if isinstance(thing, dict):
        thing = thing.values()
    elif not isinstance(thing, list):
        return [thing] if isinstance(thing, (int, float)) else []
    return [number for one in thing for number in numbers_in(one)]


def series(url):
    """Of the metrics page: {name with labels: value}."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def test_status_and_metrics_hold_nothing_that_cannot_be(services, folder):
    (folder / "scribbler.py").write_text(SCRIBBLER)
    stage = {"function": "scribbler:same", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    spec = write_spec(folder / "s.json", source={"range": {"size": 64}}, stages=[{"python": stage}], batch={"size": 4}, epochs=40)
    service = services(folder, "--workers", "1", "--threads", "1", "--metrics", "127.0.0.1:0",
                       "--python", sys.executable, "--python-path", folder)
    url = re.search(r"metrics on (http://\S+)", (folder / "service.log").read_text())[1]
    before = {}
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        for number, batch in enumerate(loader.stream()):
            assert len(batch["index"]) == 4
            if number % 8:
                continue
            status = bulkhead.service_status(service.target)
            for worker in status["workers"]:
                for told in (*worker.get("stages", []), *worker.get("activity", [])):
                    assert told["stage"] in KNOWN
                for at in worker.get("activity", []):
                    assert 0 <= int(at.get("position", 0)) < 64
                for used in worker.get("stages", []):
                    assert all(0 <= float(used.get(key, 0)) < MOST_COUNTED for key in ("runs", "allocations"))
                    assert all(0 <= float(used.get(key, 0)) < MOST_BYTES for key in ("live_bytes", "live_blocks"))
                    assert 0 <= used.get("busy_seconds", 0) < 600
            assert all(math.isfinite(number) for number in numbers_in(status))
            now = series(url)
            assert {label for key in now for label in re.findall(r'[{,]stage="([^"]+)"', key)} <= KNOWN
            assert all(math.isfinite(value) and value >= 0 for value in now.values())
            assert all(value == 0 for key, value in now.items() if "_jpeg_" in key or "_kept_" in key)
            totals = {key: value for key, value in now.items() if key.partition("{")[0].endswith("_total")}
            assert [key for key, value in totals.items() if value < before.get(key, 0)] == []
            before = totals
    assert number == 40 * 16 - 1
    assert "forged" not in (folder / "service.log").read_text()


FORGER = """
import ctypes


def same(index):
    for line in open("/proc/self/maps"):
        if "bulkhead-flight" in line and index >= 8:
            begin = int(line.split("-")[0], 16)
            # FlightHeader::wild_slot, wild_access, wild_stage
            ctypes.memmove(begin + 32, b"".join(number.to_bytes(4, "little") for number in (9999, 1, 0)), 12)
            ctypes.string_at(0)
    return index
"""


def test_a_slot_that_no_arena_has_is_not_told(services, folder):
    (folder / "forger.py").write_text(FORGER)
    stage = {"function": "forger:same", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    spec = write_spec(folder / "s.json", source={"range": {"size": 64}}, stages=[{"python": stage}], batch={"size": 4})
    service = services(folder, "--workers", "1", "--threads", "1", "--python", sys.executable, "--python-path", folder)
    with pytest.raises(bulkhead.BulkheadError) as caught:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            for _ in loader:
                pass
    assert caught.value.reason in ("POISON_SAMPLE", "WORKER_CRASH_LOOP")
    assert "slot 9999" not in str(caught.value) + (folder / "service.log").read_text() + str(bulkhead.service_status(service.target))
