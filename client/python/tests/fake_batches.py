"""What the stand-in of the service sends as batches: schema, bytes, and both spoilt."""

import numpy as np

from bulkhead._batch.order import quarantine_digest

INDEX_DTYPE, PIX_DTYPE = 6, 1
MOST_ROWS = 4


def schema_of(spec):
    batch = spec.get("batch", 8)
    pix_offset = -(-8 * batch // 64) * 64
    total = pix_offset + -(-3 * batch // 64) * 64
    schema = {
        "tensors": [
            dict(name="index", dtype=INDEX_DTYPE, element_bytes=8, sample_bytes=8, batch_offset=0),
            dict(
                name="pix", dtype=PIX_DTYPE, shape=[3], element_bytes=1, sample_bytes=3,
                batch_offset=pix_offset,
            ),
        ],
        "batch_size": batch,
        "batch_bytes": total,
    }

    def add(name, dtype, element_bytes, shape, packing=0):
        size = element_bytes * int(np.prod(shape))
        schema["tensors"].append(
            dict(
                name=name, dtype=dtype, element_bytes=element_bytes, shape=shape, sample_bytes=size,
                batch_offset=schema["batch_bytes"], packing=packing,
            )
        )
        schema["batch_bytes"] += -(-size * batch // 64) * 64

    if spec.get("rows"):
        add("runs", INDEX_DTYPE, 8, [MOST_ROWS], 1)
        add("runs_count", INDEX_DTYPE, 8, [])
    if spec.get("images"):
        add("flat", PIX_DTYPE, 1, [2, 3, 1], 2)
        add("flat_size", INDEX_DTYPE, 8, [2])
    return schema


def in_turn(count, group):
    """0 … count − 1, every `group` of them backwards."""
    for start in range(0, count, group):
        yield from reversed(range(start, min(start + group, count)))


def contents(header, spec):
    """The arrays of a batch, one for each tensor of the schema."""
    first, count = header["first_position"], header["sample_count"]
    index = np.arange(first, first + count, dtype=np.int64) + 1000 * header["epoch"]
    spoilt = spec.get("mode", "") if header["sequence"] == 1 else ""
    arrays = [index, np.repeat(index.astype(np.uint8), 3)]
    if spec.get("rows"):
        counts = index % (MOST_ROWS + 1)
        packed = np.repeat(index, counts)
        rows = np.zeros(MOST_ROWS * count, np.int64)
        rows[: len(packed)] = packed
        counts[-1] = {"bad:many_rows": MOST_ROWS + 1, "bad:negative_rows": -1}.get(spoilt, counts[-1])
        arrays += [rows, counts]
    if spec.get("images"):
        width = header["sequence"] % 3 + 1
        flat = np.zeros(6 * count, np.uint8)
        flat[: 2 * width * count] = np.repeat(index.astype(np.uint8), 2 * width)
        size = {"bad:wide": (2, 4), "bad:no_height": (0, 1)}.get(spoilt, (2, width))
        arrays += [flat, np.tile(np.array(size, np.int64), count)]
    return arrays


def spoil(mode, header, pieces):
    """The pieces of a batch's bytes as `mode` wants them wrong; changes the header, too."""
    offset, data = pieces[-1]
    if mode == "bad:offset":
        return pieces[:-1] + [(1 << 63, data)]
    if mode == "bad:outside":
        return pieces[:-1] + [(190, data)]
    if mode == "bad:overlap":
        return pieces[:-1] + [(offset - 64 if offset >= 64 else 0, data)]
    if mode == "bad:gap":
        return pieces[:-1] + [(offset + 1, data)]
    if mode == "bad:excess":
        return pieces + [(offset, data)]
    if mode == "bad:short":
        header["payload_bytes"] -= len(data)
        return pieces[:-1]
    if mode == "bad:cut":
        return pieces[:-1]
    if mode == "bad:sequence":
        header["sequence"] += 1
    if mode == "bad:count":
        header["sample_count"] = 1 << 40
    if mode == "bad:payload":
        header["payload_bytes"] = 1 << 60
    if mode == "bad:quarantine":
        header["quarantine_digest"] = quarantine_digest(["z@1"])
    return pieces
