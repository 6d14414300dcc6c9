"""Stages in the user's Python: what they get and give, and that they stay in their compartment."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import bulkhead
from conftest import HERE, PYTHON, Service, digest_of, error_of, write_spec
from python_stages import number, over_range, read

sys.path.append(str(HERE.parents[1] / "client/conformance"))
from data import tfrecord_spec, write_tfrecord  # noqa: E402



@pytest.fixture
def start(folder, photos):
    """Starts services that allow user_functions.py."""
    started = []

    def start_one(*options, workers=1):
        home = folder / f"service{len(started)}"
        home.mkdir()
        started.append(Service(home, "--root", photos, "--workers", workers, "--python", PYTHON, "--python-path", HERE,
                               *options))
        return started[-1]

    yield start_one
    for service in started:
        service.stop()


def test_an_image_goes_in_and_comes_out(start, folder, photos):
    def spec(stages):
        return write_spec(folder / "image.json", source={"image_folder": {"path": str(photos / "folder")}},
                          stages=["decode_image", {"resize": {"size": [24, 20]}}, *stages], batch={"size": 10}, epochs=1)
    service = start()
    halve = {"python": {"function": "user_functions:halve",
                        "outputs": [{"name": "image", "dtype": "uint8", "shape": [24, 20, 3]}]}}
    whole = read(service, spec([]))
    halves = read(service, spec([halve]))
    assert len(halves) == len(whole) == 15
    for one, other in zip(halves, whole):
        assert np.array_equal(one["image"], other["image"] // 2)
    # What it gives is an image to the stages behind it.
    turned = read(service, spec([halve, {"layout": {"to": "nchw"}}]))
    assert np.array_equal(turned[3]["image"], (whole[3]["image"] // 2).transpose(0, 3, 1, 2))
    # A view of a part of an image has gaps between its rows.
    cut = read(service, spec([{"center_crop": {"size": [10, 8]}}, {"python": {
        "function": "user_functions:halve", "outputs": [{"name": "image", "dtype": "uint8", "shape": [10, 8, 3]}]}}]))
    assert np.array_equal(cut[0]["image"], whole[0]["image"][:, 7:17, 6:14] // 2)


def test_several_features_and_arguments(start, folder, photos):
    spec = write_spec(
        folder / "describe.json",
        source={"image_folder": {"path": str(photos / "folder")}},
        stages=["decode_image", {"python": {
            "function": "user_functions:describe", "inputs": ["image", "label", "path"],
            "outputs": [{"name": "facts", "dtype": "float64", "shape": [5]}],
            "arguments": {"factor": 2, "name": "abc", "flag": True}}}],
        outputs=["facts", "label", "path"], batch={"size": 10}, epochs=1)
    for batch in read(start(), spec):
        facts = batch["facts"]
        assert np.all((facts[:, 0] > 0) & (facts[:, 0] < 510))
        assert np.array_equal(facts[:, 1], batch["label"])
        assert np.array_equal(facts[:, 2], [len(path) for path in batch["path"]])
        assert np.array_equal(facts[:, 3:], np.tile([3.0, 1.0], (10, 1)))


def test_rows_and_bytes_of_any_number(start, folder):
    outputs = [{"name": "rows", "dtype": "float32", "shape": [-1, 2], "max_count": 8},
               {"name": "text", "dtype": "bytes", "max_count": 4}]
    [batch] = read(start(), over_range(folder, "rows", outputs, size=8, batch=8))
    assert batch["rows"].shape == (8, 8, 2)
    assert batch["rows_count"].tolist() == list(range(8))
    for i in range(8):
        assert np.all(batch["rows"][i, :i] == i) and np.all(batch["rows"][i, i:] == 0)
    assert batch["text"].tolist() == [b"%d" % i for i in range(8)]


def test_more_rows_than_declared_are_a_sample_error(start, folder):
    outputs = [{"name": "rows", "dtype": "float32", "shape": [-1, 2], "max_count": 5}, number("text", "int64")]
    outputs[1] = {"name": "text", "dtype": "bytes", "max_count": 4}
    error = error_of(start(), over_range(folder, "rows", outputs))
    assert error.reason == "OVER_BOUND"
    assert "`rows` has 6 rows, more than its max_count, 5" in str(error)


def test_random_numbers_belong_to_the_sample(start, folder):
    outputs = [{"name": "draws", "dtype": "float64", "shape": [9]}]
    # Leases of an odd number of samples: what one sample leaves behind meets another one in each service.
    spec = over_range(folder, "draws", outputs, size=120, batch=5, epochs=2, seed=5)
    one = read(start(), spec, epochs=2)
    many = read(start("--threads", 2, workers=4), spec, epochs=2)
    assert len(one) == len(many) == 48
    for a, b in zip(one, many):
        assert np.array_equal(a["draws"], b["draws"])
    drawn = np.concatenate([batch["draws"] for batch in one])
    for column in range(8):  # no two samples draw the same, in either epoch
        assert len(set(drawn[:, column])) == 240, column
    other = read(start(), over_range(folder, "draws", outputs, size=120, batch=5, epochs=2, seed=6))
    assert not np.any(one[0]["draws"][:, :8] == other[0]["draws"][:, :8])


def test_a_killed_worker_changes_no_byte(start, folder):
    outputs = [{"name": "draws", "dtype": "float64", "shape": [9]}]
    spec = over_range(folder, "draws", outputs, size=2000, seed=5)
    expected = read(start(), spec)
    service = start(workers=2)
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        for i, batch in enumerate(loader):
            assert np.array_equal(batch["draws"], expected[i]["draws"])
            if i in (20, 200):
                service.kill_worker()
    assert len(bulkhead.service_status(service.target)["recent_exits"]) >= 2


def test_an_exception_is_a_sample_error_with_its_lines(start, folder):
    error = error_of(start(), over_range(folder, "needs_even", [number()]))
    assert error.reason == "STAGE_FAILED"
    text = str(error)
    assert "ValueError: 1 is odd" in text
    assert re.search(r"at user_functions\.py:\d+ in odd: `raise ValueError.*called from user_functions\.py:\d+ in needs_even", text)
    assert "stages[0] python" in text and "user_functions:needs_even" in text
    assert error.metadata["record"] == "range@1"
    assert error.metadata["position"] == "1"


def test_an_exception_names_its_cause(start, folder):
    error = error_of(start(), over_range(folder, "raises_from_another", [number()]))
    assert "ValueError: no such box (caused by KeyError: 0) (at user_functions.py:" in str(error)


def test_an_exception_deep_in_a_library_has_the_line_of_the_user_too(start, folder):
    text = str(error_of(start(), over_range(folder, "fails_deep_in_a_library", [number()])))
    assert "called from user_functions.py" in text and "in fails_deep_in_a_library" in text, text


def test_a_variable_that_workers_lack_is_answered_with_the_option(start, folder):
    text = str(error_of(start(), over_range(folder, "reads_a_variable", [number()])))
    assert "KeyError: 'NOT_PASSED_ON'" in text and "name others with --worker-env" in text, text


@pytest.mark.parametrize("policy", ["fail", "substitute"])
def test_neither_prints_nor_exceptions_command_a_terminal(start, folder, policy):
    service = start()
    spec = over_range(folder, "commands_a_terminal", [number()], size=2, batch=2,
                      errors={"policy": policy, "max_fraction": 1} if policy == "substitute" else {"policy": policy})
    if policy == "fail":
        texts = [str(error_of(service, spec))]
    else:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            assert [batch["index"].tolist() for batch in loader] == [[1, 1]]
            texts = [one.message for one in loader.substitutions]
    service.stop()
    log = (folder / "service0/service.log").read_text()
    for text in texts:
        assert "first line\n\\x1b]0;forged\\x07second \\xc2\\x9b line" in text
    for text in (*texts, log):
        assert not set(text) & {*map(chr, range(9)), *map(chr, range(11, 32)), "\x7f", "\x9b"}
    assert "\n  | printed\twith an ü \\x1b[2J\n" in log
    assert "\n  | written \\x1b[2J\n" in log


def test_substitute_takes_the_next_sample_that_passes(start, folder):
    spec = over_range(folder, "needs_even", [number()], size=10, batch=5, errors={"policy": "substitute", "max_fraction": 1})
    batches = read(start(), spec)
    assert np.concatenate([b["index"] for b in batches]).tolist() == [0, 2, 2, 4, 4, 6, 6, 8, 8, 0]


def test_a_long_complaint_about_a_deep_path_reaches_the_client(start, folder):
    deep = folder.joinpath(*["x" * 200] * 17)
    deep.mkdir(parents=True)
    write_tfrecord(deep / "a.tfrecord", range(8))
    stage = {"function": "user_functions:complains_at_length", "inputs": ["label"], "outputs": [number()]}
    # The name of a file that a pattern finds begins where its first wildcard is.
    pattern = folder.joinpath("*", *deep.relative_to(folder).parts[1:], "a.tfrecord")
    spec = tfrecord_spec(folder / "long.json", str(pattern), stages=[{"python": stage}], outputs=["label"],
                         errors={"policy": "substitute", "max_fraction": 1})
    with bulkhead.Loader(spec, start("--root", folder).target) as loader:
        assert np.concatenate([batch["label"] for batch in loader]).tolist() == [0, 2, 2, 4, 4, 6, 6, 0]
        longest = max(len(one.message) for one in loader.substitutions)
        assert loader.transport == "shm" and longest > 4096, longest


@pytest.mark.parametrize("function, outputs, reason, text", [
    ("as_float64", [{"name": "x", "dtype": "float32", "shape": [3]}], "STAGE_UNUSABLE",
     "`x` has the dtype float64, but is declared as float32; convert it"),
    ("as_list", [{"name": "x", "dtype": "float32", "shape": [2]}], "STAGE_UNUSABLE",
     "`x` is a list of float64, but is declared as float32; convert it (numpy.asarray(…, numpy.float32)) or correct the spec"),
    ("as_list", [{"name": "x", "dtype": "bfloat16", "shape": [2]}], "STAGE_UNUSABLE", "(numpy.asarray(…, ml_dtypes.bfloat16))"),
    ("as_float64", [{"name": "x", "dtype": "float64", "shape": [2]}], "WRONG_SHAPE",
     "`x` has the shape [3], but is declared as float64 [2]"),
    ("two_values", [number("x", "float32")], "STAGE_UNUSABLE", "returned 2 values, but is declared to return 1 (x)"),
    ("nothing", [number("x", "float32")], "STAGE_UNUSABLE", "`x` is None"),
    ("yields", [number("x", "float32")], "STAGE_UNUSABLE", "`x` is a generator: the function has to return it, not to yield"),
    ("waits", [number("x", "float32")], "STAGE_UNUSABLE", "is an `async def` function, which cannot be a stage: write `def`"),
    ("waits_and_yields", [number("x")], "STAGE_UNUSABLE", "is an `async def` function"),
    ("missing", [number("x")], "STAGE_UNUSABLE", "has no `missing`"),
    ("by_indx", [number("x")], "STAGE_UNUSABLE", "did you mean `by_index`?"),
    ("not_a_function", [number("x")], "STAGE_UNUSABLE", "is a int, which cannot be called"),
    ("describe", [number("x")], "STAGE_UNUSABLE", "cannot be called with 1 inputs (index)"),
    ("by_index", [{"name": "x", "dtype": "float32", "shape": [3]}], "WRONG_SHAPE", "has the shape [0]"),
])
def test_what_does_not_fit_is_said(start, folder, function, outputs, reason, text):
    error = error_of(start(), over_range(folder, function, outputs))
    assert error.reason == reason, error
    assert text in str(error)


def test_an_input_must_not_be_kept(start, folder, photos):
    def spec(function):
        return write_spec(
            folder / "keep.json", source={"image_folder": {"path": str(photos / "folder")}},
            stages=["decode_image", {"python": {"function": f"user_functions:{function}",
                                                "outputs": [number("x", "float64")]}}],
            outputs=["x"], batch={"size": 10}, epochs=1)
    service = start()
    for function in ("keep_input", "keep_and_raise"):
        error = error_of(service, spec(function))
        assert error.reason == "STAGE_UNUSABLE", function
        assert "keeps its input `image`" in str(error) and ".copy()" in str(error)
    error = error_of(service, spec("raise_in_cycle"))
    assert error.reason == "STAGE_FAILED"
    assert "an ordinary one" in str(error) and "in raise_in_cycle" in str(error)
    assert len(read(service, spec("keep_in_cycle"))) == 15


def test_modules_come_from_the_allowed_folders_alone(start, folder):
    service = start()
    for function, text in (("os:getpid", "which is not below a --python-path"), ("sys:exit", "part of the interpreter"),
                           ("numpy:abs", "which is not below a --python-path"), ("nowhere:f", "no module `nowhere`"),
                           ("user_functions:np.load", "leads through another module, `numpy`"),
                           ("user_functions:os.path.join", "leads through another module, `os`"),
                           ("user_functions:imported_from_elsewhere", "is from `random`, which is not below a")):
        spec = over_range(folder, "x", [number()], stage={"function": function})
        error = error_of(service, spec)
        assert error.reason == "STAGE_UNUSABLE"
        assert text in str(error)
    error = error_of(service, over_range(folder, "x", [number()], stage={"function": "__main__:f"}))
    assert error.reason == "SPEC_INVALID"
    assert "put the function into a file of its own" in str(error)


def test_a_module_that_cannot_be_imported_says_where(start, folder):
    code = folder / "code"
    code.mkdir()
    (code / "broken.py").write_text("import numpy\n\nimport missing_package\n")
    error = error_of(start("--python-path", code), over_range(folder, "x", [number()], stage={"function": "broken:f"}))
    assert error.reason == "STAGE_UNUSABLE"
    assert "importing broken failed: ModuleNotFoundError: No module named 'missing_package'" in str(error)
    assert "broken.py:3" in str(error)
    assert "the module `missing_package` must be below a --python-path of the service (" in str(error)
    assert f"{code}), or installed for the workers' Python, " in str(error)


def test_without_python_path_there_are_no_python_stages(folder):
    service = Service(folder)
    error = error_of(service, over_range(folder, "halve", [number()]))
    assert error.reason == "SPEC_INVALID"
    assert "--python-path FOLDER" in str(error) and "stages[0].python" in str(error)
    service.stop()


def test_what_starts_with_the_service_is_checked(folder):
    from conftest import BIN
    for options, text in (
        (["--python-path", folder / "nowhere"], "--python-path"),
        (["--python-path", folder, "--python", "/nowhere/python"], "is not a program"),
        (["--python", sys.executable], "--python without --python-path"),
    ):
        done = subprocess.run([BIN / "bulkheadd", "--listen", f"unix:{folder}/x.sock", *options], stderr=subprocess.PIPE, text=True)
        assert done.returncode != 0 and text in done.stderr


def test_functions_see_the_same_world_in_every_worker(start, folder):
    spec = over_range(folder, "environment", [{"name": "x", "dtype": "float64", "shape": [4]}], size=64)
    batches = read(start(workers=2), spec)
    facts = np.unique(np.concatenate([b["x"] for b in batches]), axis=0)
    assert len(facts) == 1  # one hash of a text in all workers
    assert facts[0, 1:].tolist() == [1, 0, 1]


def test_the_sandbox_holds_for_functions(start, folder):
    service = start()
    secret = folder / "secret"
    secret.write_text("x")
    for arguments in ({"what": "socket"}, {"what": "fork"}, {"what": "C socket"}, {"what": "C fork"},
                      {"what": "write", "place": str(folder / "made")},
                      {"what": "write", "place": str(HERE / "made")}, {"what": "read", "place": str(secret)}):
        spec = over_range(folder, "do", [number()], stage={"arguments": arguments})
        error = error_of(service, spec)
        assert error.reason == "STAGE_FAILED", arguments
        assert "PermissionError" in str(error), arguments
        assert "in do" in str(error)
        place = arguments.get("place")
        told = "files to read must be below a --root" if arguments["what"] == "read" else "files to write must be below TMPDIR"
        allows = f"denies '{place}': {told}" if place else "--sandbox=capabilities ("
        assert allows in str(error), arguments
    assert not (folder / "made").exists()
    parts = {part["name"]: part for part in bulkhead.service_status(service.target)["containment"]["sandbox"]}
    assert parts["seccomp"]["active"] and parts["landlock"]["active"], parts


def test_a_function_behind_a_range_reads_the_data_roots(start, folder, photos):
    (photos / "shard.txt").write_text("x" * 41)
    spec = over_range(folder, "size_of", [number()], size=4, stage={"arguments": {"place": str(photos / "shard.txt")}})
    [batch] = read(start(), spec)
    assert batch["index"].tolist() == [41, 42, 43, 44]


def status_of(service):
    return bulkhead.service_status(service.target)


@pytest.mark.parametrize("function", ["leak", "leak_objects"])
def test_a_leak_is_named_and_its_worker_replaced(start, folder, function):
    service = start("--worker-quota", "192MiB")
    spec = over_range(folder, function, [number()], size=6000, batch=20, epochs="forever")
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        for i, batch in enumerate(loader.stream()):
            assert batch["index"].tolist() == [(20 * i + k) % 6000 for k in range(20)]
            if i % 5 == 0:
                status = status_of(service)
                # On a busy machine a stage may seem slow, too.
                leaked = [one for one in status.get("recent_recyclings", []) if "SLOWDOWN" not in one["cause"]]
                if len(leaked) >= 2:
                    break
    for replaced in leaked:
        [held] = [int(stage["live_bytes"]) for stage in replaced["stages"] if stage["stage"] == "stages[0] python"]
        # The slower a replacement becomes ready, on a busy machine, the earlier it is begun.
        assert held > 8 << 20, replaced
    assert int(status.get("limit_events", 0)) == 0
    assert not [e for e in status.get("recent_exits", []) if e["cause"] == "EXIT_CAUSE_OUT_OF_MEMORY"]


def test_idle_threads_are_no_leak(start, folder):
    """Thirty of them, begun by the first sample: their stacks are reserved, not used."""
    service = start()
    spec = over_range(folder, "keeps_idle_threads", [number()], size=800, batch=16)
    assert [batch["index"].tolist() for batch in read(service, spec)] == [list(range(i, i + 16)) for i in range(0, 800, 16)]
    status = status_of(service)
    assert not status.get("recent_recyclings") and not int(status.get("limit_events", 0)), status


def test_code_that_closes_the_workers_descriptors_is_told_of(start, folder):
    """Which record did it is not known: the worker notices later. So none is quarantined."""
    spec = over_range(folder, "closes_descriptors", [number()], size=40, batch=4, errors={"policy": "substitute"})
    error = error_of(start(workers=1), spec)
    assert error.reason == "WORKER_CRASH_LOOP" and "descriptors that it did not open" in str(error)


@pytest.mark.parametrize("function", ["too_much", "raises_memory_error"])
def test_out_of_memory_ends_the_worker_and_never_substitutes(start, folder, function):
    spec = over_range(folder, function, [number()], size=8, batch=4, errors={"policy": "fail"})
    service = start("--worker-quota", "160MiB", workers=1)
    error = error_of(service, spec)
    assert error.reason in ("POISON_SAMPLE", "WORKER_CRASH_LOOP"), error
    deaths = status_of(service)["recent_exits"]
    assert all(death["cause"] == "EXIT_CAUSE_OUT_OF_MEMORY" for death in deaths), deaths
    assert all(death["refused_stage"].startswith("stages[0] python (user_functions:") for death in deaths), deaths
    assert int(status_of(service).get("samples_substituted", 0)) == 0


def test_an_embedded_service_imports_what_its_trainer_does(folder):
    """In a process of its own, whose import path is that of a script."""
    (folder / "mine.py").write_text("def triple(index):\n    return index * 3\n")
    (folder / "train.py").write_text(
        "import bulkhead\n"
        "spec = {'source': {'range': {'size': 4}}, 'epochs': 1, 'batch': {'size': 4}, 'stages': [{'python': {\n"
        "    'function': 'mine:triple', 'inputs': ['index'], 'outputs': [{'name': 'index', 'dtype': 'int64'}]}}]}\n"
        "with bulkhead.Loader(spec, timeout=60) as loader:\n"
        "    print([batch['index'].tolist() for batch in loader])\n")
    package = pathlib.Path(bulkhead.__file__).parents[1]
    done = subprocess.run([sys.executable, folder / "train.py"], env={**os.environ, "PYTHONPATH": str(package)},
                          stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[[0, 3, 6, 9]]"


def test_digests_do_not_depend_on_workers(start, folder, photos):
    spec = write_spec(folder / "d.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=["decode_image", {"random_resized_crop": {"size": 32}}, {"python": {
                          "function": "user_functions:halve",
                          "outputs": [{"name": "image", "dtype": "uint8", "shape": [32, 32, 3]}]}}],
                      batch={"size": 10}, order={"global": {}}, epochs=2)
    assert digest_of("python", spec, target=start().target) == digest_of("cpp", spec, target=start(workers=4).target)


def test_the_example_runs(folder, photos):
    examples = HERE.parents[1] / "examples/python_stage"
    spec = folder / "noise.yaml"
    spec.write_text((examples / "noise.yaml").read_text().replace("path: photos", f"path: {photos}/folder") + "epochs: 1\n")
    service = Service(folder, "--root", photos, "--python-path", examples, "--python", PYTHON, "--workers", 2)
    try:
        batches = read(service, spec)
    finally:
        assert service.stop() == 0
    assert len(batches) == 10
    for batch in batches:
        assert batch["image"].shape[1:] == (128, 128, 3)
        assert set(batch["label"].tolist()) <= {0, 1}
        for boxes, count in zip(batch["boxes"], batch["boxes_count"]):
            assert np.all(boxes[:count, 2:] == 32) and np.all(boxes[count:] == 0)
    assert sum(int(batch["boxes_count"].sum()) for batch in batches) > 0
