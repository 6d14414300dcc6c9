"""TFRecord files of tf.train.Examples, as TensorFlow writes them, without it."""

import struct


def write_records(path, examples):
    """A file of records; each maps keys to ("bytes" | "float" | "int64", values)."""
    with open(path, "wb") as file:
        for features in examples:
            data = example(features)
            length = struct.pack("<Q", len(data))
            file.write(length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data)))


def example(features):
    """A serialized tf.train.Example."""
    entries = (_field(1, key.encode()) + _field(2, _feature(*feature)) for key, feature in features.items())
    return _field(1, b"".join(_field(1, entry) for entry in entries))


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
