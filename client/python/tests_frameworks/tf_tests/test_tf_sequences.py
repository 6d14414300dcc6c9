"""SequenceExamples: what TensorFlow parses of a record is what a batch holds, and what it refuses is a bad sample."""

import bulkhead
import numpy as np
import pytest
import tensorflow as tf

FEATURES = {
    "speaker": "int64",
    "tokens": {"sequence": "time", "int64": {"shape": [-1], "max_count": 12}},
    "points": {"sequence": "point", "float": {"shape": [-1, 2], "max_count": 12}},
    "words": {"sequence": "word", "bytes": {"shape": [-1], "max_count": 12, "max_bytes": 8, "length": "sizes"}},
}
CONTEXT = {"speaker": tf.io.FixedLenFeature([], tf.int64)}
LISTS = {
    "tokens": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "points": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True),
    "words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True),
}


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def record(speaker, **lists):
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={"speaker": feature([speaker])}),
        feature_lists=tf.train.FeatureLists(
            feature_list={key: tf.train.FeatureList(feature=map(feature, steps)) for key, steps in lists.items()}
        ),
    ).SerializeToString()


def drawn_record(random, speaker):
    """Lists of 0 to 12 steps, some of which are not there."""
    lists = {
        "tokens": [[int(random.integers(-(1 << 62), 1 << 62))] for _ in range(random.integers(13))],
        "points": [random.standard_normal(2).astype(np.float32).astype(float).tolist() for _ in range(random.integers(13))],
        "words": [[random.bytes(random.integers(9))] for _ in range(random.integers(13))],
    }
    return record(speaker, **{key: steps for key, steps in lists.items() if random.integers(4)})


def spec_of(folder, records):
    with tf.io.TFRecordWriter(str(folder / "x.tfrecord")) as writer:
        for one in records:
            writer.write(one)
    return {"source": {"tfrecord": {"files": str(folder / "x.tfrecord")}}, "features": FEATURES, "batch": {"size": len(records)}, "epochs": 1}


def test_batches_hold_what_tensorflow_parses(tmp_path):
    random = np.random.default_rng(3)
    records = [drawn_record(random, i) for i in range(200)]
    # Of a key that comes twice the last one counts, and messages are merged.
    records += [one + other for one, other in zip(records[:20], records[20:40])]
    with bulkhead.Loader(spec_of(tmp_path, records)) as loader:
        (batch,) = loader
        for i, one in enumerate(records):
            context, lists = tf.io.parse_single_sequence_example(one, CONTEXT, LISTS)
            assert batch["speaker"][i] == context["speaker"].numpy()
            for name in ("tokens", "points"):
                theirs = lists[name].numpy()
                assert batch[name + "_count"][i] == len(theirs)
                np.testing.assert_array_equal(batch[name][i, : len(theirs)], theirs)
                assert not batch[name][i, len(theirs) :].any()
            words = [bytes(row[:size]) for row, size in zip(batch["words"][i], batch["sizes"][i])]
            assert words[: batch["words_count"][i]] == lists["words"].numpy().tolist()


@pytest.mark.parametrize(
    "bad",
    [
        {"tokens": [[1.5]]},
        {"tokens": [[1], [b"x"]]},
        {"tokens": [[1], [2, 3]]},
        {"points": [[1.0, 2.0], [3.0]]},
        {"words": [[b"a", b"b"]]},
    ],
)
def test_what_tensorflow_refuses_is_a_bad_sample(tmp_path, bad):
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.parse_single_sequence_example(record(1, **bad), CONTEXT, LISTS)
    with pytest.raises(bulkhead.errors.DataError), bulkhead.Loader(spec_of(tmp_path, [record(1, **bad)])) as loader:
        next(iter(loader))
