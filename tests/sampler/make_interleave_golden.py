"""Records the order in which TensorFlow interleaves files, for interleave_order_test.cc.

    python3 -m venv env && env/bin/pip install tensorflow-cpu
    env/bin/python make_interleave_golden.py interleave_golden.txt

One line a case: `cycle_length block_length : records of each file : order`, records numbered through all files. Every
case is recorded from Dataset.interleave, and checked to be the same with num_parallel_calls and deterministic=True;
those of block_length 1 also from TFRecordDataset with num_parallel_reads=cycle_length over real files.
"""

import itertools
import os
import random
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

CASES = [  # files, cycle_length, block_length
    ([5], 1, 1),
    ([3, 3, 3], 1, 2),
    ([3, 3, 3], 3, 1),
    ([4, 4, 4, 4, 4], 4, 1),
    ([7, 2, 5, 1, 9], 4, 1),
    ([2, 2, 2, 2], 2, 2),  # files end with a turn
    ([4, 0, 3, 5], 2, 2),
    ([0, 0, 6, 0, 2, 0], 2, 1),
    ([0, 0, 0, 4], 3, 2),
    ([1, 2, 3], 8, 3),  # more slots than files
    ([6, 6], 2, 100),  # turns longer than files
]


def random_cases(count):
    dice = random.Random(20)
    for _ in range(count):
        files = [dice.choice([0, 1, 2, 3, 4, 5, 6, 9, 12]) for _ in range(dice.randint(1, 12))]
        files[dice.randrange(len(files))] += 1  # never empty altogether
        yield files, dice.randint(1, 6), dice.randint(1, 5)


def interleaved(files, cycle_length, block_length, **options):
    first = [0, *itertools.accumulate(files)][:-1]
    dataset = tf.data.Dataset.from_tensor_slices((tf.constant(first, tf.int64), tf.constant(files, tf.int64)))
    dataset = dataset.interleave(
        lambda begin, count: tf.data.Dataset.range(begin, begin + count),
        cycle_length=cycle_length,
        block_length=block_length,
        **options,
    )
    return [int(record) for record in dataset.as_numpy_iterator()]


def read_in_parallel(files, cycle_length, folder):
    paths, numbers = [], itertools.count()
    for i, count in enumerate(files):
        paths.append(os.path.join(folder, f"{i}.tfrecord"))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for _ in range(count):
                writer.write(b"%d" % next(numbers))
    return [int(record) for record in tf.data.TFRecordDataset(paths, num_parallel_reads=cycle_length).as_numpy_iterator()]


def main(path):
    with open(path, "w", encoding="ascii") as out, tempfile.TemporaryDirectory() as folder:
        out.write(f"# TensorFlow {tf.__version__}; make_interleave_golden.py\n")
        for files, cycle_length, block_length in [*CASES, *random_cases(60)]:
            order = interleaved(files, cycle_length, block_length)
            parallel = interleaved(files, cycle_length, block_length, num_parallel_calls=min(2, cycle_length), deterministic=True)
            assert parallel == order, (files, cycle_length, block_length)
            if block_length == 1:
                assert read_in_parallel(files, cycle_length, folder) == order, (files, cycle_length)
            out.write(f"{cycle_length} {block_length} : {' '.join(map(str, files))} : {' '.join(map(str, order))}\n")


if __name__ == "__main__":
    main(sys.argv[1])
