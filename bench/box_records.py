"""Photos with boxes as TFRecords, written without TensorFlow: each file as it is, and eight boxes at drawn places."""

import random
import struct

import numpy as np

BOXES = 8
CHUNK = 256  # files whose checksums are worked out side by side


def checksums(messages):
    """Masked CRC-32C of each message, all of them byte by byte in step: they end together, and begin when they do."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = table >> 1 ^ np.where(table & 1, np.uint32(0x82F63B78), np.uint32(0))
    longest = max(map(len, messages))
    columns = np.zeros((longest, len(messages)), np.uint8)
    begins = {}
    for lane, message in enumerate(messages):
        columns[longest - len(message):, lane] = np.frombuffer(message, np.uint8)
        begins.setdefault(longest - len(message), []).append(lane)
    state = np.zeros(len(messages), np.uint32)
    for row, column in enumerate(columns):
        if row in begins:
            state[begins[row]] = 0xFFFFFFFF
        state = table[(state ^ column) & 0xFF] ^ state >> 8
    state = ~state
    return (state >> 15 | state << 17) + np.uint32(0xA282EAD8)


def varint(value):
    text = b""
    while value > 127:
        text += bytes([value & 127 | 128])
        value >>= 7
    return text + bytes([value])


def field(number, payload):
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def example(image, boxes):
    """A tf.Example with the bytes `image` and the float list `boxes`."""
    values = {b"image": field(1, field(1, image)), b"boxes": field(2, field(1, struct.pack(f"<{len(boxes)}f", *boxes)))}
    return field(1, b"".join(field(1, field(1, name) + field(2, value)) for name, value in values.items()))


def boxes_of(number):
    """Corners as shares of the image: left, top, right, bottom."""
    draw = random.Random(number)
    corners = []
    for _ in range(BOXES):
        left, right = sorted(draw.random() for _ in range(2))
        top, bottom = sorted(draw.random() for _ in range(2))
        corners += [left, top, right, bottom]
    return corners


def framed(payloads):
    """As records of a TFRecord file."""
    lengths = [struct.pack("<Q", len(payload)) for payload in payloads]
    for length, length_sum, payload, payload_sum in zip(lengths, checksums(lengths), payloads, checksums(payloads)):
        yield length + struct.pack("<I", length_sum) + payload + struct.pack("<I", payload_sum)


def write(paths, target):
    """A record for each of the images."""
    with open(target, "wb") as file:
        for begin in range(0, len(paths), CHUNK):
            chunk = paths[begin:begin + CHUNK]
            payloads = [example(path.read_bytes(), boxes_of(begin + place)) for place, path in enumerate(chunk)]
            file.write(b"".join(framed(payloads)))
