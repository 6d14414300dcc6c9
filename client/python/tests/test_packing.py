"""Outputs whose samples lie packed: what batches give of them, and what is not believed."""

import numpy as np
import pytest

from bulkhead._batch import batch as batch_module
from bulkhead._rpc import proto
from bulkhead.errors import ProtocolError


def numbers(begin, end):
    """What the fake service packs of these samples."""
    return [i for i in range(begin, end) for _ in range(i % 5)]


def test_rows_come_as_one_array_with_offsets(fake):
    loader = fake.open(samples=20, batch=8, rows=True)
    assert [(output.name, output.packing, output.batch_shape) for output in loader.schema] == [
        ("index", "samples", (None,)),
        ("pix", "samples", (None, 3)),
        ("runs", "rows", (None,)),
        ("runs_offsets", "offsets", (None,)),
        ("runs_count", "samples", (None,)),
    ]
    for begin, batch in zip((0, 8, 16), loader):
        end = min(begin + 8, 20)
        assert list(batch) == [output.name for output in loader.schema]
        assert batch["runs"].tolist() == numbers(begin, end)
        counts = [i % 5 for i in range(begin, end)]
        assert batch["runs_count"].tolist() == counts
        assert batch["runs_offsets"].dtype == np.int64
        assert batch["runs_offsets"].tolist() == [0, *np.cumsum(counts)]
        offsets = batch["runs_offsets"]
        rows = [batch["runs"][a:b].tolist() for a, b in zip(offsets, offsets[1:])]
        assert rows == [[i] * (i % 5) for i in range(begin, end)]


def test_rows_are_views_that_keep_the_slot(fake_shm):
    loader = fake_shm.open(samples=4000, batch=8, rows=True)
    kept = loader.next_batch()["runs"]
    for _ in range(20):
        loader.next_batch()
    assert loader.held_slots == 1 and kept.tolist() == numbers(0, 8)
    assert kept.flags.writeable and kept.base is not None


def test_pieces_have_offsets_of_their_own(fake):
    batch = fake.open(samples=20, batch=8, rows=True).next_batch()
    pieces = batch.split(3)
    assert [piece.sample_count for piece in pieces] == [3, 3, 2]
    for begin, piece in zip((0, 3, 6), pieces):
        end = begin + piece.sample_count
        assert piece["runs"].tolist() == numbers(begin, end)
        assert np.shares_memory(piece["runs"], batch["runs"])
        assert piece["runs_offsets"].tolist() == [0, *np.cumsum([i % 5 for i in range(begin, end)])]
    again = pieces[1].split(2)[1]
    assert again["runs"].tolist() == numbers(5, 6) == []
    assert again["runs_offsets"].tolist() == [0, 0]


def test_renamed_rows_are_split_alike(fake):
    names = {"runs": "values", "runs_offsets": "splits"}
    loader = fake.open(samples=20, batch=8, rows=True, loader={"rename": names})
    piece = loader.next_batch().split(2)[1]
    assert piece["values"].tolist() == numbers(4, 8)
    assert piece["splits"].tolist() == [0, 4, 4, 5, 7]
    assert {output.name for output in loader.schema} >= {"values", "splits"}


def test_images_have_the_size_of_their_batch(fake):
    loader = fake.open(samples=32, batch=8, images=True)
    flat = next(output for output in loader.schema if output.name == "flat")
    assert (flat.packing, flat.shape, flat.batch_shape) == ("extents", (2, 3, 1), (None, None, None, 1))
    for number, batch in enumerate(loader):
        width = number % 3 + 1
        assert batch["flat"].shape == (8, 2, width, 1)
        assert batch["flat_size"].tolist() == [[2, width]] * 8
        assert batch["flat"][:, 1, -1, 0].tolist() == batch["index"].tolist()
        assert batch.split(2)[1]["flat"].shape == (4, 2, width, 1)


@pytest.mark.parametrize(
    "kind, output, words",
    [
        ("many_rows", "rows", "sample 7 has 5 rows of 'runs', of which there are 0 to 4"),
        ("negative_rows", "rows", "sample 7 has -1 rows of 'runs'"),
        ("wide", "images", "'flat' has 2 x 4 pixels, at most 2 x 3 are possible"),
        ("no_height", "images", "'flat' has 0 x 1 pixels"),
    ],
)
def test_what_lies_outside_its_tensor_is_not_believed(fake, kind, output, words):
    loader = fake.open(samples=40, batch=8, mode=f"bad:{kind}", **{output: True})
    loader.next_batch()
    with pytest.raises(ProtocolError, match=words):
        loader.next_batch()


def schema(change=None, **of_tensor):
    tensors = [
        dict(name="a", dtype=6, element_bytes=8, sample_bytes=24, shape=[3], packing=1),
        dict(name="a_count", dtype=6, element_bytes=8, sample_bytes=8, batch_offset=64),
    ]
    tensors[0].update(of_tensor)
    if change is not None:
        change(tensors)
    return proto.StreamResponse(
        opened=dict(schema=dict(tensors=tensors, batch_size=2, batch_bytes=128))
    ).opened.schema


def image(packing, shape):
    def change(tensors):
        tensors[0].update(shape=shape, sample_bytes=24, packing=packing)
        tensors[1].update(name="a_size", shape=[2], sample_bytes=16)

    return change


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda t: t.pop(), "output 'a' is packed, and no 'a_count' says how"),
        (lambda t: t[1].update(dtype=9, element_bytes=4, sample_bytes=4), "no 'a_count' says how"),
        (lambda t: t[1].update(shape=[1]), "no 'a_count' says how"),
        (lambda t: t[1].update(shape=[1], packing=1), "no 'a_count' says how"),
        (lambda t: t[1].update(name="a_offsets"), "no 'a_count' says how"),
        (lambda t: t[0].update(shape=[], sample_bytes=8), "does not know: update it"),
        (lambda t: t[0].update(packing=9), "does not know: update it"),
        (lambda t: t[0].update(packing=2), "does not know: update it"),
        (image(2, [1, 3, 1]), None),
        (image(3, [1, 3, 1]), None),
        (image(2, [3, 1]), "does not know: update it"),
        (
            lambda t: t.append({**t[1], "name": "a_offsets", "batch_offset": 0}),
            "two outputs of one name",
        ),
    ],
)
def test_what_says_how_an_output_is_packed_must_be_there(spoil, words):
    assert batch_module.make_layout(schema()).ragged == {"a": "a_offsets"}
    if words is None:
        assert batch_module.make_layout(schema(spoil)).tensors[0].packing == "extents"
        return
    with pytest.raises(ProtocolError, match=words):
        batch_module.make_layout(schema(spoil))


def test_height_and_width_stand_where_the_layout_has_them():
    block = np.zeros(128, np.uint8)
    block[64:96].view(np.int64)[:] = [1, 2, 1, 2]
    for packing, extents in ((2, [1, 3, 1]), (3, [1, 1, 3])):
        layout = batch_module.make_layout(schema(image(packing, extents)))
        view = batch_module.arrays_in(block, layout, 2)["a"]
        assert view.shape == ((2, 1, 2, 1) if packing == 2 else (2, 1, 1, 2))


def test_no_row_at_all():
    layout = batch_module.make_layout(schema())
    arrays = batch_module.arrays_in(np.zeros(128, np.uint8), layout, 2)
    assert arrays["a"].shape == (0,) and arrays["a_offsets"].tolist() == [0, 0, 0]
