"""`normalize: {at: trainer}`: what the client makes of bytes, and which announcements it refuses."""

import numpy as np
import pytest

from bulkhead._batch import batch as batch_module
from bulkhead._rpc import proto
from bulkhead.errors import ProtocolError

NUMBERS = {name: number for number, name in proto.DTYPE_NAMES.items()}
SAMPLES = 3
Schema = type(proto.StreamResponse().opened.schema)


def schema_of(dtype="float32", channels_first=False, shape=(16, 4, 4), **constants):
    size = int(np.prod(shape))
    tensor = dict(
        name="image", dtype=NUMBERS["uint8"], element_bytes=1, shape=shape, sample_bytes=size,
        packing=proto.PACKING_NORMALIZED_BY_CLIENT,
        normalization=dict(dtype=NUMBERS[dtype], channels_first=channels_first, **constants),
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
    schema.tensors[0].dtype = NUMBERS["int8"]
    with pytest.raises(ProtocolError, match=r"\(float32 of int8\): update it"):
        batch_module.make_layout(schema)
