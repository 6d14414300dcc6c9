"""A stream that gave up its place to others goes on when it is read on, with both clients."""

import json
import subprocess
import time

import pytest
from conftest import BIN, Service
from data import range_spec

# Five slots of 2 MiB; the budget holds one such arena beside supervisor and two workers, not two.
BATCH = 1 << 18
OPTIONS = (
    "--worker-quota", "64MiB", "--memory-budget", f"{48 + 3 * 64 + 10 + 5}MiB", "--idle-timeout", "0.1",
)  # fmt: skip


def slots_out(service):
    """Of each stream the batches that its client has or could have."""
    told = subprocess.run(
        [BIN / "bulkhead", "status", "--target", service.target, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    return [stream["arena"].get("slots_sending", 0) for stream in json.loads(told.stdout).get("streams", [])]


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_a_stream_that_gave_up_its_place_is_opened_again_when_it_is_read_on(client, tmp_path, root, transport):
    service = Service(tmp_path, root, *OPTIONS)
    try:
        spec = range_spec(tmp_path / "s.yaml", size=12 * BATCH, batch={"size": BATCH}, epochs=1)
        undisturbed = client.ok(spec, service.target, name="a", transport=transport)
        paused = client.pausing(spec, service.target, name="a", transport=transport, pause_after=2, timeout=60)
        deadline = time.monotonic() + 60
        while slots_out(service) != [4]:
            assert time.monotonic() < deadline
        other = client.ok(spec, service.target, name="b", transport=transport)
        assert other["digest"] == undisturbed["digest"] and other["reconnects"] == 0
        paused.stdin.write("\n")
        paused.stdin.flush()
        result = client.finish(paused)
        assert "error" not in result and result["digest"] == undisturbed["digest"]
        assert result["reconnects"] == 1
    finally:
        service.stop()
