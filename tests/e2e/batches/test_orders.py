"""What a trainer gets is what the order says: five TFRecords, interleaved as tf.data would."""


import pytest

import bulkhead
from conftest import write_spec

FILES, PER_FILE = 5, 2000  # of `bulkhead synth --schema range`: `var` counts through all files


def stream(numbers, folder, order, epochs=1):
    """`var` of every sample, in the order of delivery."""
    spec = write_spec(
        numbers / f"{folder.name}.yaml",
        source={"tfrecord": {"files": "part-*.tfrecord"}},
        features={"var": "int64"},
        batch={"size": 96},
        order=order,
        epochs=epochs,
    )
    with bulkhead.Loader(spec, workers=2) as loader:
        return [int(value) for batch in loader.stream() for value in batch["var"]]


def interleaved(files, cycle_length, block_length):
    """tf.data's rule, record by record: a file that meets its end loses its turn, the next one opens at the turn after."""
    waiting, slots, order = [list(file) for file in files], [None] * cycle_length, []
    while waiting or any(slot is not None for slot in slots):
        for turn in range(cycle_length):
            if slots[turn] is None and waiting:
                slots[turn] = waiting.pop(0)
            for _ in range(block_length):
                if slots[turn] is None:
                    break
                if not slots[turn]:
                    slots[turn] = None
                    break
                order.append(slots[turn].pop(0))
    return order


def all_files():
    return [range(i * PER_FILE, (i + 1) * PER_FILE) for i in range(FILES)]


@pytest.mark.parametrize("cycle_length, block_length", [(4, 1), (3, 7)])
def test_interleave_is_tf_datas(numbers, folder, cycle_length, block_length):
    order = {"interleave": {"cycle_length": cycle_length, "block_length": block_length}}
    assert stream(numbers, folder, order) == interleaved(all_files(), cycle_length, block_length)


def test_shuffled_files_come_whole_and_in_another_order_every_epoch(numbers, folder):
    values = stream(numbers, folder, {"sequential": {"shuffle_files": True}}, epochs=3)
    firsts = values[::PER_FILE]
    assert values == [first + i for first in firsts for i in range(PER_FILE)]
    epochs = [firsts[i * FILES : (i + 1) * FILES] for i in range(3)]
    assert all(sorted(epoch) == [file[0] for file in all_files()] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_block_gives_every_record_once_in_every_epoch(numbers, folder):
    size, window = 48, 8
    values = stream(numbers, folder, {"block": {"block_size": size, "window": window}}, epochs=2)
    first, second = values[:10000], values[10000:]
    assert sorted(first) == sorted(second) == list(range(10000))
    assert first != second
    # However the short last block falls, a window's worth of positions lies in at most two windows.
    for begin in range(0, 10000, size * window):
        assert len({value // size for value in first[begin : begin + size * window]}) <= 2 * window
