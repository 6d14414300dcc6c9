"""bulkhead.try_stage: a stage's function in this process, with what it would get in a worker."""

import json
import os
import pdb
import random
import socket
import subprocess
import sys
import time
import traceback
import types

import bulkhead
import numpy as np
import pytest
from bulkhead._rpc import proto
from bulkhead._trial import declared
from conftest import PYTHON_PACKAGE, write_spec

CODE = """\
import random

import numpy as np

HERE = 0
CALLS = 0
ROW = np.zeros(3, np.int64)


def noisy(image, label, rng, *, strength=1.0, word="x", flag=False):
    assert word == "abc" and flag is True and not image.flags.writeable
    noise = rng.normal(0, strength, image.shape) + random.random() + np.random.rand()
    return np.clip(image + noise, 0, 255).astype(np.uint8), np.int64(label * 2)


def small(image):
    return image[::4, ::4][:8, :8].astype(np.float32)


def counts(index):
    global CALLS
    CALLS += 1
    return np.int64(CALLS)


def same_array(index):
    ROW[:] = index
    return ROW


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


def plus(index, rng, *, more):
    return index + more + rng.integers(1000)


def of_batch(index, path, rng):
    assert index.shape[1:] == () and path.dtype.kind == "S" and not index.flags.writeable
    return index + rng.integers(1000, size=len(index)), np.stack([index, index + len(index)], 1).astype(np.float32)


def of_large_batch(image):
    return image.mean(axis=(1, 2, 3), dtype=np.float32)


def wrong_dtype(index):
    return np.full(3, index, np.float64)


def nothing(index):
    index + 1


def yields(index):
    yield index


async def waits(index):
    return index


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


def test_what_is_kept_from_call_to_call_is_found(folder, stages):
    trial = bulkhead.try_stage("trial_stage:counts", over_range(folder, "counts", INDEX), n=3)
    assert not trial.equal
    assert repr(trial).split("\n")[1:] == [
        "  positions 0, 1, 2: index: another value when it is called a second time with the same sample: the function keeps "
        "something from one call to the next, which differs from worker to worker"]


def test_one_array_for_all_calls_is_no_difference(folder, stages):
    outputs = [{"name": "row", "dtype": "int64", "shape": [3]}]
    assert bulkhead.try_stage("trial_stage:same_array", over_range(folder, "same_array", outputs), n=3).equal


def test_what_the_function_raises_is_raised_here(folder, stages):
    spec = over_range(folder, "fails", INDEX)
    with pytest.raises(ValueError, match="cannot do 2"):
        bulkhead.try_stage("trial_stage:fails", spec)

    def works(index):
        return index

    trial = bulkhead.try_stage(works, spec)
    assert not trial.equal and "cannot do 2" in trial.failure and "in a worker it fails: " in repr(trial)
    assert "the log of" not in trial.failure


def test_an_edited_file_is_what_is_tried(folder, stages):
    outputs = [{"name": "row", "dtype": "float64", "shape": [3]}, {"name": "index", "dtype": "int64"}]
    spec = over_range(folder, "differs", outputs)
    assert bulkhead.try_stage("trial_stage:differs", spec, n=1).samples[0].outputs[0].tolist() == [0, 0, 0]
    stages(CODE.replace("HERE = 0", "HERE = 1234"))
    trial = bulkhead.try_stage("trial_stage:differs", spec, n=1)
    assert trial.equal and trial.samples[0].outputs[0].tolist() == [1234] * 3


NOTEBOOK = """
import os, pathlib, sys, bulkhead, trial_apart

folder = pathlib.Path(sys.argv[1])
helper = folder / "code/trial_package/helper.py"

def tried():
    trial = bulkhead.try_stage("trial_stage:adds", folder / "range.json", n=1)
    assert trial.equal, trial
    return trial.samples[0].outputs[0]

assert tried() == 1
loaded = sys.modules["trial_package.helper"]
assert tried() == 1 and sys.modules["trial_package.helper"] is loaded, "nothing was edited"
helper.write_text("def offset():\\n    return 1234\\n")
os.utime(helper, (1, 1))  # as a copy may have
assert tried() == 1234
assert sys.modules["trial_apart"] is trial_apart, "nothing that is tried imports it"
helper.write_text("def (")
try:
    tried()
except SyntaxError as error:
    assert error.filename == str(helper)
else:
    sys.exit("the edited file was not read")
helper.write_text("def offset():\\n    return 77\\n")
assert tried() == 77
assert sys.modules["bulkhead"] is bulkhead
"""


def test_an_edited_helper_is_what_is_tried(folder, stages):
    code = stages("import bulkhead\nfrom trial_package.between import offset\n\n\ndef adds(index):\n    return index + offset()\n")
    (code / "trial_package").mkdir()
    (code / "trial_package/__init__.py").touch()
    (code / "trial_package/between.py").write_text("from .helper import offset\n")
    for name in ("trial_package/helper.py", "trial_apart.py"):
        (code / name).write_text("def offset():\n    return 1\n")
    spec = over_range(folder, "adds", INDEX)
    while time.time() < spec.stat().st_ctime + 0.1:
        pass  # a process's start is known to 10 ms only
    run = subprocess.run([sys.executable, "-c", NOTEBOOK, folder], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "PYTHONPATH": f"{PYTHON_PACKAGE}:{code}"})
    assert run.returncode == 0, run.stderr


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


def test_pdb_that_keeps_an_image_in_a_worker_names_try_stage_too(folder, photos, stages):
    stages("def stops(image):\n    import pdb; pdb.set_trace()\n    return image.mean()\n")
    stage = {"function": "trial_stage:stops", "inputs": ["image"], "outputs": [{"name": "mean", "dtype": "float64"}]}
    spec = write_spec(folder / "s.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=["decode_image", {"python": stage}], outputs=["mean"], batch={"size": 4})
    with pytest.raises(bulkhead.BulkheadError, match="in a worker, which has no terminal") as caught:
        list(bulkhead.Loader(spec, workers=1))
    assert "bulkhead.try_stage" in str(caught.value) and "keeps its input" not in str(caught.value)


PROCESS, NETWORK, FILE = "which starts another process", "which opens a connection", "which changes what is known of a file"
DENIED = [
    ("import os; os.system('true')", f"os.system, {PROCESS}"),
    ("import subprocess; subprocess.run(['true'])", f"subprocess.Popen, {PROCESS}"),
    ("import os; os.fork()", f"os.fork, {PROCESS}"),
    ("import os; os.execv('/bin/true', ['true'])", f"os.exec*, {PROCESS}"),
    ("import os; os.posix_spawn('/bin/true', ['true'], {})", f"os.posix_spawn, {PROCESS}"),
    ("import socket; socket.socket()", f"socket.socket, {NETWORK}"),
    ("import socket; socket.getaddrinfo('example.org', 80)", "socket.getaddrinfo, which asks the network for a name"),
    ("import os; os.chmod('FOLDER', 0o700)", f"os.chmod, {FILE}"),
]


@pytest.mark.parametrize("does, allows", [
    ("open('FOLDER/made', 'w')", "made': files to read must be below a folder of the data or of sys.path, and files to "
                                 "write below TMPDIR or HOME"),
    *((does, f"the workers' sandbox denies {call} (at ") for does, call in DENIED),
    *((does, "; do that before, and let the stage read the result, or allow it with sandbox=\"capabilities\" (")
      for does, _ in DENIED[:1]),
    ("import mmap; mmap.mmap(-1, 4096)", "; the workers' sandbox denies sockets, other processes and some system calls: "),
])
def test_what_the_sandbox_denies_is_named_with_what_allows_it_here(folder, stages, does, allows):
    stages(CODE.replace("STOP", does.replace("FOLDER", str(folder))))
    with pytest.raises(bulkhead.BulkheadError) as caught, bulkhead.Loader(over_range(folder, "stops", INDEX)) as loader:
        list(loader)
    assert caught.value.reason == "STAGE_FAILED" and allows in str(caught.value)
    assert "--" not in str(caught.value)


def test_what_the_sandbox_does_not_deny_is_left_alone(folder, stages):
    stages(CODE.replace("STOP", "import os, socket, tempfile; socket.socket().close(); os.chmod(tempfile.mkstemp()[1], 0o600)"))
    spec = over_range(folder, "stops", INDEX, epochs=1)
    with bulkhead.Loader(spec, sandbox="landlock,capabilities") as loader:
        assert len(list(loader)) == 2


def test_what_a_denial_advises_allows_programs_and_connections(folder, stages):
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]})).close()"
        stages(CODE.replace("STOP", f"import socket, subprocess; subprocess.run(['true'], check=True); {connect}"))
        with bulkhead.Loader(over_range(folder, "stops", INDEX, epochs=1), sandbox="capabilities") as loader:
            assert len(list(loader)) == 2


def test_a_stage_that_is_not_there_is_named_with_the_nearest(folder, stages):
    spec = over_range(folder, "fails", INDEX)
    with pytest.raises(bulkhead.InvalidArgument, match="did you mean 'trial_stage:fails'"):
        bulkhead.try_stage("trial_stage:fail", spec)
    with pytest.raises(bulkhead.InvalidArgument, match=r"stages\[3\] is no Python stage; those are: stages\[0\]"):
        bulkhead.try_stage("trial_stage:fails", spec, stage=3)
    with pytest.raises(bulkhead.InvalidArgument, match="the spec has no Python stage"):
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


def test_an_error_that_cannot_be_changed_is_raised_as_it_is(folder, stages):
    stages(CODE + """

import dataclasses


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    value: int


def fails_frozen(index):
    raise Frozen(int(index) + 7)
""")
    with pytest.raises(Exception) as caught:
        bulkhead.try_stage("trial_stage:fails_frozen", over_range(folder, "fails_frozen", INDEX))
    assert type(caught.value).__name__ == "Frozen" and caught.value.value == 7


def test_what_the_function_raises_ends_in_its_line(folder, stages):
    spec = over_range(folder, "fails", INDEX)
    with pytest.raises(ValueError) as caught:
        bulkhead.try_stage("trial_stage:fails", spec)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files == [__file__, str(folder / "code/trial_stage.py")]
