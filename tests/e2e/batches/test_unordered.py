"""`deterministic: false`: batches come as they are finished, every one of them once, with the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import AUGMENTED, BIN, HERE, Service, children_of, write_spec

import bulkhead

CHAOS = HERE.parent / "chaos"
TRAINERS = {
    "cpp": [str(BIN / "bulkhead-chaos-trainer")],
    "python": [sys.executable, str(CHAOS / "trainer.py")],
}


@pytest.fixture(params=["cpp", "python"])
def trainer(request):
    return TRAINERS[request.param]


@pytest.fixture(params=["grpc", "shm"])
def transport(request):
    return request.param


def spec_of(path, photos, **more):
    return write_spec(
        path,
        source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}},
        features={"image": {"bytes": {}}, "label": {"int64": {}}},
        stages=AUGMENTED, batch={"size": 4}, order={"global": {}}, seed=3, epochs=3, **more,
    )


def train(trainer, spec, service, transport, batches=1 << 30, cursor=None):
    command = [*trainer, spec, service.target, "unordered", batches, transport, 0]
    output = subprocess.run(
        list(map(str, command)) + ([json.dumps(cursor)] if cursor else []),
        check=True, stdout=subprocess.PIPE, text=True, timeout=120,
    ).stdout
    lines = [json.loads(line) for line in output.splitlines()]
    assert all("digest" in line for line in lines), lines
    return lines


def keys(lines):
    return [(line["epoch"], line["first"], line["digest"]) for line in lines]


@pytest.fixture
def service(folder, photos):
    service = Service(folder, "--root", photos, "--workers", "2")
    yield service
    service.stop()


@pytest.fixture
def both(folder, photos):
    return (
        spec_of(folder / "ordered.json", photos),
        spec_of(folder / "unordered.json", photos, deterministic=False),
    )


def test_each_batch_comes_once_and_epochs_stay_apart(trainer, transport, service, both):
    ordered, unordered = (train(trainer, spec, service, transport) for spec in both)
    assert sorted(keys(unordered)) == sorted(keys(ordered))
    assert [line["epoch"] for line in unordered] == sorted(line["epoch"] for line in unordered)


def test_any_cursor_goes_on_with_exactly_the_rest(trainer, transport, service, both):
    expected = sorted(keys(train(trainer, both[0], service, transport)))
    begun = train(trainer, both[1], service, transport, batches=45)
    rest = train(trainer, both[1], service, transport, cursor=begun[-1]["cursor"])
    assert sorted(keys(begun) + keys(rest)) == expected


def test_a_stopped_worker_does_not_hold_up_the_others(service, folder, photos):
    """The other worker's batches overtake its own, and its own come in the end."""
    spec = spec_of(folder / "s.json", photos, deterministic=False)
    with bulkhead.Loader(spec, service.target, credits=16) as loader:
        loader.next_batch()
        stopped = children_of(service.process.pid)[0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            overtaken, positions = 0, []
            deadline = time.monotonic() + 20
            while not overtaken and time.monotonic() < deadline:
                batch = loader.next_batch(timeout=20)
                overtaken += bool(positions) and batch.positions.start < max(positions)
                overtaken += bool(batch.cursor.get("completed"))
                positions.append(batch.positions.start)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert overtaken


def test_an_ordered_stream_does_not_deliver_again_what_came_before_its_turn(service, both, folder):
    lines = train(TRAINERS["python"], both[1], service, "grpc")
    between = next((line["cursor"] for line in lines if line["cursor"].get("completed")), None)
    if between is None:  # every batch happened to come in its turn: make such a cursor
        first = lines[0]["cursor"]
        between = {**first, "consumed": 0, "completed": [1], "batch_size": 4, "world_size": 1}
    with pytest.raises(bulkhead.CursorMismatch, match="out of turn"):
        bulkhead.Loader(both[0], service.target, cursor=between)
    # A cursor that stands between no batches fits both.
    plain = {**lines[-1]["cursor"], "epoch": 1, "consumed": 0}
    plain = {key: value for key, value in plain.items() if key not in ("completed", "batch_size", "world_size")}
    bulkhead.Loader(both[0], service.target, cursor=plain).close()

    # Replay shows batches in their order, the ones that were delivered early included.
    (folder / "c.json").write_text(json.dumps(between))
    said = subprocess.run(
        [BIN / "bulkhead", "replay", "--spec", both[1], "--cursor", folder / "c.json", "--batches", "6",
         "--target", service.target],
        check=True, stdout=subprocess.PIPE, text=True, timeout=60,
    ).stdout
    begin = between["consumed"]
    assert [line.split(":")[0] for line in said.splitlines() if line.startswith("epoch")] == [
        f"epoch {between['epoch']}, positions {at} to {at + 3}" for at in range(begin, begin + 24, 4)
    ]
