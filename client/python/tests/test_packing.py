"""Outputs that do not travel as batches give them, packed or unnormalized: what comes of them, and what is not believed."""

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


# What `normalize: {at: trainer}` leaves to the client.

DTYPES = {name: number for number, name in proto.DTYPE_NAMES.items()}
SAMPLES = 3
Schema = type(proto.StreamResponse().opened.schema)


def schema_of(dtype="float32", channels_first=False, shape=(16, 4, 4), **constants):
    size = int(np.prod(shape))
    tensor = dict(
        name="image", dtype=DTYPES["uint8"], element_bytes=1, shape=shape, sample_bytes=size,
        packing=proto.PACKING_NORMALIZED_BY_CLIENT,
        normalization=dict(dtype=DTYPES[dtype], channels_first=channels_first, **constants),
    )
    return Schema(tensors=[tensor], batch_size=SAMPLES, batch_bytes=-(-size * SAMPLES // 64) * 64)


def normalized(sent, **announced):
    [output] = batch_module.make_layout(schema_of(shape=sent.shape[1:], **announced)).outputs
    result = output.normalization.of(sent)
    assert (result.dtype, result.shape[1:]) == (output.dtype, output.shape)
    assert output.batch_shape == (None, *output.shape) and output.packing == "samples"
    return result


ALL = np.arange(256, dtype=np.uint8).reshape(1, 16, 4, 4)
MEANS, STDS = np.array([1, 2.5, 100, 0], np.float32), np.array([3, 0.1, 58.395, -7], np.float32)


@pytest.mark.parametrize("channels_first", [False, True])
def test_numbers_are_those_of_float32_as_written(channels_first):
    expected = (ALL.astype(np.float32) - MEANS) / STDS
    found = normalized(ALL, mean=MEANS, std=STDS, channels_first=channels_first)
    assert np.array_equal(found, np.moveaxis(expected, -1, -3) if channels_first else expected)
    expected = ALL.astype(np.float32) / STDS - np.float32(0.3)
    found = normalized(ALL, divide=STDS, subtract=[0.3], channels_first=channels_first)
    assert np.array_equal(found, np.moveaxis(expected, -1, -3) if channels_first else expected)


def test_tensors_of_other_ranks_and_no_samples_are_normalized():
    assert normalized(ALL.reshape(1, 64, 4), mean=MEANS, std=[2]).shape == (1, 64, 4)
    assert normalized(ALL[0, :3, 0], mean=MEANS, std=[2]).shape == (3, 4)
    stacks = normalized(ALL.reshape(1, 2, 4, 8, 4), mean=MEANS, std=[2], channels_first=True)
    expected = (ALL.reshape(1, 2, 4, 8, 4) - MEANS) / np.float32(2)
    assert np.array_equal(stacks, np.moveaxis(expected, -1, 2))
    assert normalized(ALL[:0], mean=MEANS, std=[2]).shape == (0, 16, 4, 4)


@pytest.mark.parametrize("divide", [1, 3, 0.003, 1e9, -0.12499999, 16384, 1e-39])
def test_narrow_floats_are_rounded_to_nearest_even(divide, monkeypatch):
    with np.errstate(over="ignore"):
        expected = ALL.astype(np.float32) / np.float32(divide) - np.float32(0.25)
        half = expected.astype(np.float16)
    assert np.array_equal(normalized(ALL, divide=[divide], subtract=[0.25], dtype="float16"), half)
    monkeypatch.setattr(batch_module, "_BFLOAT16", np.dtype(np.uint16))  # without ml_dtypes
    bits = expected.view(np.uint32).astype(np.uint64)
    remainder, floor = bits & 0xFFFF, bits >> 16
    rounded = floor + ((remainder > 0x8000) | ((remainder == 0x8000) & (floor & 1 == 1)))
    found = normalized(ALL, divide=[divide], subtract=[0.25], dtype="bfloat16")
    assert found.dtype == np.uint16 and np.array_equal(found, rounded)


def test_results_use_memory_again():
    [output] = batch_module.make_layout(schema_of(shape=(64, 64, 3), mean=[1], std=[2])).outputs
    sent = np.zeros((SAMPLES, 64, 64, 3), np.uint8)
    first = output.normalization.of(sent)
    address = first.ctypes.data
    assert address % 64 == 0 and output.normalization.of(sent).ctypes.data != address
    del first
    addresses = {output.normalization.of(sent).ctypes.data for _ in range(4)}
    assert address in addresses


@pytest.mark.parametrize(
    "announced",
    [
        dict(dtype="int32", mean=[1], std=[1]),
        dict(mean=[1, 2], std=[1]),
        dict(mean=[1]),
        dict(),
        dict(mean=[1], std=[1], shape=(8, 8), channels_first=True),
    ],
)
def test_what_this_client_does_not_know_is_refused(announced):
    with pytest.raises(ProtocolError, match="does not know .*: update it"):
        batch_module.make_layout(schema_of(**announced))


def test_only_bytes_are_normalized():
    schema = schema_of(mean=[1], std=[1])
    schema.tensors[0].dtype = DTYPES["int8"]
    with pytest.raises(ProtocolError, match=r"\(float32 of int8\): update it"):
        batch_module.make_layout(schema)
