"""deterministic: false. Batches out of turn, each once, and cursors that know which."""

import contextlib
import json

import pytest

import bulkhead
from bulkhead._batch import order as order_module
from bulkhead._batch.batch import Layout, cursor_from_dict, cursor_to_dict
from bulkhead._rpc import proto
from bulkhead.errors import ProtocolError

# Of a quarantine of a@1 and b@2, as in tests/base/quarantine_set_test.cc.
DIGEST = "6c6aa3c66365a5218535b36d34d6be97a699bd142832e05d423d53923e17f5cf"


def firsts(batches):
    return [int(batch["index"][0]) for batch in batches]


def drained(loader):
    """(first index, sequence) of each batch; keeps none."""
    return [(int(batch["index"][0]), batch.sequence) for batch in loader.stream()]


def test_batches_come_as_they_are_sent_and_know_their_places(fake):
    loader = fake.open(samples=60, batch=10, reverse=3, epochs=2)
    assert drained(loader) == [
        (20, 2), (10, 1), (0, 0), (50, 5), (40, 4), (30, 3),
        (1020, 8), (1010, 7), (1000, 6), (1050, 11), (1040, 10), (1030, 9),
    ]  # fmt: skip


def test_loops_and_len_count_deliveries(fake):
    loader = fake.open(samples=55, batch=10, reverse=4, epochs=2)
    assert len(loader) == 6
    assert [int(batch["index"][0]) for batch in loader] == [30, 20, 10, 0, 50, 40]
    assert len(loader) == 6
    assert len([None for _ in loader]) == 6
    assert len(loader) == 0


def test_the_cursor_names_what_came_above_the_low_water_mark(fake):
    loader = fake.open(samples=60, batch=10, reverse=3)
    cursors = [loader.next_batch().cursor for _ in range(6)]
    brief = [(c["epoch"], c["consumed"], c.get("completed")) for c in cursors]
    assert brief == [
        (0, 0, [2]), (0, 0, [1, 2]), (0, 30, None), (0, 30, [2]), (0, 30, [1, 2]), (1, 0, None),
    ]  # fmt: skip
    assert cursors[0]["batch_size"] == 10 and cursors[0]["world_size"] == 1
    assert not {"completed", "batch_size", "world_size"} & set(cursors[2])


@pytest.mark.parametrize("taken", range(1, 12))
def test_a_resumed_run_delivers_exactly_the_rest(fake, taken):
    spec = dict(samples=58, batch=10, reverse=4, epochs=2)
    loader = fake.open(**spec)
    values = []
    for _ in range(taken):
        batch = loader.next_batch()
        values.append(int(batch["index"][0]))
    state = json.loads(json.dumps(loader.state_dict()))
    del batch
    loader.close()
    resumed = fake.open(**{**spec, "reverse": 3}, loader={"cursor": state})
    values += [index for index, _ in drained(resumed)]
    assert sorted(values) == [0, 10, 20, 30, 40, 50] + [1000, 1010, 1020, 1030, 1040, 1050]
    assert resumed.state_dict()["epoch"] == 2 and "completed" not in resumed.state_dict()


@pytest.mark.parametrize("lose_after", range(1, 12))
def test_after_a_reconnect_numbers_go_on_and_nothing_comes_twice(fake, lose_after):
    loader = fake.open(samples=60, batch=10, reverse=5, epochs=2, lose_after=lose_after)
    came = drained(loader)
    assert sorted(came) == [(1000 * e + 10 * i, 6 * e + i) for e in range(2) for i in range(6)]
    assert loader.reconnects == 1
    assert loader.state_dict()["epoch"] == 2


def test_a_cursor_with_completed_batches_travels_both_ways():
    values = {
        "version": 2, "order_fingerprint": "aa", "bytes_fingerprint": "bb", "epoch": 1,
        "consumed": 40, "samples_per_epoch": 100, "quarantined": [], "substitutions": 0,
    }  # fmt: skip
    assert cursor_to_dict(cursor_from_dict(values)) == values, "an old one stays as it is"
    more = {**values, "completed": [1, 5], "batch_size": 10, "world_size": 2}
    assert cursor_to_dict(cursor_from_dict(more)) == more
    coded = {**values, "code": [{"name": "augment.py", "digest": "00ff"}]}
    assert cursor_to_dict(cursor_from_dict(coded)) == coded
    empty = {**values, "completed": [], "batch_size": 0, "world_size": 0}
    assert cursor_to_dict(cursor_from_dict(empty)) == values
    with pytest.raises(bulkhead.InvalidArgument):
        cursor_from_dict({**values, "completed": ["x"]})


def test_set_epoch_forgets_what_was_completed(fake):
    loader = fake.open(samples=60, batch=10, reverse=3, epochs=9)
    loader.next_batch()
    assert loader.state_dict()["completed"] == [2]
    loader.set_epoch(4)
    assert int(loader.next_batch()["index"][0]) == 4020
    assert list(fake.opens[-1].cursor.completed) == []


def order(world_size=1, unordered=True, **cursor):
    layout = Layout((), (), (), batch_size=10, batch_bytes=64, outputs=(), ragged={})
    opened = proto.StreamResponse(opened=dict(unordered=unordered)).opened
    base = {"epoch": 0, "consumed": 0, "substitutions": 0, "quarantined": [], **cursor}
    return order_module.Order(opened, layout, world_size, base)


def header(sequence, left=9, epoch=0, **more):
    return proto.BatchHeader(
        sequence=sequence, epoch=epoch, sample_count=10, batches_left_in_epoch=left, **more
    )


@pytest.mark.parametrize(
    "known, digest, fits",
    [
        ([], "", True), (["a@1", "b@2"], "", False), ([], DIGEST, False), (["a@1"], DIGEST, False),
        (["b@2", "a@1"], DIGEST, True),
    ],
)
def test_a_batch_made_with_another_quarantine_is_refused(known, digest, fits):
    state = order(quarantined=known)
    with contextlib.nullcontext() if fits else pytest.raises(ProtocolError, match="in quarantine"):
        state.check(header(0, quarantine_digest=digest))


def test_all_ranks_consume_a_step():
    cursor = order(world_size=4, consumed=80).note(header(0))
    assert (cursor["consumed"], "completed" in cursor) == (120, False)
    state = order(world_size=4, consumed=80).note(header(3))
    assert (state["consumed"], state["completed"], state["world_size"]) == (80, [3], 4)


@pytest.mark.parametrize("sequence, seen", [(64, []), (1, [1]), (0, [0]), (5, [3, 5])])
def test_twice_or_too_far_ahead_is_refused(sequence, seen):
    state = order()
    for number in seen:
        state.check(header(number))
        state.note(header(number))
    with pytest.raises(ProtocolError):
        state.check(header(sequence))


def test_the_far_end_of_the_window_is_allowed():
    order().check(header(63))


def test_an_ordered_stream_has_no_window():
    with pytest.raises(ProtocolError, match="batch 0 was due"):
        order(unordered=False).check(header(1))


def test_an_epoch_does_not_begin_before_the_last_one_is_over():
    state = order()
    state.note(header(1))
    with pytest.raises(ProtocolError):
        state.check(header(2, epoch=1))
    with pytest.raises(ProtocolError):
        state.note(header(2, left=0))


def test_a_cursor_at_an_epochs_end_leads_into_the_next():
    state = order(consumed=95)
    state.check(header(1, epoch=1))
    assert state.note(header(1, epoch=1))["completed"] == [1]
    cursor = state.note(header(0, epoch=1))
    assert (cursor["epoch"], cursor["consumed"]) == (1, 20)


@pytest.mark.parametrize("completed, unordered", [([0], True), ([64], True), ([1], False)])
def test_a_cursor_that_cannot_be_is_refused(completed, unordered):
    with pytest.raises(ProtocolError):
        order(unordered=unordered, completed=completed)
