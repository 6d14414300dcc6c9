"""Small data sets, written without TensorFlow."""

import json
import struct

_TABLE = []
for _byte in range(256):
    _value = _byte
    for _ in range(8):
        _value = _value >> 1 ^ (0x82F63B78 if _value & 1 else 0)
    _TABLE.append(_value)


def masked_crc32c(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked_crc32c(length) + payload + masked_crc32c(payload)


def field(number: int, payload: bytes) -> bytes:
    assert len(payload) < 1 << 14
    size = len(payload)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([number << 3 | 2]) + length + payload


def example(label: int, text: bytes) -> bytes:
    """A tf.Example with an int64 `label` and a byte string `text`."""
    int64 = field(3, field(1, bytes([label])))
    string = field(1, field(1, text))
    entries = (field(1, b"label") + field(2, int64), field(1, b"text") + field(2, string))
    return field(1, b"".join(field(1, entry) for entry in entries))


def write_tfrecord(path, labels):
    path.write_bytes(b"".join(record(example(label, b"t%d" % label)) for label in labels))


def write_runs(path, numbers):
    """Records of an int64 list `runs`: the number, itself modulo 4 times."""

    def example(number):
        values = field(3, field(1, bytes([number]) * (number % 4)))
        return field(1, field(1, field(1, b"runs") + field(2, values)))

    path.write_bytes(b"".join(record(example(number)) for number in numbers))


def write_spec(path, **spec):
    path.write_text(json.dumps(spec))
    return path


def range_spec(path, size=20, batch=8, epochs=1, **more):
    batch = batch if isinstance(batch, dict) else {"size": batch}
    return write_spec(path, source={"range": {"size": size}}, batch=batch, epochs=epochs, **more)


def tfrecord_spec(path, files, **more):
    return write_spec(
        path,
        source={"tfrecord": {"files": files}},
        features={"label": {"int64": {}}, "text": {"bytes": {"max_bytes": 8}}},
        **{"batch": {"size": 4}, "epochs": 1, **more},
    )


def shuffled_records(folder, **more):
    """A spec of 900 samples, 100 records in nine shuffled epochs."""
    write_tfrecord(folder / "a.tfrecord", range(100))
    return tfrecord_spec(
        folder / "s.yaml", "a.tfrecord", order={"global": {}}, seed=5, batch={"size": 3},
        epochs=9, **more,
    )
