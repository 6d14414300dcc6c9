"""bulkhead.try_stage: a stage's function in this process, with what it would get in a worker."""

import json
import random
import types

import bulkhead
import numpy as np
import pytest
from bulkhead._rpc import proto
from bulkhead._trial import declared
from conftest import write_spec
from trial_code import INDEX, over_range, stages  # noqa: F401  (stages is a fixture)


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


def test_what_is_kept_from_call_to_call_is_found(folder, stages):
    trial = bulkhead.try_stage("trial_stage:counts", over_range(folder, "counts", INDEX), n=3)
    assert not trial.equal
    assert repr(trial).split("\n")[1:] == [
        "  positions 0, 1, 2: index: another value when it is called a second time with the same sample: the function keeps "
        "something from one call to the next, which differs from worker to worker"]


def test_one_array_for_all_calls_is_no_difference(folder, stages):
    outputs = [{"name": "row", "dtype": "int64", "shape": [3]}]
    assert bulkhead.try_stage("trial_stage:same_array", over_range(folder, "same_array", outputs), n=3).equal


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize("function, here, there", [
    ("nothing", "index: None here; does the function return it?", "`index` is None: does the function return it?"),
    ("yields", "index: a generator here; the function has to return it, not to yield", "`index` is a generator"),
    ("waits", "index: a coroutine here; an `async def` function cannot be a stage: write `def`", "is an `async def` function"),
])
def test_a_function_that_returns_no_value_is_told_so_here_too(folder, stages, function, here, there):
    trial = bulkhead.try_stage(f"trial_stage:{function}", over_range(folder, function, INDEX), n=2)
    assert [sample.differences for sample in trial.samples] == [(here,), (here,)]
    assert there in trial.failure


def test_a_stage_that_is_not_there_is_named_with_the_nearest(folder, stages):
    spec = over_range(folder, "fails", INDEX)
    with pytest.raises(bulkhead.InvalidArgument, match="did you mean 'trial_stage:fails'"):
        bulkhead.try_stage("trial_stage:fail", spec)
    with pytest.raises(bulkhead.InvalidArgument, match=r"stages\[3\] is no Python stage; those are: stages\[0\]"):
        bulkhead.try_stage("trial_stage:fails", spec, stage=3)
    with pytest.raises(bulkhead.InvalidArgument, match="the spec has no Python stage"):
        bulkhead.try_stage("a:b", {"source": {"range": {"size": 3}}, "batch": {"size": 1}})


def test_a_stage_of_batches_gets_whole_batches(folder, photos, stages):
    of_batch = {"function": "trial_stage:of_batch", "inputs": ["label", "path"],
                "outputs": [{"name": "label", "dtype": "int64"}, {"name": "pairs", "dtype": "float32", "shape": [2]}]}
    spec = {"source": {"image_folder": {"path": str(photos / "folder")}}, "outputs": ["label", "path", "pairs"],
            "batch_stages": [{"python": of_batch}], "batch": {"size": 7}, "seed": 3, "order": "global", "take": 17}
    trial = bulkhead.try_stage("trial_stage:of_batch", spec)
    assert trial.equal, trial
    assert repr(trial) == "trial_stage:of_batch: 3 batches, the same bytes as a worker makes"
    assert [sample.position for sample in trial.samples] == [0, 7, 14]
    assert [len(sample.inputs[0]) for sample in trial.samples] == [7, 7, 3]
    # They are the batches of the training.
    with bulkhead.Loader(spec) as loader:
        for sample, batch in zip(trial.samples, loader):
            assert np.array_equal(sample.outputs[0], batch["label"])
            assert np.array_equal(sample.outputs[1], batch["pairs"])
    trial = bulkhead.try_stage(lambda label, path: (label, np.zeros((len(label), 2))), spec, n=1, stage="batch_stages[0]")
    assert "pairs: dtype float64 here, float32 in the worker" in repr(trial) and "1 batch, 1 of them" in repr(trial)


def test_a_batch_of_many_bytes_is_an_input(folder, photos, stages):
    mean = {"function": "trial_stage:of_large_batch", "inputs": ["image"], "outputs": [{"name": "mean", "dtype": "float32"}]}
    spec = {"source": {"image_folder": {"path": str(photos / "folder")}}, "batch": {"size": 8},
            "stages": ["decode_image", {"resize": {"size": 1024}}], "batch_stages": [{"python": mean}]}
    trial = bulkhead.try_stage("trial_stage:of_large_batch", spec, n=1)  # 24 MiB, over the room that is tried first
    assert trial.equal and trial.samples[0].inputs[0].nbytes == 8 * 1024 * 1024 * 3


def mixture_of(own, **more):
    def source(weight, size, stages):
        return {"weight": weight, "source": {"range": {"size": size}}, "stages": stages, "order": "global"}

    return {"source": {"mixture": {"sources": [source(1, 30, own[0]), source(2, 60, own[1])]}}, "seed": 5,
            "batch": {"size": 90}, "outputs": ["index"], **more}


def plus(more):
    return {"python": {"function": "trial_stage:plus", "inputs": ["index"], "outputs": INDEX, "arguments": {"more": more}}}


def test_a_mixtures_own_stage_gets_its_sources_samples(folder, stages):
    spec = mixture_of([[plus(0), plus(1_000_000)], [plus(2_000_000)]], stages=[plus(10_000_000)])
    with pytest.raises(bulkhead.InvalidArgument, match=r"is called at source.mixture.sources\[0\].stages\[0\], source"):
        bulkhead.try_stage("trial_stage:plus", spec)
    own = [bulkhead.try_stage("trial_stage:plus", spec, n=12, stage=f"source.mixture.sources[{i}].stages[{1 - i}]")
           for i in (0, 1)]
    common = bulkhead.try_stage("trial_stage:plus", spec, n=36, stage=0)
    assert all(trial.equal for trial in (*own, common)), (own, common)
    # What the own stages gave comes to the common one, at the same positions.
    came = {sample.position: sample.inputs[0] for sample in common.samples}
    for trial, mark in zip(own, (1_000_000, 2_000_000)):
        assert len(trial.samples) == 12
        for sample in trial.samples:
            assert sample.outputs[0] >= mark and came.get(sample.position, sample.outputs[0]) == sample.outputs[0]
    assert not {sample.position for sample in own[0].samples} & {sample.position for sample in own[1].samples}


def test_a_misspelt_function_is_named_with_the_files_nearest(folder, stages):
    spec = over_range(folder, "fials", INDEX)
    with pytest.raises(bulkhead.InvalidArgument, match=r"trial_stage.py has no 'fials'; did you mean 'fails'\?$"):
        bulkhead.try_stage("trial_stage:fials", spec)
    with pytest.raises(bulkhead.BulkheadError, match=r"trial_stage.py\) has no `fials`; did you mean `fails`\?"):
        bulkhead.Loader(spec)
    with pytest.raises(bulkhead.BulkheadError, match=r"has no `zzz`; its functions are noisy, small, counts, same_array, differs"):
        bulkhead.Loader(over_range(folder, "zzz", INDEX))
    with pytest.raises(bulkhead.InvalidArgument, match="there is no module 'trial_stag'"):
        bulkhead.try_stage("trial_stag:f", {**json.loads(spec.read_text()), "stages": [
            {"python": {"function": "trial_stag:f", "inputs": ["index"], "outputs": INDEX}}]})


def test_a_wrong_dtype_is_told_with_what_to_write(folder, stages):
    outputs = [{"name": "row", "dtype": "int64", "shape": [3]}]
    trial = bulkhead.try_stage("trial_stage:wrong_dtype", over_range(folder, "wrong_dtype", outputs), n=2)
    lines = repr(trial).split("\n")
    assert lines[0].startswith("trial_stage:wrong_dtype: 2 samples; in a worker it fails: ")
    assert "has the dtype float64, but is declared as int64" in lines[0]
    assert lines[1:] == ["  positions 0, 1: row: dtype float64 here, declared as int64; return it with "
                         ".astype(numpy.int64), or declare dtype: float64"]


@pytest.mark.parametrize("name, value, told", [
    ("float32", np.zeros(2), "dtype float64 here, declared as float32; return it with .astype(numpy.float32), or declare dtype: float64"),
    ("bool", np.zeros(2), "dtype float64 here, declared as bool; return it with .astype('bool'), or declare dtype: float64"),
    ("bfloat16", np.zeros(2, "M8[s]"), "dtype datetime64[s] here, declared as bfloat16; return it with .astype(ml_dtypes.bfloat16)"),
    ("float32", np.array([None]), "dtype object here, declared as float32; return it with .astype(numpy.float32)"),
    ("float32", [0.5, 1], "dtype float64 here, declared as float32; return it with numpy.asarray(…, numpy.float32), or declare dtype: float64"),
    ("float32", [np.zeros(2), np.zeros(3)], "arrays of different shapes here; one output is one array"),
    ("float32", np.zeros(2, np.float32), None),
])
def test_what_is_declared_is_told_with_what_can_be_written(name, value, told):
    number = next(number for number, known in proto.DTYPE_NAMES.items() if known == name)
    output = types.SimpleNamespace(name="row", dtype=number)
    assert declared.wrong(types.SimpleNamespace(outputs=[output]), [value]) == ([f"row: {told}"] if told else [])


def test_a_batch_that_is_not_full_gets_the_room_it_needs(folder, photos, stages):
    paths = sorted((photos / "folder").rglob("*.jpg"))[:3]
    (folder / "three.txt").write_text("".join(f"{path}\n" for path in paths))
    stage = {"function": "trial_stage:of_large_batch", "inputs": ["image"], "outputs": [{"name": "mean", "dtype": "float32"}]}
    spec = write_spec(
        folder / "s.json", source={"image_list": {"path": "three.txt", "unlabeled": True}},
        stages=["decode_image", {"resize": {"size": 224}}, {"normalize": {"divide": 255}}], batch={"size": 64},
        batch_stages=[{"python": stage}])
    trial = bulkhead.try_stage("trial_stage:of_large_batch", str(spec), n=1)
    assert trial.equal and trial.samples[0].inputs[0].shape == (3, 224, 224, 3)
