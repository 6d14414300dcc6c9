"""TFRecord files of tf.train.Examples and SequenceExamples, as TensorFlow writes them, without it."""

import struct


def write_records(path, examples):
    """A file of records; each maps keys to ("bytes" | "float" | "int64", values)."""
    _write(path, map(example, examples))


def write_sequences(path, records):
    """A file of SequenceExamples; each is a context and lists: keys with a kind and the values of each step."""
    _write(path, (sequence_example(*record) for record in records))


def _write(path, records):
    with open(path, "wb") as file:
        for data in records:
            length = struct.pack("<Q", len(data))
            file.write(length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data)))


def example(features):
    """A serialized tf.train.Example."""
    return _field(1, _map((key, _feature(*feature)) for key, feature in features.items()))


def sequence_example(context, lists):
    """A serialized tf.train.SequenceExample: a context like an Example's features; lists of steps, {key: (kind, [values, ...])}."""
    steps = ((key, b"".join(_field(1, _feature(kind, values)) for values in rows)) for key, (kind, rows) in lists.items())
    return example(context) + _field(2, _map(steps))


def _map(entries):
    return b"".join(_field(1, _field(1, key.encode()) + _field(2, value)) for key, value in entries)


def _feature(kind, values):
    if kind == "bytes":
        return _field(1, b"".join(_field(1, value) for value in values))
    if kind == "float":
        return _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")
    return _field(3, _field(1, b"".join(_varint(value & (1 << 64) - 1) for value in values)) if values else b"")


def _field(number, data):
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _masked_crc(data):
    """As TFRecords have it: CRC32C, turned and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_examples(path):
    """The tf.train.Examples of a file, each as {key: values}. Checksums are not looked at."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        [features] = [value for _, value in _fields(data[at + 12 : at + 12 + length])]
        yield {bytes(entry[1]).decode(): _values(entry.get(2, b"")) for entry in map(dict, map(_fields, (value for _, value in _fields(features))))}
        at += length + 16


def _values(feature):
    """What a Feature holds: bytes, floats or integers."""
    for kind, listed in _fields(feature):
        if kind == 1:
            return [value for _, value in _fields(listed)]
        packed = b"".join(value for _, value in _fields(listed))
        if kind == 2:
            return list(struct.unpack(f"<{len(packed) // 4}f", packed))
        values = []
        while packed:
            value, packed = _take_varint(packed)
            values.append(value - (1 << 64) if value >> 63 else value)
        return values
    return []


def _fields(data):
    """The fields of a message, all of which have a length: number and bytes."""
    while data:
        tag, data = _take_varint(data)
        size, data = _take_varint(data)
        assert tag & 7 == 2
        yield tag >> 3, data[:size]
        data = data[size:]


def _take_varint(data):
    value = 0
    for i, byte in enumerate(data):
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, data[i + 1 :]
    raise ValueError("a number is cut short")
