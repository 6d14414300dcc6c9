"""Runs in a worker for bulkhead.try_stage, in a stage's place: gives what that stage would get.

It needs only the standard library and NumPy. Its folder is a --python-path of embedded services.
"""

import json
import random
import struct

import numpy as np


def pack(*inputs, rng=None, bulkhead_room, **arguments):
    """One byte string: the inputs, the arguments and the sample's random numbers.

    More than `bulkhead_room` bytes: only how many there are.
    """
    packed = _packed(inputs, rng, arguments)
    return packed if len(packed) <= bulkhead_room else _joined({"needs": len(packed)}, [])


def pack_batch(*inputs, rng=None, bulkhead_room, **arguments):
    """The same of a stage of batches, as uint8 [rows, bulkhead_room]; of too many bytes those of a row.

    The last batch of an epoch may have fewer rows than the others.
    """
    rows = len(inputs[0])
    room = rows * bulkhead_room
    packed = _packed(inputs, rng, arguments)
    if len(packed) > room:
        packed = _joined({"needs": -(-len(packed) // rows)}, [])
    return np.frombuffer(packed.ljust(room, b"."), np.uint8).reshape(-1, bulkhead_room)


def pass_by(_):
    """For samples that do not reach the stage."""
    return _joined({"passed": True}, [])


def _packed(inputs, rng, arguments):
    facts = {"arguments": arguments, "word": random._inst._key, "inputs": []}
    if isinstance(rng, np.random.Generator):
        facts["key"] = [int(word) for word in rng.bit_generator.state["state"]["key"]]
    elif rng is not None:
        arguments["rng"] = rng
    parts = []
    for value in inputs:
        if isinstance(value, bytes):
            facts["inputs"].append({"bytes": len(value)})
            parts.append(value)
        else:
            array = np.ascontiguousarray(value)
            facts["inputs"].append({"dtype": str(array.dtype), "shape": list(np.shape(value))})
            parts.append(array.tobytes())
    return _joined(facts, parts)


def _joined(facts, parts):
    head = json.dumps(facts).encode()
    # NumPy drops zeros at the end of a byte string: the last byte is none.
    return b"".join([struct.pack("<Q", len(head)), head, *parts, b"."])


def unpack(packed):
    """The facts of `pack`, with the inputs themselves in "inputs"; arrays are read-only views."""
    (size,) = struct.unpack_from("<Q", packed)
    facts = json.loads(packed[8 : 8 + size])
    at = 8 + size
    inputs = []
    for kind in facts.get("inputs", ()):
        if "bytes" in kind:
            inputs.append(packed[at : at + kind["bytes"]])
            at += kind["bytes"]
            continue
        dtype, shape = np.dtype(kind["dtype"]), tuple(kind["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(packed, dtype, count, at).reshape(shape)
        inputs.append(array if shape else array[()])
        at += count * dtype.itemsize
    facts["inputs"] = inputs
    return facts
