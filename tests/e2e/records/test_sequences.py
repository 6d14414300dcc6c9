"""tf.train.SequenceExamples: contexts and lists of steps, padded and packed, and lists of encoded images, from records to batches."""

import json
import subprocess

import numpy as np
import pytest
import yaml

import bulkhead
from bulkhead import errors
from conftest import BIN, write_spec
from tf_records import sequence_example, write_sequences

TOKENS = [[[1], [2], [-3]], [], [[4]], [[5], [6]]]
POINTS = [[[0.5, 1], [2, 3], [4, 5]], [], [[6, 7]], [[8, 9], [10, 11]]]
WORDS = [[[b"the"], [b"cat"], [b""]], [], [[b"emu"]], [[b"a"], [b"dog"]]]
RECORDS = [({"speaker": ("int64", [i])}, {"tokens": ("int64", tokens), "points": ("float", points), "words": ("bytes", words)})
           for i, (tokens, points, words) in enumerate(zip(TOKENS, POINTS, WORDS))]
FEATURES = {
    "speaker": "int64",
    "tokens": {"sequence": "time", "int64": {"shape": [-1], "max_count": 5}},
    "points": {"sequence": "time", "float": {"shape": [-1, 2], "max_count": 5}},
    "words": {"sequence": "time", "bytes": {"shape": [-1], "max_count": 5, "max_bytes": 4, "length": "word_bytes"}},
}


def spec_of(folder, **more):
    return write_spec(folder / "spec.yaml", **{"source": {"tfrecord": {"files": "x.tfrecord"}}, "features": FEATURES, "batch": {"size": 4}, "epochs": 1, **more})


def batch_of(folder, **more):
    with bulkhead.Loader(spec_of(folder, **more)) as loader:
        [batch] = loader
        return batch


@pytest.fixture
def talks(folder):
    write_sequences(folder / "x.tfrecord", RECORDS)
    return folder


def test_steps_are_padded_rows(talks):
    batch = batch_of(talks)
    assert batch["speaker"].tolist() == [0, 1, 2, 3]
    assert batch["tokens"].shape == (4, 5) and batch["tokens"].dtype == np.int64
    assert batch["tokens"].tolist() == [[1, 2, -3, 0, 0], [0] * 5, [4, 0, 0, 0, 0], [5, 6, 0, 0, 0]]
    assert batch["points"].shape == (4, 5, 2) and batch["points"][3, :2].tolist() == POINTS[3]
    assert batch["tokens_count"].tolist() == batch["points_count"].tolist() == batch["words_count"].tolist() == [3, 0, 1, 2]
    told = [[[bytes(row[:size])] for row, size in zip(rows[:count], sizes)]
            for rows, sizes, count in zip(batch["words"], batch["word_bytes"], batch["words_count"])]
    assert told == WORDS


def test_steps_are_packed(talks):
    batch = batch_of(talks, outputs=["tokens", "points"], batch_stages=["pack_rows"])
    assert batch["tokens"].tolist() == [1, 2, -3, 4, 5, 6] and batch["tokens_offsets"].tolist() == [0, 3, 3, 4, 6]
    assert batch["points"].tolist() == [row for rows in POINTS for row in rows]


def test_a_filter_tests_the_context(talks):
    batch = batch_of(talks, filter=[{"feature": "speaker", "in": [0, 3]}])
    assert batch["tokens_count"].tolist() == [3, 2]


def test_lists_of_one_axis_agree(folder):
    write_sequences(folder / "x.tfrecord", [({}, {"tokens": ("int64", [[1], [2]]), "points": ("float", [[1, 2]])})])
    features = {name: FEATURES[name] for name in ("tokens", "points")}
    with pytest.raises(errors.DataError, match=r"x\.tfrecord@0.*feature `tokens`: the record holds 2 steps, but 1 of `points`, which has the same axis `time`"):
        batch_of(folder, features=features)
    features = {"tokens": FEATURES["tokens"], "points": {**FEATURES["points"], "sequence": "points"}}
    assert batch_of(folder, features=features)["points_count"].tolist() == [1]


@pytest.mark.parametrize("tokens, message", [
    (("int64", [[1], [2, 3]]), "step 1: it holds 2 values, the spec's shape needs 1 in each step"),
    (("float", [[1]]), "step 0: the record holds a float list, the spec says an int64 list; declare it as float"),
    (("int64", [[1]] * 6), "holds 6 rows, max_count is 5"),
])
def test_bad_steps_are_bad_samples(folder, tokens, message):
    write_sequences(folder / "x.tfrecord", [({}, {"tokens": ("int64", [[7]])}), ({}, {"tokens": tokens}), ({}, {"tokens": ("int64", [[8]])})])
    features = {"tokens": FEATURES["tokens"]}
    with pytest.raises(errors.DataError, match=message):
        batch_of(folder, features=features)
    batch = batch_of(folder, features=features, errors={"policy": "substitute", "max_fraction": 1})
    assert batch["tokens"][:, 0].tolist() == [7, 8, 8]


def test_a_cut_record_is_a_bad_sample(folder):
    whole = sequence_example(*RECORDS[0])
    features = {"tokens": FEATURES["tokens"]}
    from tf_records import _write  # frames whose checksums are right
    for size in (len(whole) - 1, len(whole) // 2):
        _write(folder / "x.tfrecord", [whole[:size]])
        with pytest.raises(errors.DataError, match=r"MALFORMED_EXAMPLE|is not a tf\.Example|damaged"):
            batch_of(folder, features=features)


def test_inspect_proposes_what_works(talks):
    proposed = talks / "proposed.yaml"
    said = subprocess.run([BIN / "bulkhead", "inspect", talks / "x.tfrecord", "--out", proposed], capture_output=True, text=True, check=True).stdout
    assert "feature list" in said and "0 to 3" in said
    spec = yaml.safe_load(proposed.read_text())
    assert spec["features"]["points"] == {"key": "points", "sequence": "time", "float": {"shape": [-1, 2], "max_count": 6}}
    assert spec["features"]["words"] == {"key": "words", "sequence": "time", "bytes": {"max_bytes": 6, "shape": [-1], "max_count": 6}}
    assert spec["features"]["speaker"] == {"key": "speaker", "int64": {}}
    spec["batch"]["size"], spec["order"] = 4, {"sequential": {}}
    with bulkhead.Loader(spec, timeout=60) as loader:
        [batch] = loader
        assert batch["tokens_count"].tolist() == [3, 0, 1, 2]
    found = json.loads(subprocess.run([BIN / "bulkhead", "inspect", "--json", talks / "x.tfrecord"], capture_output=True, text=True, check=True).stdout)
    assert found["feature_lists"]["tokens"] | {"step": None} == {"records": 4, "least_steps": 0, "most_steps": 3, "step": None}
    wrong = spec_of(talks, features={"token": FEATURES["tokens"]})
    said = subprocess.run([BIN / "bulkhead", "inspect", wrong], capture_output=True, text=True).stderr
    assert "no record that was looked at holds the list `token`; did you mean `tokens`?" in said


def test_validate_and_explain_know_steps(talks):
    spec = spec_of(talks)
    said = subprocess.run([BIN / "bulkhead", "explain", spec], capture_output=True, text=True, check=True).stdout
    assert "tokens" in said and "up to int64 [5]" in said
    wrong = spec_of(talks, features={"tokens": {"sequence": "time", "int64": {}}})
    said = subprocess.run([BIN / "bulkhead", "validate", wrong], capture_output=True, text=True)
    assert said.returncode == 1 and "features.tokens.sequence: needs a shape that begins with the number of steps" in said.stderr + said.stdout


def test_a_changed_sequence_is_another_pipeline(talks):
    def fingerprint(features):
        with bulkhead.Loader(spec_of(talks, features=features, outputs=["tokens"])) as loader:
            return next(iter(loader)).cursor["bytes_fingerprint"]

    plain = fingerprint({"tokens": FEATURES["tokens"]})
    assert plain == fingerprint({"tokens": FEATURES["tokens"]})
    assert plain != fingerprint({"tokens": {**FEATURES["tokens"], "sequence": "words"}})
