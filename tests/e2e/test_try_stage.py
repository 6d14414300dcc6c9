"""bulkhead.try_stage: a stage's function in this process, with what it would get in a worker."""

import json
import pdb
import random
import sys

import bulkhead
import numpy as np
import pytest
from conftest import write_spec

CODE = """\
import random

import numpy as np

HERE = 0


def noisy(image, label, rng, *, strength=1.0, word="x", flag=False):
    assert word == "abc" and flag is True and not image.flags.writeable
    noise = rng.normal(0, strength, image.shape) + random.random() + np.random.rand()
    return np.clip(image + noise, 0, 255).astype(np.uint8), np.int64(label * 2)


def small(image):
    return image[::4, ::4][:8, :8].astype(np.float32)


def differs(index):
    return np.full(3, index, np.float64) + HERE, int(index)


def fails(index):
    if index == 2:
        raise ValueError("cannot do 2")
    return index


def stops(index):
    STOP
    return index


def rng_is_an_input(rng):
    return rng + 1


def rng_by_name(index, *, rng):
    return index + rng.integers(1000)


def rng_behind(index, rng=None):
    return index + rng.integers(1000)


def rng_as_argument(index, rng):
    return index + rng


def texts(path, encoded):
    return path[::-1] + b"\\0", len(encoded)
"""


@pytest.fixture
def stages(folder, monkeypatch):
    """A folder of modules on sys.path; stages(code) writes trial_stage.py."""
    code = folder / "code"
    code.mkdir()
    monkeypatch.syspath_prepend(str(code))

    def write(text=CODE):
        (code / "trial_stage.py").write_text(text)
        return code

    write()
    yield write
    sys.modules.pop("trial_stage", None)


def over_range(folder, function, outputs, **more):
    stage = {"python": {"function": f"trial_stage:{function}", "inputs": ["index"], "outputs": outputs}}
    return write_spec(folder / "range.json", source={"range": {"size": 6}}, stages=[stage], batch={"size": 4}, **more)


INDEX = [{"name": "index", "dtype": "int64"}]


def test_the_real_inputs_and_random_numbers_make_the_workers_bytes(folder, photos, stages):
    noisy = {"function": "trial_stage:noisy", "inputs": ["image", "label"],
             "arguments": {"strength": 4, "word": "abc", "flag": True},
             "outputs": [{"name": "image", "dtype": "uint8", "shape": [32, 32, 3]}, {"name": "label", "dtype": "int64"}]}
    spec = write_spec(
        folder / "s.json", source={"image_folder": {"path": str(photos / "folder")}},
        stages=["decode_image", {"random_resized_crop": {"size": 32}}, {"python": noisy}, {"layout": {"to": "nchw"}}],
        order="global", seed=5, batch={"size": 7},
    )
    before = random.getstate(), np.random.get_state()[1].tolist()
    trial = bulkhead.try_stage("trial_stage:noisy", spec, n=5)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert trial.equal and repr(trial) == "trial_stage:noisy: 5 samples, the same bytes as a worker makes"
    assert [sample.position for sample in trial.samples] == list(range(5))
    assert len({sample.outputs[0].tobytes() for sample in trial.samples}) == 5
    # They are the samples of the training.
    with bulkhead.Loader(spec) as loader:
        batch = loader.next_batch()
    for sample, image, label in zip(trial.samples, batch["image"], batch["label"]):
        assert np.array_equal(sample.outputs[0].transpose(2, 0, 1), image) and sample.outputs[1] == label


def test_an_image_of_any_size_is_an_input(folder, photos, stages):
    spec = write_spec(
        folder / "s.json", source={"image_folder": {"path": str(photos / "folder")}},
        stages=["decode_image", {"python": {"function": "trial_stage:small", "outputs": [
            {"name": "image", "dtype": "float32", "shape": [8, 8, 3]}]}}], batch={"size": 4})
    trial = bulkhead.try_stage("trial_stage:small", str(spec), n=3)
    assert trial.equal and all(sample.inputs[0].shape[2] == 3 for sample in trial.samples)


def test_encoded_bytes_and_texts_are_inputs(folder, photos, stages):
    texts = {"function": "trial_stage:texts", "inputs": ["path", "image"], "outputs": [
        {"name": "back", "dtype": "bytes", "max_count": 300}, {"name": "size", "dtype": "int64"}]}
    spec = {"source": {"image_folder": {"path": str(photos / "folder")}}, "stages": [{"python": texts}],
            "outputs": ["back", "size"], "batch": {"size": 4}}
    trial = bulkhead.try_stage("trial_stage:texts", spec, n=3)
    assert trial.equal and trial.samples[0].worker[0].endswith(b"\0")


@pytest.mark.parametrize("function, arguments", [
    ("rng_is_an_input", {}), ("rng_by_name", {}), ("rng_behind", {}), ("rng_as_argument", {"rng": 7})])
def test_rng_is_given_as_a_worker_gives_it(folder, stages, function, arguments):
    spec = json.loads(over_range(folder, function, INDEX).read_text())
    spec["stages"][0]["python"]["arguments"] = arguments
    trial = bulkhead.try_stage(f"trial_stage:{function}", spec, n=3)
    assert trial.equal, trial


def test_it_says_where_the_bytes_differ(folder, stages):
    outputs = [{"name": "row", "dtype": "float64", "shape": [3]}, {"name": "index", "dtype": "int64"}]
    spec = over_range(folder, "differs", outputs)
    assert bulkhead.try_stage("trial_stage:differs", spec, n=2).equal

    def differs(index):  # as it is in a notebook's cell, edited, and not yet in the file
        row = np.full(3, index, np.float64)
        row[1] += index
        return row, int(index)

    trial = bulkhead.try_stage(differs, spec, n=3)
    assert not trial.equal
    assert [len(sample.differences) for sample in trial.samples] == [0, 1, 1]
    assert "position 2: row: 1 of 3 elements differ, the first at [1]: 4.0 here, 2.0 in the worker" in repr(trial)


def test_wrong_types_and_numbers_of_values_are_told(folder, stages):
    spec = over_range(folder, "fails", INDEX, take=2)
    trial = bulkhead.try_stage(lambda index: np.float32(index), spec, n=1)
    assert trial.samples[0].differences == ("index: dtype float32 here, int64 in the worker",)
    trial = bulkhead.try_stage(lambda index: (index, index), spec, n=1)
    assert trial.samples[0].differences == ("2 values here, but 1 are declared (index)",)


def test_what_the_function_raises_is_raised_here(folder, stages):
    spec = over_range(folder, "fails", INDEX)
    with pytest.raises(ValueError, match="cannot do 2"):
        bulkhead.try_stage("trial_stage:fails", spec)

    def works(index):
        return index

    trial = bulkhead.try_stage(works, spec)
    assert not trial.equal and "cannot do 2" in trial.failure and "in a worker it fails" in repr(trial)


def test_an_edited_file_is_what_is_tried(folder, stages):
    outputs = [{"name": "row", "dtype": "float64", "shape": [3]}, {"name": "index", "dtype": "int64"}]
    spec = over_range(folder, "differs", outputs)
    assert bulkhead.try_stage("trial_stage:differs", spec, n=1).samples[0].outputs[0].tolist() == [0, 0, 0]
    stages(CODE.replace("HERE = 0", "HERE = 1234"))
    trial = bulkhead.try_stage("trial_stage:differs", spec, n=1)
    assert trial.equal and trial.samples[0].outputs[0].tolist() == [1234] * 3


def test_a_debugger_works_here(folder, stages, monkeypatch):
    stopped = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stopped.append(sys._getframe(1).f_locals["index"]))
    stages(CODE.replace("STOP", "breakpoint()"))
    spec = over_range(folder, "stops", INDEX)
    trial = bulkhead.try_stage("trial_stage:stops", spec, n=2)
    assert stopped == [0, 1]
    assert "breakpoint() in a worker, which has no terminal" in trial.failure
    assert "bulkhead.try_stage" in trial.failure


@pytest.mark.parametrize("stop", ["breakpoint()", "import pdb; pdb.set_trace()", "input()", "import sys; sys.stdin.readline()"])
def test_what_waits_for_a_person_in_a_worker_names_try_stage(folder, stages, stop):
    assert pdb
    stages(CODE.replace("STOP", stop))
    spec = over_range(folder, "stops", INDEX, errors={"policy": "substitute", "max_fraction": 1})
    with pytest.raises(bulkhead.BulkheadError) as caught, bulkhead.Loader(spec, workers=1) as loader:
        list(loader)
    assert caught.value.reason == "STAGE_UNUSABLE"  # no sample's fault
    assert "in a worker, which has no terminal" in str(caught.value)
    assert 'bulkhead.try_stage("module:function", spec)' in str(caught.value)


@pytest.mark.parametrize("does, allows", [
    ("open('FOLDER/made', 'w')", "made': files to read must be below a folder of the data or of sys.path, and files to "
                                 "write below TMPDIR or HOME"),
    ("import socket; socket.socket()", "or allow it with sandbox=landlock,capabilities"),
])
def test_what_the_sandbox_denies_is_named_with_what_allows_it_here(folder, stages, does, allows):
    stages(CODE.replace("STOP", does.replace("FOLDER", str(folder))))
    with pytest.raises(bulkhead.BulkheadError) as caught, bulkhead.Loader(over_range(folder, "stops", INDEX)) as loader:
        list(loader)
    assert caught.value.reason == "STAGE_FAILED" and allows in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_stage_that_is_not_there_is_named_with_the_nearest(folder, stages):
    spec = over_range(folder, "fails", INDEX)
    with pytest.raises(bulkhead.InvalidArgument, match="did you mean 'trial_stage:fails'"):
        bulkhead.try_stage("trial_stage:fail", spec)
    with pytest.raises(bulkhead.InvalidArgument, match=r"stages\[3\] is no Python stage; those are at \[0\]"):
        bulkhead.try_stage("trial_stage:fails", spec, stage=3)
    with pytest.raises(bulkhead.InvalidArgument, match="have no Python stage"):
        bulkhead.try_stage("a:b", {"source": {"range": {"size": 3}}, "batch": {"size": 1}})


def test_a_changed_file_is_used_by_the_next_loader_of_a_notebook(folder, stages):
    outputs = [{"name": "row", "dtype": "float64", "shape": [3]}, {"name": "index", "dtype": "int64"}]
    spec = over_range(folder, "differs", outputs, epochs=1)

    def first():
        with bulkhead.Loader(spec, workers=1) as loader:
            return loader.next_batch()["row"][0, 0]

    with bulkhead.Loader(spec, workers=1) as kept:  # its service runs on
        assert kept.next_batch()["row"][0, 0] == first() == 0
        for value in (1, 2):
            stages(CODE.replace("HERE = 0", f"HERE = {value}"))
            assert first() == value
    stages(CODE.replace("HERE = 0", "HERE = 3"))
    assert first() == 3
