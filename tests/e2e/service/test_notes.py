"""What stages print, log and warn of, and what befalls workers, reaches the trainer's log."""

import logging
import os
import re
import signal
import subprocess
import sys
import time

import bulkhead
import pytest
from conftest import PYTHON, PYTHON_PACKAGE, Service, write_spec
from receiving import serve  # noqa: F401  (a fixture)
from replicas import targets

CODE = '''\
import logging
import os
import sys
import threading
import time
import warnings

print("imported")
log = logging.getLogger("my.stage")


def talks(index):
    if index == 3:
        print("printed", index, "\\033[2J")
        print("first line\\nsecond line")
        print("to stderr", file=sys.stderr)
        log.debug("not asked for")
        log.info("informed of %d", index)
        log.error("failed at %d", index)
        try:
            raise ValueError("caught")
        except ValueError:
            log.exception("with a traceback")
        warnings.warn("careful")
        os.write(1, b"by C code\\n")
    return index


def floods(index):
    for line in range(3000):
        print("line", line)
    return index


def dies(index, *, marker):
    if index == 9 and not os.path.exists(marker):
        print("before the end", flush=True)
        while not os.path.exists(marker):
            time.sleep(0.01)
    return index


def refuses(index):
    if index % 2:
        raise ValueError(f"{index} is odd")
    return index


def waits(index):
    return index
'''


class Lines(logging.Handler):
    """What the logger `bulkhead` gets: (level, text)."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))

    def of(self, stage):
        return [(level, text.partition("): ")[2]) for level, text in self.lines if f"stage:{stage}" in text]


@pytest.fixture
def lines():
    handler, log = Lines(), logging.getLogger("bulkhead")
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield handler
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


@pytest.fixture
def start(folder):
    (folder / "code").mkdir()
    (folder / "code/stage.py").write_text(CODE)
    started = []

    def start_one(*options):
        started.append(Service(folder, "--root", folder, "--workers", "1", "--python", PYTHON, "--python-path",
                               folder / "code", *options))
        return started[-1]

    yield start_one
    for service in started:
        service.stop()


def spec_of(folder, function, size=16, **more):
    stage = {"function": f"stage:{function}", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    stage.update(more.pop("stage", {}))
    return write_spec(folder / f"{function}.json", source={"range": {"size": size}}, stages=[{"python": stage}],
                      batch={"size": 4}, epochs=1, **more)


def indexes(service, spec, **options):
    with bulkhead.Loader(spec, service.target, timeout=120, **options) as loader:
        return [int(index) for batch in loader for index in batch["index"]]


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_what_a_stage_says_reaches_the_trainers_log(start, folder, lines, transport):
    service = start()
    assert indexes(service, spec_of(folder, "talks"), transport=transport) == list(range(16))
    said = lines.of("talks")
    assert ("INFO", "imported") in said
    assert ("INFO", "printed 3 \\x1b[2J") in said
    assert said[said.index(("INFO", "first line")) + 1] == ("INFO", "second line")
    assert ("WARNING", "to stderr") in said
    assert ("INFO", "my.stage: informed of 3") in said
    assert ("ERROR", "my.stage: failed at 3") in said
    [trace] = [text for level, text in said if text.startswith("my.stage: with a traceback")]
    assert "\n  | Traceback" in trace and trace.endswith("\n  | ValueError: caught")
    [warned] = [(level, text) for level, text in said if "careful" in text]
    assert warned[0] == "WARNING" and warned[1].startswith("stage.py:") and "UserWarning: careful" in warned[1]
    assert not any("not asked for" in text or "by C code" in text for _, text in said)
    # Each once, and with its stage.
    assert len(set(said)) == len(said)
    assert [text for _, text in lines.lines if "printed 3" in text] == [
        "stages[0] python (stage:talks): printed 3 \\x1b[2J"]
    # The service's log has them as written.
    service.stop()
    log = (folder / "service.log").read_text()
    assert "\n  | printed 3 \\x1b[2J\n  | first line\n  | second line\n  | to stderr\n" in log
    assert "by C code\n" in log and "failed at 3\n" in log and log.count("careful") >= 1
    assert "informed of 3" not in log


def test_a_flood_is_bounded_counted_and_stops_nothing(start, folder, lines):
    assert indexes(start(), spec_of(folder, "floods", size=40)) == list(range(40))
    said = lines.of("floods")
    assert sum(text.startswith("line ") for _, text in said) < 3000
    left_out = [text for _, text in lines.lines if "lines were left out here" in text]
    assert left_out and len(lines.lines) < 6000


def test_deaths_are_told_in_one_line(start, folder, lines):
    marker = folder / "marker"
    service = start()
    with bulkhead.Loader(spec_of(folder, "dies", stage={"arguments": {"marker": str(marker)}}), service.target,
                         timeout=120) as loader:
        batches = loader.stream()
        first = next(batches)
        seen = [int(index) for index in first["index"]]
        deadline = time.monotonic() + 60
        while not any("before the end" in text for _, text in lines.lines):
            assert time.monotonic() < deadline, lines.lines
            time.sleep(0.02)
        [worker] = service.workers()
        os.kill(worker, signal.SIGKILL)
        marker.touch()
        seen += [int(index) for batch in batches for index in batch["index"]]
    assert seen == list(range(16))
    [(level, death)] = [line for line in lines.lines if "died" in line[1]]
    assert level == "WARNING"
    assert death.startswith("1 worker died: worker 0: killed by signal 9 (Killed)")


def test_planned_replacements_are_told_with_their_cause(start, folder, lines):
    service = start("--allow-fault-stages", "--worker-quota", "256MiB")
    spec = write_spec(folder / "leak.json", source={"range": {"size": 600}}, stages=[{"fault": {"leak": "1MiB"}}], batch={"size": 20},
                      epochs=1)
    assert indexes(service, spec) == list(range(600))
    told = [(level, text) for level, text in lines.lines if "replaced as planned" in text]
    assert told and all(level == "INFO" for level, _ in told), lines.lines
    cause = r"worker 0: [\d.]+MiB of 256MiB after \d+ samples, [\d.]+[KM]iB more with each"
    assert all(re.fullmatch(rf"(1 worker was|\d+ workers were) replaced as planned(, the last)?: {cause}", text) for _, text in told), told


def test_substitutions_are_told_in_sum(start, folder, lines):
    spec = spec_of(folder, "refuses", size=40, errors={"policy": "substitute", "max_fraction": 1})
    with bulkhead.Loader(spec, start().target, timeout=120) as loader:
        assert all(int(index) % 2 == 0 for batch in loader for index in batch["index"])
        assert len(loader.substitutions) == 20
    said = [text for level, text in lines.lines if level == "WARNING"]
    assert len(said) <= 2, said  # one at once, and one at the end instead of a minute later
    assert sum(int(re.match(r"(\d+) samples? w", text)[1]) for text in said) == 20, said
    assert said[-1].count("ValueError: 39 is odd") == 1, said
    assert sum(level == "DEBUG" and "substituted by" in text for level, text in lines.lines) == 20


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_the_last_words_of_a_fleet_are_heard(start, folder, lines, serve, transport):
    start()  # writes the code
    services = [serve("--root", folder, "--python", PYTHON, "--python-path", folder / "code") for _ in range(2)]
    spec = spec_of(folder, "refuses", size=80, errors={"policy": "substitute", "max_fraction": 1})
    with bulkhead.Loader(spec, targets(services), timeout=120, transport=transport) as loader:
        assert all(int(index) % 2 == 0 for batch in loader for index in batch["index"])
    said = [text for level, text in lines.lines if level == "WARNING"]
    counted = [re.match(r"(\d+) samples? w", text) for text in said]
    assert sum(int(each[1]) for each in counted if each) >= 40, said  # late batches are made twice
    assert not any("lost" in text or "left out" in text for text in said), said


def test_a_print_is_seen_without_any_logging(folder):
    (folder / "stage.py").write_text(CODE)
    spec = spec_of(folder, "talks")
    program = f"import bulkhead\nwith bulkhead.Loader({str(spec)!r}) as loader:\n    print(sum(1 for _ in loader))\n"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=folder,
                         env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)})
    assert run.returncode == 0, run.stderr
    assert "stages[0] python (stage:talks): printed 3 \\x1b[2J\n" in run.stderr
    assert run.stdout == "4\n"
