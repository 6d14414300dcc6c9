"""The public protos against those of the last version, last_version.binpb: a copy of the Python client's
descriptors.binpb, taken anew when a version is released."""

import os
import pathlib

import pytest
from compatibility import breaks, read
from google.protobuf import descriptor_pb2

SOURCE = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
# Fresh by client/python/tests/test_package.py.
PRESENT = SOURCE / "client" / "python" / "bulkhead" / "_rpc" / "descriptors.binpb"
LAST = pathlib.Path(__file__).with_name("last_version.binpb")


def test_specs_cursors_and_clients_of_the_last_version_are_understood():
    assert breaks(read(LAST.read_bytes()), read(PRESENT.read_bytes())) == []


@pytest.fixture
def protos():
    return read(PRESENT.read_bytes())


def message(files, name):
    [found] = [m for file in files.file if file.package == "bulkhead.v1" for m in file.message_type if m.name == name]
    return found


def enum(files, name):
    [found] = [e for file in files.file if file.package == "bulkhead.v1" for e in file.enum_type if e.name == name]
    return found


def loader(files):
    [found] = [service for file in files.file for service in file.service]
    return found


def remove(entries, name):
    [at] = [i for i, entry in enumerate(entries) if entry.name == name]
    entry = type(entries[at]).FromString(entries[at].SerializeToString())
    del entries[at]
    return entry


def field(files, name, number):
    [found] = [f for f in message(files, name).field if f.number == number]
    return found


SPOILT = {
    "Cursor.consumed is gone": lambda files: setattr(field(files, "Cursor", 5), "number", 99),
    "Cursor.consumed = 5 is called eaten": lambda files: setattr(field(files, "Cursor", 5), "name", "eaten"),
    "Cursor.consumed has another type": lambda files: setattr(field(files, "Cursor", 5), "type", field(files, "Cursor", 1).type),
    "Cursor.quarantined has another type": lambda files: setattr(field(files, "Cursor", 7), "label", field(files, "Cursor", 1).label),
    "Open.spec has another type": lambda files: setattr(field(files, "Open", 1), "type_name", ".bulkhead.v1.Cursor"),
    "Stage.decode_image has another type": lambda files: field(files, "Stage", 1).ClearField("oneof_index"),
    "field bulkhead.v1.Cursor.consumed is gone": lambda files: remove(message(files, "Cursor").field, "consumed"),
    "message bulkhead.v1.Cursor is gone": lambda files: setattr(message(files, "Cursor"), "name", "Place"),
    "enum bulkhead.v1.SampleEvent.Kind is gone": lambda files: message(files, "SampleEvent").ClearField("enum_type"),
    "value bulkhead.v1.DType.DTYPE_INT8 is gone": lambda files: remove(enum(files, "DType").value, "DTYPE_INT8"),
    "value bulkhead.v1.DType.DTYPE_INT8 = 2": lambda files: setattr(enum(files, "DType").value[2], "name", "DTYPE_I8"),
    "enum bulkhead.v1.DType is gone": lambda files: setattr(enum(files, "DType"), "name", "ElementType"),
    "method bulkhead.v1.Loader.GetStatus": lambda files: remove(loader(files).method, "GetStatus"),
    "method bulkhead.v1.Loader.Describe": lambda files: loader(files).method[0].ClearField("server_streaming"),
}


@pytest.mark.parametrize("broken", SPOILT)
def test_what_would_break_others_is_found(protos, broken):
    SPOILT[broken](protos)
    [found] = breaks(read(PRESENT.read_bytes()), protos)
    assert broken in found


def test_what_is_new_and_what_is_reserved_breaks_nobody(protos):
    cursor, dtype = message(protos, "Cursor"), enum(protos, "DType")
    gone = remove(cursor.field, "consumed")
    cursor.reserved_name.append(gone.name)
    cursor.reserved_range.add(start=gone.number, end=gone.number + 1)
    value = remove(dtype.value, "DTYPE_INT8")
    dtype.reserved_name.append(value.name)
    dtype.reserved_range.add(start=value.number, end=value.number)
    cursor.field.add(name="more", number=99, type=descriptor_pb2.FieldDescriptorProto.TYPE_BOOL)
    dtype.value.add(name="DTYPE_MORE", number=99)
    assert breaks(read(PRESENT.read_bytes()), protos) == []
    cursor.ClearField("reserved_name")
    assert breaks(read(PRESENT.read_bytes()), protos) == ['field bulkhead.v1.Cursor.consumed is gone; reserve 5 and "consumed"']
