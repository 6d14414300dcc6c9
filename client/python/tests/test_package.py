import pathlib
import re
import shutil
import sys
import types

import bulkhead
import numpy as np
import pytest
from conftest import generator
from google.protobuf import descriptor_pb2

from bulkhead._batch import batch
from bulkhead._rpc import descriptor, proto, wire
from bulkhead.errors import ProtocolError

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_descriptors_are_those_of_the_protos(tmp_path):
    if shutil.which("protoc") is None:
        pytest.skip("protoc is not installed")
    update = generator("client/python/update_descriptors.py")
    update.generate(tmp_path / "fresh")
    committed, fresh = (
        {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(data).file}
        for data in (update.OUTPUT.read_bytes(), (tmp_path / "fresh").read_bytes())
    )
    for name in fresh:
        if name.startswith("bulkhead/"):
            assert committed.get(name) == fresh[name], f"{name}: run update_descriptors.py"


def test_messages_do_not_touch_the_default_pool():
    from google.protobuf import descriptor_pool

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("bulkhead.v1.Open")


def test_parts_are_parsed_as_protobuf_would():
    message = proto.StreamResponse(
        part=dict(header=dict(sequence=7, payload_bytes=300), offset=1 << 40, data=b"x" * 300)
    )
    part = wire.parse(message.SerializeToString())
    assert part.header.sequence == 7
    assert part.offset == 1 << 40
    assert bytes(part.data) == b"x" * 300


def test_unknown_fields_are_passed_over():
    inner = b"\x0a\x00" + b"\x18\x05" + b"\x25aaaa" + b"\x29aaaaaaaa" + b"\x7a\x02hi"
    part = wire.parse(b"\x38\x01" + b"\x7a" + bytes([len(inner)]) + inner)
    assert bytes(part.data) == b"hi" and part.header.sequence == 0


def test_no_cut_or_flipped_message_gets_past_the_parser_unnoticed_as_a_crash():
    message = proto.StreamResponse(
        part=dict(header=dict(sequence=7, payload_bytes=9), offset=64, data=b"y" * 40)
    ).SerializeToString()
    refused = 0
    for cut in range(1, len(message)):
        with pytest.raises(ProtocolError):
            wire.parse(message[:cut])
    for place in range(len(message)):
        for value in (0, 0x7F, 0x80, 0xFF):
            try:
                wire.parse(message[:place] + bytes([value]) + message[place + 1 :])
            except ProtocolError:
                refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    "number,width,expected",
    [(1, 1, "u1"), (7, 2, "f2"), (9, 4, "f4"), (11, 1, "?"), (12, 16, "S16"), (6, 8, "i8")],
)
def test_element_types(number, width, expected):
    schema = proto.StreamResponse(
        opened=dict(
            schema=dict(
                tensors=[dict(name="a", dtype=number, element_bytes=width, sample_bytes=width)],
                batch_size=1,
                batch_bytes=64,
            )
        )
    ).opened.schema
    assert batch.make_layout(schema).tensors[0].dtype == np.dtype(expected)


def test_bfloat16_has_two_bytes_with_or_without_ml_dtypes():
    assert batch._numpy_dtype("bfloat16", 2).itemsize == 2
    assert ("ml_dtypes" in sys.modules) == (batch._BFLOAT16.name == "bfloat16")


@pytest.mark.parametrize(
    "change",
    [
        dict(dtype=0),
        dict(dtype=99),
        dict(element_bytes=8),
        dict(sample_bytes=8),
        dict(batch_offset=32),
        dict(batch_offset=64),
        dict(shape=[-1]),
        dict(shape=[1 << 40, 1 << 40]),
    ],
)
def test_schemas_that_do_not_fit_are_refused(change):
    tensor = dict(name="a", dtype=9, element_bytes=4, sample_bytes=4, **{})
    tensor.update(change)
    opened = proto.StreamResponse(
        opened=dict(schema=dict(tensors=[tensor], batch_size=1, batch_bytes=64))
    ).opened
    with pytest.raises(ProtocolError):
        batch.make_layout(opened.schema)


@pytest.mark.parametrize("name, words", [("missing", "No such file"), (".", "it is a folder")])
def test_a_string_without_a_colon_is_a_path(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bulkhead.DataError, match=words):
        bulkhead.Loader(name)


@pytest.mark.parametrize(
    "field, repeated",
    [
        ({"is_repeated": True}, True),
        ({"is_repeated": False}, False),
        ({"label": 3, "LABEL_REPEATED": 3}, True),
        ({"label": 1, "LABEL_REPEATED": 3}, False),
    ],
)
def test_repeated_fields_are_known_to_old_and_new_protobuf(field, repeated):
    assert descriptor.is_repeated(types.SimpleNamespace(**field)) is repeated


def test_clients_send_as_much_as_a_service_takes():
    found = {}
    for path, name in (
        ("server/service/loader_server.cc", "kMaxRequestBytes"),
        ("client/cpp/internal/rpc/channel.h", "kMaxRequestBytes"),
        ("client/python/bulkhead/_rpc/stream_call.py", "MAX_REQUEST_BYTES"),
    ):
        text = (ROOT.parents[1] / path).read_text()
        found[path] = re.findall(rf"^(?:inline )?(?:constexpr int )?{name} = ([^;\n]+)", text, re.MULTILINE)
    assert set(map(tuple, found.values())) == {("8 << 20",)}, found
