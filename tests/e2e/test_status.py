"""What a running service says of itself."""

import os

import bulkhead
import pytest
from conftest import Service, write_spec


def test_status_names_workers_streams_and_memory(folder):
    spec = write_spec(
        folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10}, epochs=1
    )
    service = Service(folder, "--workers", "2")
    try:
        with bulkhead.Loader(spec, service.target, name="watched") as loader:
            loader.next_batch()
            status = bulkhead.service_status(service.target)
            assert status["pid"] == service.process.pid
            assert {worker["pid"] for worker in status["workers"]} == set(service.workers())
            assert status["workers"][0]["state"].startswith("WORKER_STATE_")
            assert [stream["name"] for stream in status["streams"]] == ["watched"]
            assert status["streams"][0]["transport"] == "TRANSPORT_SHM"
            assert status["streams"][0]["arena"]["slots"] == 5
            assert status["supervisor"]["memory_bytes"] > 1 << 20
            assert isinstance(status["samples_produced"], int)
            assert status["start_time"] > os.stat(folder / "s.json").st_mtime - 60
    finally:
        service.stop()


def test_counters_of_a_place_go_on_over_its_workers(folder):
    """As a monitoring system sees them, while each worker makes a few hundred of the samples."""
    spec = write_spec(
        folder / "s.json",
        source={"range": {"size": 20_000}},
        stages=[{"one_hot": {"input": "index", "classes": 20_000}}],
        batch={"size": 20},
        epochs=1,
    )
    service = Service(folder, "--workers", "1", "--recycle-samples", "300")
    try:
        with bulkhead.Loader(spec, service.target) as loader:
            generations, last = set(), {}
            for number, _ in enumerate(loader):
                if number % 10:
                    continue
                status = bulkhead.service_status(service.target)
                generations.update(worker["generation"] for worker in status["workers"])
                [place] = status["places"]
                runs = {stage["stage"]: stage["runs"] for stage in place["stages"]}
                now = {"samples": place["samples"], "cpu": place["cpu_seconds"], **runs}
                assert all(now[name] >= value for name, value in last.items())
                last = now
            assert len(generations) > 3
            # The stream has ended; what was being made then has been counted.
            [place] = bulkhead.service_status(service.target)["places"]
    finally:
        service.stop()
    assert place["samples"] == 20_000
    # Samples for warming up a successor run through the stages, too, and are delivered to nobody.
    for stage in place["stages"]:
        if stage["stage"] in ("source", "stages[0] one_hot"):
            assert 20_000 <= stage["runs"] < 21_000


def test_a_stream_that_is_open_is_there(folder):
    # The first slot takes a while to be touched.
    spec = write_spec(folder / "s.json", source={"range": {"size": 4_000_000}}, batch={"size": 4_000_000}, epochs=1)
    service = Service(folder, "--workers", "1")
    try:
        for number in range(10):
            with bulkhead.Loader(spec, service.target, name=f"number {number}"):
                names = [stream["name"] for stream in bulkhead.service_status(service.target)["streams"]]
                assert f"number {number}" in names
    finally:
        service.stop()


def test_no_service_is_a_clear_error(folder):
    with pytest.raises(bulkhead.ServiceUnavailable, match="nobody.sock|does not say"):
        bulkhead.service_status(f"unix:{folder}/nobody.sock", timeout=2)
