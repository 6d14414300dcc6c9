"""Small arrays keep no slot; who keeps slots is told which arrays; and what only the collector frees is freed."""

import gc
import inspect
import logging
import pathlib
import weakref

import numpy as np
import pytest

import bulkhead
from bulkhead._arena import exhaustion
from bulkhead._arena.arena import lease_of
from conftest import eventually, indices

SMALL = {"copy_below": 64 << 10}
BIG = 6000  # samples: `index` takes 48,000 bytes, `pix` 18,000


@pytest.fixture
def short_patience(monkeypatch):
    monkeypatch.setattr(exhaustion, "WARNING_SECONDS", 0.1)
    monkeypatch.setattr(exhaustion, "LIMIT_SECONDS", 0.5)


def test_a_label_that_is_kept_keeps_neither_slot_nor_batch(fake):
    loader = fake.open(samples=4000, batch=100, loader=SMALL)
    labels = [batch["index"] for batch in loader]
    assert np.concatenate(labels).tolist() == list(range(4000))
    assert loader.held_slots == 0
    assert all(label.flags.writeable and label.ctypes.data % 64 == 0 for label in labels)
    assert all(lease_of(label)[0].nbytes <= label.nbytes + 64 for label in labels)


def test_small_arrays_alone_are_copied(fake_shm):
    loader = fake_shm.open(samples=3 * BIG, batch=BIG, loader={"copy_below": 20_000})
    arena = fake_shm.arenas[0]
    batch = loader.next_batch()
    batch["pix"][:] = 1
    batch["index"][:] = -1
    assert arena.memory[:].count(b"\xff" * 8 * BIG) == 1 and b"\x01" * 3 * BIG not in arena.memory[:]
    small = batch["pix"]
    del batch
    assert eventually(lambda: loader.held_slots == 0) and small.sum() == 3 * BIG


@pytest.mark.parametrize("limit,copied", [(8 * BIG, False), (8 * BIG + 1, True)])
def test_the_limit_is_the_first_size_that_is_not_copied(fake_shm, limit, copied):
    loader = fake_shm.open(samples=BIG, batch=BIG, loader={"copy_below": limit})
    kept = loader.next_batch()["index"]
    assert loader.held_slots == (0 if copied else 1) and kept[7] == 7


def test_by_default_what_is_under_64_kib_is_copied():
    assert inspect.signature(bulkhead.Loader).parameters["copy_below"].default == 65536


def test_copies_have_rows_offsets_and_names(fake):
    loader = fake.open(samples=16, rows=True, loader={**SMALL, "rename": {"runs": "numbers"}})
    whole = fake.open(samples=16, rows=True, loader={"rename": {"runs": "numbers"}})
    for batch, other in zip(loader, whole):
        assert list(batch) == list(other)
        assert all((batch[name] == other[name]).all() for name in other)
        for part, other_part in zip(batch.split(3), other.split(3)):
            assert all((part[name] == other_part[name]).all() for name in other_part)
    assert loader.held_slots == 0


def test_an_empty_array_is_copied_as_well(fake):
    loader = fake.open(samples=1, batch=1, rows=True, loader=SMALL)  # sample 0 has no rows
    assert loader.next_batch()["runs"].shape == (0,) and loader.held_slots == 0


def test_a_negative_limit_is_refused(fake):
    with pytest.raises(bulkhead.InvalidArgument, match="copy_below"):
        fake.open(loader={"copy_below": -1})


# Who keeps slots is told which arrays.


def line_of(mark):
    lines = pathlib.Path(__file__).read_text().splitlines()
    [number] = [n for n, line in enumerate(lines, 1) if line.endswith("# " + mark)]
    return f"{__file__}:{number}"


def test_the_warning_names_what_is_kept_and_where_it_was_taken(fake_shm, short_patience, caplog):
    loader = fake_shm.open(samples=800, loader={"credits": 3})
    kept = []
    with pytest.raises(bulkhead.SlotsExhausted) as caught:
        for batch in loader:  # the loop
            kept.append(batch["index"][2:4])
            del batch
    text = f"index int64[8] of batches 0, 1 and 2, taken at {line_of('the loop')}"
    assert text in str(caught.value) and text in caplog.text and "pix" not in caplog.text


def test_several_arrays_and_lines_are_told_apart(fake_shm, short_patience):
    loader = fake_shm.open(samples=800, loader={"credits": 2, "rename": {"pix": "image"}})
    first = loader.next_batch()["image"].T  # first
    second = loader.next_batch()  # second
    with pytest.raises(bulkhead.SlotsExhausted) as caught:
        loader.next_batch()
    told = str(caught.value)
    assert f"image uint8[8, 3] of batch 0, taken at {line_of('first')}; " in told
    assert f"index int64[8] of batch 1, taken at {line_of('second')}; " in told
    assert f"image uint8[8, 3] of batch 1, taken at {line_of('second')}; let" in told
    assert first.shape == (3, 8) and len(second) == 2


def test_many_kinds_are_counted(fake_shm, short_patience):
    loader = fake_shm.open(samples=800, slots=9, loader={"credits": 7})
    kept = [
        loader.next_batch()["index"],
        loader.next_batch()["index"],
        loader.next_batch()["index"],
        loader.next_batch()["index"],
        loader.next_batch()["index"],
        loader.next_batch()["index"],
        loader.next_batch()["index"],
    ]
    with pytest.raises(bulkhead.SlotsExhausted, match="; and 3 more; let batches go"):
        loader.next_batch()
    assert len(kept) == 7


def test_what_is_remembered_keeps_nothing_alive(fake_shm):
    loader = fake_shm.open(samples=800)
    gc.disable()
    try:
        batch = loader.next_batch()
        array = weakref.ref(batch["index"])
        del batch
        assert array() is None and loader.held_slots == 0
    finally:
        gc.enable()


# What only the collector frees.


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_arrays_in_cycles_are_collected_while_the_loop_waits(fake_shm, no_collector, caplog):
    loader = fake_shm.open(samples=800, loader={"credits": 3})
    values = []
    for batch in loader:
        values.append(indices(batch)[0])
        cycle = [batch]
        cycle.append(cycle)
        del batch, cycle
    assert values == list(range(0, 800, 8)) and "waiting for a slot" not in caplog.text


def test_old_cycles_are_collected_before_the_warning(fake_shm, no_collector, caplog):
    caplog.set_level(logging.WARNING)
    loader = fake_shm.open(samples=80, loader={"credits": 3})
    for _ in range(3):
        cycle = [loader.next_batch()]
        cycle.append(cycle)
    del cycle
    gc.collect(0)  # moves what it does not free ...
    survivors = [loader.next_batch() for _ in range(3)]
    survivors.append(survivors)
    gc.collect(0)
    gc.collect(1)  # ... and these among the oldest
    del survivors
    assert indices(loader.next_batch()) == list(range(48, 56)) and not caplog.text


def test_nothing_is_collected_while_slots_are_free(fake_shm, no_collector):
    runs = []
    gc.callbacks.append(lambda phase, info: runs.append(info["generation"]))
    try:
        loader = fake_shm.open(mode="stall")
        with pytest.raises(bulkhead.DeadlineExceeded):
            loader.next_batch(timeout=0.3)
        assert not runs
    finally:
        gc.callbacks.pop()


def test_how_often_it_collects(monkeypatch):
    clock, runs = [0.0], []
    monkeypatch.setattr(exhaustion.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(exhaustion.gc, "collect", lambda generation=2: runs.append((clock[0], generation)))
    watch = exhaustion.ExhaustionWatch("here")
    watch.begin(0.0)
    assert watch.pause(3, 4) == float("inf") and not runs
    while clock[0] < 60:
        clock[0] += watch.pause(4, 4)
    young = [at for at, generation in runs if generation == 0]
    assert young[:4] == [0.0, 0.001, 0.003, 0.007]
    assert max(b - a for (a, _), (b, _) in zip(runs, runs[1:])) < 0.065
    full = [at for at, generation in runs if generation == 2]
    assert 0.25 <= full[0] < 0.4 and full[-1] < 60 and len(full) <= 9
    assert all(b >= 2 * a for a, b in zip(full, full[1:]))
