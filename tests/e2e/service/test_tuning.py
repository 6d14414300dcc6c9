"""--workers auto: their number follows the trainer, no byte does, and other streams get the memory that they need."""

import hashlib
import os
import time

import numpy as np
import pytest
from conftest import PYTHON, Service, write_spec

import bulkhead

PATIENCE = 120
CPUS = 2

# Waits as long as the service says, so that a reference takes no time.
CODE = """
import os, time
WAIT = float(os.environ.get("WAIT_SECONDS", 0))
def third(index, rng):
    time.sleep(WAIT)
    return index * 3 + rng.integers(1 << 40)
"""


@pytest.fixture
def start(folder):
    """Starts services on two CPUs, with workers that wait at each sample."""
    (folder / "waiting.py").write_text(CODE)
    cpus = sorted(os.sched_getaffinity(0))[:CPUS]
    if len(cpus) < CPUS:
        pytest.skip("needs two CPUs")
    started = []

    def start_one(*options, wait=0.0):
        place = folder / str(len(started))
        place.mkdir()
        started.append(Service(
            place, "--root", folder, "--python", PYTHON, "--python-path", folder, "--worker-env", f"WAIT_SECONDS={wait}",
            "--worker-quota", "200MiB", *options, preexec_fn=lambda: os.sched_setaffinity(0, cpus)))
        return started[-1]

    yield start_one
    for service in started:
        service.stop()


def waiting_spec(folder, size):
    stage = {"function": "waiting:third", "inputs": ["index"], "outputs": [{"name": "third", "dtype": "int64"}]}
    return write_spec(folder / f"{size}.json", source={"range": {"size": size}}, stages=[{"python": stage}],
                      batch={"size": 64}, order={"global": {}}, seed=5)


def tunings(service):
    """The tuning of each pipeline, the first one first."""
    return bulkhead.service_status(service.target)["tunings"]


def log_of(service):
    service.log.flush()
    return open(service.log.name).read()


class Digest:
    """Of the batches of a stream, and of the first so many of them."""

    def __init__(self):
        self.batches, self._hash = 0, hashlib.sha256()

    def add(self, batch):
        self._hash.update(np.ascontiguousarray(batch["third"]).tobytes())
        self.batches += 1

    def __str__(self):
        return self._hash.hexdigest()


def read_until(loader, digest, condition, pause=0.0):
    """Takes batches, with a pause after each, until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    for batch in loader.stream():
        digest.add(batch)
        time.sleep(pause)
        if condition():
            return
        assert time.monotonic() < deadline


@pytest.mark.waits
def test_workers_follow_the_trainer_and_no_byte_changes(folder, start):
    spec = waiting_spec(folder, 1 << 20)
    service = start(wait=0.02)
    digest = Digest()
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        def wants(workers):
            return tunings(service)[0]["workers"] == workers

        read_until(loader, digest, lambda: wants(CPUS + 1))
        [tuning] = tunings(service)
        assert (tuning["first_workers"], tuning["most_workers"]) == (CPUS, 4 * CPUS)
        assert tuning["state"] == "TUNING_STATE_TRYING"
        assert service.kill_worker()
        read_until(loader, digest, lambda: wants(CPUS + 2))
        assert service.kill_worker(1)
        # A trainer that they serve easily, even if it were twice as fast.
        read_until(loader, digest, lambda: wants(CPUS + 1), pause=1)
        assert service.kill_worker()
        read_until(loader, digest, lambda: wants(CPUS), pause=2)
        assert len(bulkhead.service_status(service.target)["workers"]) <= CPUS + 1
    log = log_of(service)
    assert f"is tuned to {CPUS + 1} workers: a client waits for " in log
    assert f"is tuned to {CPUS} workers: no client waits for long, and {CPUS + 1} workers are busy for " in log

    reference = start("--workers", 3)
    same = Digest()
    with bulkhead.Loader(spec, reference.target, timeout=PATIENCE) as loader:
        read_until(loader, same, lambda: same.batches == digest.batches)
    assert tunings(reference) == []
    assert str(same) == str(digest)


@pytest.mark.waits
def test_another_stream_gets_the_memory_of_workers_that_tuning_added(folder, start):
    service = start("--memory-budget", "1300MiB", wait=0.02)  # holds five workers, and tuning leaves one of them
    digest = Digest()
    spec = waiting_spec(folder, 1 << 20)
    with bulkhead.Loader(spec, service.target, timeout=PATIENCE) as loader:
        read_until(loader, digest, lambda: tunings(service)[0]["state"] == "TUNING_STATE_MEMORY")
        assert tunings(service)[0]["workers"] == 4
        with bulkhead.Loader(waiting_spec(folder, 1 << 19), service.target, timeout=PATIENCE) as other:
            other.next_batch()
            first, second = tunings(service)
            assert first["workers"] == 3, "the other one wants two, and one is left"
            assert second["workers"] in (1, 2), "one, if the worker took long to end"
            assert "another stream needs the memory" in log_of(service)
            read_until(loader, digest, lambda: tunings(service)[0]["state"] == "TUNING_STATE_MEMORY")

    reference = start("--workers", 3)
    same = Digest()
    with bulkhead.Loader(spec, reference.target, timeout=PATIENCE) as loader:
        read_until(loader, same, lambda: same.batches == digest.batches)
    assert str(same) == str(digest)
