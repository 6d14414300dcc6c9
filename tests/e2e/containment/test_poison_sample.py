"""A record that ends worker after worker, from its first death to the cursor of the next run."""

import json
import os
import subprocess

import pytest

import bulkhead
from conftest import BIN, CLIENTS, Service, digest_of, finish_digest, start_digest, write_spec
from test_quarantine import SUBSTITUTE, add, listed

POISON = [37, 55]
FAULTS = {"crash": {"crash": True}, "burst": {"burst": "10GiB"}}


def poison_spec(folder, fault, name="spec.yaml", **more):
    spec = {
        "source": {"range": {"size": 200}},
        "stages": [{"fault": {**FAULTS[fault], "records": POISON}}],
        "batch": {"size": 16},
        "order": "sequential",
        "epochs": 2,
        "errors": SUBSTITUTE,
    }
    return write_spec(folder / name, **{**spec, **more})


def start(folder, name, workers=2):
    (folder / name).mkdir()
    options = ["--root", folder, "--workers", workers, "--worker-quota", "128MiB", "--allow-fault-stages"]
    return Service(folder / name, *options)


def exits(service):
    status = bulkhead.service_status(service.target)
    return status, [end for end in status["recent_exits"] if end["cause"] != "EXIT_CAUSE_TOLD"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_it_is_quarantined_and_every_batch_arrives(folder, fault, transport):
    service = start(folder, "service")
    spec = poison_spec(folder, fault)
    with bulkhead.Loader(spec, service.target, transport=transport, timeout=120) as loader:
        values, sets = [], []
        for batch in loader.stream():
            values += batch["index"].tolist()
            sets.append(batch.cursor["quarantined"])
        told = loader.quarantined
    expected = list(range(200))
    for number in POISON:
        expected[number] = number + 1
    assert values == expected * 2
    names = [f"range@{number}" for number in POISON]
    assert sorted(told) == names
    # In force from the first batch that was not delivered, and never taken back.
    assert sets[0] == [] and sets[-1] == names
    assert all(set(before) <= set(after) for before, after in zip(sets, sets[1:]))
    assert listed(service) == names
    status, deaths = exits(service)
    # Each record: once among others, K = 3 times alone; what else went through those workers was done by others.
    assert len(deaths) <= len(POISON) * (1 + 3), [end["reason"] for end in deaths]
    assert int(status["samples_quarantined"]) == len(POISON)
    if fault == "burst":
        assert int(status["limit_events"]) > 0
    service.stop()


def test_the_next_run_pays_nothing_and_gets_the_same_bytes(folder):
    service = start(folder, "service")
    spec = poison_spec(folder, "crash")
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        cursor = [batch.cursor for batch in loader.stream()][5]
    before = len(exits(service)[1])
    whole = digest_of("python", spec, target=service.target)
    assert digest_of("cpp", spec, target=service.target) == whole
    rest = digest_of("cpp", spec, target=service.target, cursor=json.dumps(cursor))
    assert len(exits(service)[1]) == before
    service.stop()
    # A set that was given by hand is the same set, with another number of workers, elsewhere.
    stranger = start(folder, "stranger", workers=1)
    add(stranger, *(f"range@{number}" for number in POISON))
    assert digest_of("python", spec, target=stranger.target) == whole
    assert digest_of("python", spec, target=stranger.target, cursor=json.dumps(cursor)) == rest
    assert exits(stranger)[1] == []
    stranger.stop()


@pytest.mark.parametrize("client", CLIENTS)
def test_both_clients_cursors_carry_what_was_found(folder, client):
    service = start(folder, "service")
    result = finish_digest(start_digest(client, poison_spec(folder, "crash"), target=service.target))
    assert result["cursor"]["quarantined"] == [f"range@{number}" for number in POISON]
    assert result["cursor"]["epoch"] == 2 and result["samples"] == 400
    service.stop()


def test_under_fail_the_error_names_the_record_and_the_command(folder):
    service = start(folder, "service")
    spec = poison_spec(folder, "crash", errors={"policy": "fail"})
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        values = []
        with pytest.raises(bulkhead.BulkheadError) as error:
            for batch in loader.stream():
                values += batch["index"].tolist()
    assert values == list(range(32))
    assert error.value.reason == "POISON_SAMPLE"
    assert error.value.metadata["record"] == "range@37"
    assert error.value.metadata["command"] == "bulkhead quarantine add 'range@37'"
    assert error.value.metadata["command"] in str(error.value)
    assert "fault" in error.value.metadata["cause"]
    assert listed(service) == []
    service.stop()


def test_what_is_added_for_an_embedded_service_by_another_one_holds_for_the_next(folder):
    """As the message and docs/semantics.md advise, with the default cache folder."""
    spec = write_spec(folder / "s.json", source={"range": {"size": 100}}, batch={"size": 10}, epochs=1)
    with bulkhead.Loader(spec, workers=1) as loader:
        assert sum(len(batch["index"]) for batch in loader) == 100
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    ready, child_end = os.pipe()
    daemon = subprocess.Popen([BIN / "bulkheadd", "--ready-fd", str(child_end)], env=environment, pass_fds=(child_end,))
    os.close(child_end)
    try:
        with os.fdopen(ready) as said:
            assert said.readline().startswith("ready")
        subprocess.run([BIN / "bulkhead", "quarantine", "add", "range@37", "--target", f"unix:{folder}/bulkhead/loader.sock"], check=True)
    finally:
        daemon.terminate()
        assert daemon.wait(30) == 0
    with pytest.raises(bulkhead.BulkheadError) as error:
        with bulkhead.Loader(spec, workers=1) as loader:
            list(loader)
    assert error.value.reason == "QUARANTINED"
    assert error.value.metadata["record"] == "range@37"
