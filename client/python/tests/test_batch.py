"""Batches in pieces, under other names, in other libraries' hands; and what was counted of them."""

import gc
import json
import re
import weakref

import numpy as np
import pytest

import bulkhead
from bulkhead import _stats
from bulkhead._batch.batch import Batch, Layout
from bulkhead._rpc import proto


def batch_of(samples, valid=None, first=100):
    header = proto.BatchHeader(
        epoch=2,
        sample_count=samples,
        valid_count=samples if valid is None else valid,
        first_position=first,
        batches_left_in_epoch=5,
    )
    arrays = {"x": np.arange(samples * 3).reshape(samples, 3), "y": np.arange(samples)}
    return Batch(arrays, header, 7, {"consumed": 9, "quarantined": []}, Layout((), (), (), samples, 0, (), {}))


@pytest.mark.parametrize(
    "samples, parts, sizes",
    [(8, 4, [2, 2, 2, 2]), (7, 3, [3, 2, 2]), (8, 1, [8]), (2, 4, [1, 1]), (5, 5, [1] * 5)],
)
def test_pieces_are_views_with_their_own_positions(samples, parts, sizes):
    batch = batch_of(samples)
    pieces = batch.split(parts)
    assert [piece.sample_count for piece in pieces] == sizes
    assert [p for piece in pieces for p in piece.positions] == list(batch.positions)
    assert np.concatenate([piece["x"] for piece in pieces]).tolist() == batch["x"].tolist()
    for piece in pieces:
        assert list(piece) == ["x", "y"]
        assert np.shares_memory(piece["x"], batch["x"])
        assert (piece.epoch, piece.sequence, piece.cursor) == (2, 7, batch.cursor)
        assert len(piece["x"]) == len(piece["y"]) == piece.sample_count


def test_padding_falls_to_the_last_pieces():
    pieces = batch_of(8, valid=3).split(4)
    assert [piece.valid_count for piece in pieces] == [2, 1, 0, 0]
    assert [list(piece.positions) for piece in pieces] == [[100, 101], [102], [], []]


def test_no_piece_at_all_is_refused():
    for parts in (0, -1):
        with pytest.raises(bulkhead.InvalidArgument, match="cannot be split"):
            batch_of(8).split(parts)


def test_the_number_of_pieces_is_a_whole_number():
    pieces = batch_of(8).split(np.int64(2))
    assert type(pieces[0].sample_count) is int and json.dumps(list(pieces[1].positions))
    for parts in (2.0, "2", None):
        with pytest.raises(TypeError):
            batch_of(8).split(parts)


def test_a_piece_keeps_its_slot(fake_shm):
    loader = fake_shm.open(samples=4000, batch=8)
    piece = loader.next_batch().split(2)[1]
    for _ in range(20):
        loader.next_batch()
    assert loader.held_slots == 1
    assert piece["index"].tolist() == [4, 5, 6, 7]
    del piece
    gc.collect()
    assert loader.held_slots == 0


def test_outputs_are_called_as_the_model_wants(fake):
    loader = fake.open(samples=20, loader={"rename": {"pix": "x"}})
    batch = loader.next_batch()
    assert list(batch) == ["index", "x"] and batch["x"].shape == (8, 3)
    assert [tensor.name for tensor in loader.schema] == ["index", "x"]
    assert list(batch.split(2)[1]) == ["index", "x"]


def test_names_can_be_swapped(fake):
    batch = fake.open(loader={"rename": {"pix": "index", "index": "pix"}}).next_batch()
    assert batch["pix"].dtype == np.int64 and batch["index"].dtype == np.uint8


@pytest.mark.parametrize(
    "rename, words",
    [
        ({"image": "x"}, "no output 'image'; the outputs are index, pix"),
        ({"pix": "index"}, "two outputs would be called 'index'"),
        ({"pix": 3}, "rename maps outputs to names"),
        ("pix", "rename maps outputs to names"),
    ],
)
def test_renaming_that_cannot_be_is_refused(fake, rename, words):
    with pytest.raises(bulkhead.InvalidArgument, match=words):
        fake.open(loader={"rename": rename})


def test_arrays_go_by_dlpack_and_the_array_interface_without_a_copy(fake):
    batch = fake.open(samples=20).next_batch()
    for array in batch.values():
        assert array.flags.writeable
        taken = np.from_dlpack(array)
        assert np.shares_memory(taken, array)
        assert array.__array_interface__["data"] == (array.ctypes.data, False)
        array[0] = 77  # NumPy's own from_dlpack gives a read-only view, of the same memory
        assert taken.reshape(-1)[0] == 77


def test_a_view_by_dlpack_keeps_the_slot(fake_shm):
    loader = fake_shm.open(samples=4000, batch=8)
    kept = np.from_dlpack(loader.next_batch()["index"])
    for _ in range(20):
        loader.next_batch()
    assert loader.held_slots == 1 and kept.tolist() == list(range(8))


def test_stats_count_what_was_handed_out(fake):
    loader = fake.open(samples=20, batch=8, epochs=2)
    assert loader.stats[:3] == (0, 0, 0)
    kept = list(loader)
    stats = loader.stats
    assert (stats.batches, stats.samples) == (3, 20)
    assert stats.bytes == sum(array.nbytes for batch in kept for array in batch.values())
    assert stats.wait_seconds > 0 and stats.reconnects == 0
    assert stats.held_slots == (3 if loader.transport == "shm" else 0)
    loader.close()
    assert loader.stats[:4] == stats[:4] and loader.stats[5:] == (0, 0)


def test_stats_see_what_is_ready(fake):
    loader = fake.open(samples=4000, batch=8, loader={"credits": 3})
    stream = loader._stream._stream
    with stream._changed:
        assert stream._changed.wait_for(lambda: loader.stats.ready_batches == 3, 10)


def test_stats_go_on_after_a_reconnect_and_a_loaded_state(fake):
    loader = fake.open(samples=40, batch=8, lose_after=1)
    list(loader)
    assert (loader.stats.batches, loader.stats.samples, loader.stats.reconnects) == (5, 40, 1)
    loader.load_state_dict({**loader.state_dict(), "epoch": 0, "consumed": 32})
    loader.next_batch()
    assert (loader.stats.batches, loader.stats.samples, loader.stats.reconnects) == (6, 48, 1)


def test_padded_samples_are_not_counted(fake, monkeypatch):
    loader = fake.open(samples=20, batch=8)
    stream = loader._stream
    ask = stream.next

    def padded(timeout):
        batch = ask(timeout)
        batch.valid_count = 3
        return batch

    monkeypatch.setattr(stream, "next", padded)
    loader.next_batch()
    assert loader.stats.samples == 3


def test_metrics_are_prometheus_text(fake):
    loader = fake.open(samples=20, batch=8, loader={"name": 'a"\\b', "rank": 1, "world_size": 2})
    list(loader)
    text = bulkhead.metrics_text()
    assert 'bulkhead_client_batches_total{loader="a\\"\\\\b",rank="1"} 3\n' in text
    line = re.compile(r'bulkhead_client_[a-z_]+\{loader="[^\n]*",rank="\d+"\} [0-9.e+-]+')
    samples = [part for part in text.splitlines() if not part.startswith("#")]
    assert all(line.fullmatch(sample) for sample in samples)
    types = re.findall(r"# TYPE (\S+) (counter|gauge)\n", text)
    assert {name for name, _ in types} == {sample.partition("{")[0] for sample in samples}
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types)
    loader.close()
    assert 'rank="1"' not in bulkhead.metrics_text()


def test_metrics_can_be_asked_for_while_loaders_are_opened(fake, monkeypatch):
    first = fake.open(loader={"name": "first"})
    is_open = type(first)._is_open
    opened = []

    def opening_another(loader):
        if not opened:
            opened.append(None)
            opened.append(fake.open())
        return is_open(loader)

    monkeypatch.setattr(type(first), "_is_open", opening_another)
    assert 'loader="first"' in bulkhead.metrics_text()
    assert len(opened) == 2


def test_metrics_forget_a_loader_that_is_gone(fake):
    loader = bulkhead.Loader("{}", fake.open().target, name="gone", timeout=10)
    assert 'loader="gone"' in bulkhead.metrics_text()
    known = weakref.ref(loader)
    assert known in _stats._loaders  # equal while the loader lives
    del loader
    gc.collect()
    assert known() is None and all(other() is not None for other in _stats._loaders)
    assert 'loader="gone"' not in bulkhead.metrics_text()


def test_stats_are_ready_for_json(fake):
    assert json.loads(json.dumps(fake.open().stats._asdict()))["batches"] == 0
