"""Takes a StreamResponse apart without copying a part's data.

Parts are parsed by hand: protobuf would copy their megabyte once more.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from ..errors import ProtocolError
from . import proto

# Tags of StreamResponse.part, BatchPart.header, .offset and .data (loader.proto).
_PART, _HEADER, _OFFSET, _DATA = 0x7A, 0x0A, 0x10, 0x7A
_MAX_HEADER_BYTES = 4096


class Part(NamedTuple):
    header: Optional[object]  # BatchHeader, on a batch's first part
    offset: int
    data: memoryview


def _varint(data, position: int, end: int) -> Tuple[int, int]:
    result = shift = 0
    while True:
        if position >= end or shift > 63:
            raise ProtocolError("the service sent a malformed message")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            if result >> 64:
                raise ProtocolError("the service sent a malformed message")
            return result, position
        shift += 7


def _field_end(data, tag: int, position: int, end: int) -> int:
    """Where the value of a field that begins at `position` ends."""
    kind = tag & 7
    if kind == 0:
        _, position = _varint(data, position, end)
    elif kind == 1:
        position += 8
    elif kind == 2:
        length, position = _varint(data, position, end)
        position += length
    elif kind == 5:
        position += 4
    else:
        position = end + 1
    if position > end or tag >> 3 == 0:
        raise ProtocolError("the service sent a malformed message")
    return position


def _parse_part(message: bytes, position: int, end: int) -> Part:
    header = None
    offset = 0
    data = memoryview(b"")
    while position < end:
        tag, position = _varint(message, position, end)
        field_end = _field_end(message, tag, position, end)
        if tag == _OFFSET:
            offset, _ = _varint(message, position, end)
        elif tag in (_HEADER, _DATA):
            _, start = _varint(message, position, end)
            if tag == _DATA:
                data = memoryview(message)[start:field_end]
            else:
                if field_end - start > _MAX_HEADER_BYTES:
                    raise ProtocolError("the service sent an oversized batch header")
                header = _decode(proto.BatchHeader, message[start:field_end])
        position = field_end
    return Part(header, offset, data)


def _decode(message_class, data: bytes):
    try:
        return message_class.FromString(data)
    except Exception:
        raise ProtocolError("the service sent a malformed message") from None


def parse(message: bytes):
    """A Part, or a StreamResponse that holds anything else."""
    position, end = 0, len(message)
    part = None
    while position < end:
        tag, position = _varint(message, position, end)
        field_end = _field_end(message, tag, position, end)
        if tag == _PART:
            _, start = _varint(message, position, end)
            part = _parse_part(message, start, field_end)
        position = field_end
    return part if part is not None else _decode(proto.StreamResponse, message)
