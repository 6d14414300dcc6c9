"""The adapters with the real frameworks and the real programs of $BULKHEAD_BIN_DIR."""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PACKAGE = HERE.parent
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", ROOT / "build/release/bin"))
os.environ["BULKHEAD_SERVER"] = str(BIN / "bulkheadd")
os.environ["PYTHONPATH"] = str(PACKAGE)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
sys.path[:0] = [str(PACKAGE), str(ROOT / "examples")]

import bulkhead  # noqa: E402,F401  (the package of this tree, not an installed one)

# Set by scripts/extended.sh: what takes minutes more is run as well.
EXTENDED = "BULKHEAD_EXTENDED" in os.environ


def orders(*modules):
    """Every order to import them in, or this one and its reverse."""
    if EXTENDED:
        return list(itertools.permutations(modules))
    return [modules, modules[::-1]]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Record indexes lie in the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def numbers(samples, batch, **more):
    """A spec whose only output is the sample's number, as `index`."""
    return {"source": {"range": {"size": samples}}, "batch": {"size": batch}, **more}


# Behind `normalize: {at: trainer}`: stages, and the unsigned type as wide as the result.
NORMALIZED = {
    "float32": ([], "uint32"),
    "planes": ([{"layout": {"to": "nchw"}}], "uint32"),
    "float16": ([{"layout": {"to": "nchw"}}, {"cast": {"dtype": "float16"}}], "uint16"),
    "bfloat16": ([{"cast": {"dtype": "bfloat16"}}], "uint16"),
}
CONSTANTS = [{"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}, {"divide": 127.5, "subtract": 1}]


def check_normalized(folder, kind, constants, bits_of_first):
    """Holds the first batch, as bits that `bits_of_first(spec)` gives, to what workers make: 1 ulp is allowed."""
    import numpy as np

    photos = folder / "photos"
    subprocess.run([BIN / "bulkhead", "synth", photos, "--count", "12", "--size", "80x60"], check=True, stdout=subprocess.DEVNULL)
    behind, unsigned = NORMALIZED[kind]

    def spec(at):
        stages = ["decode_image", {"resize": {"size": [40, 56]}}, {"normalize": {**constants, "at": at}}, *behind]
        return {"source": {"image_folder": {"path": str(photos / "folder")}}, "stages": stages, "batch": {"size": 8}}

    with bulkhead.Loader(spec("worker")) as loader:
        expected = np.array(loader.next_batch()["image"]).view(unsigned)
    with bulkhead.Loader(spec("trainer")) as loader:
        assert np.array_equal(loader.next_batch()["image"].view(unsigned), expected), "NumPy gives the workers' bits"
    found = np.asarray(bits_of_first(spec("trainer"))).view(unsigned)
    assert found.shape == expected.shape and len(np.unique(found)) > 100
    assert np.abs(found.astype(np.int64) - expected.astype(np.int64)).max() <= 1


def packed_runs(folder, **more):
    """A spec whose outputs are `runs`, packed: of sample i the number i, i modulo 4 times; of 10 samples."""
    sys.path.append(str(ROOT / "client/conformance"))
    from data import write_runs

    write_runs(folder / "runs.tfrecord", range(10))
    return {
        "source": {"tfrecord": {"files": str(folder / "runs.tfrecord")}},
        "features": {"runs": {"int64": {"shape": [-1], "max_count": 5}}},
        "batch": {"size": 4},
        "batch_stages": ["pack_rows"],
        **more,
    }


PACKED_RUNS = [[1, 2, 2, 3, 3, 3], [5, 6, 6, 7, 7, 7], [9]]
PACKED_OFFSETS = [[0, 0, 1, 3, 6], [0, 0, 1, 3, 6], [0, 0, 1]]


@pytest.fixture
def service(tmp_path):
    """A service on a Unix socket that can be killed and started again."""
    from twice import Service

    running = Service(BIN / "bulkheadd", tmp_path, "--root", tmp_path, "--worker-hang-timeout", "2")
    yield running
    running.kill()


def run_python(*words, timeout=600, **environment):
    """The standard output of a Python program; fails with its errors when it fails."""
    result = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@contextlib.contextmanager
def two_at_a_time(run, calls):
    """The futures of `run(*call)` by call; what did not begin is dropped at the end."""
    with ThreadPoolExecutor(2) as pool:
        yield {call: pool.submit(run, *call) for call in calls}
        pool.shutdown(cancel_futures=True)


STREAM = """
with bulkhead.Loader({spec}, workers=1) as loader:
    print([int(batch["index"][0]) for batch in loader], end=" ")
    print(len(bulkhead.service_status(loader.target)["streams"]))
"""


def stream_after_imports(imports, then):
    """What a program prints that imports in this order, streams, and does `then`."""
    lines = [f"import {module}" for module in imports]
    if "bulkhead" not in imports:
        lines.append("import bulkhead")
    program = "\n".join(lines) + STREAM.format(spec=json.dumps(numbers(24, 8))) + then
    return run_python("-c", program).splitlines()


@pytest.fixture(scope="module")
def import_runs(request):
    """The futures of a module's `run_after_imports`, for each of its IMPORTS."""
    with two_at_a_time(request.module.run_after_imports, request.module.IMPORTS) as running:
        yield running


def check_facts(cls, folder):
    """An adapter tells what its loader knows by the same names, until it is closed."""
    photos = folder / "photos"
    for name in ("ant", "bee"):
        (photos / name).mkdir(parents=True)
        (photos / name / "1.jpg").write_bytes(b"not decoded")
    with cls(numbers(20, 8), structure=("index",)) as adapter:
        assert [output.name for output in adapter.schema] == ["index"]
        assert (adapter.batch_size, adapter.batches_per_epoch, len(adapter)) == (8, 3, 3)
        assert adapter.samples_per_epoch == 20 and adapter.class_names == {} and adapter.classes == ()
        assert adapter.stats.batches == adapter.loader.stats.batches
        assert (adapter.substitutions, adapter.quarantined, adapter.hangs) == ([], {}, [])
        assert adapter.target == adapter.loader.target
        state = adapter.state_dict()
        assert (state["epoch"], state["consumed"]) == (0, 0)
        adapter.load_state_dict(state)
        assert repr(adapter).startswith(f"<{type(adapter).__name__} spec: spec, service: of its own at unix:")
        assert "<td>index</td><td>int64</td>" in adapter._repr_html_()
    assert "service: closed" in repr(adapter) and adapter.stats.reconnects == 0
    with pytest.raises(bulkhead.LoaderClosed) as raised:
        adapter.batch_size
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)] == ["check_facts"]
    labelled = {"source": {"image_folder": {"path": str(photos)}}, "outputs": "label", "batch": {"size": 1}}
    with cls(labelled, structure=("label",)) as adapter:
        assert adapter.classes == ("ant", "bee") and adapter.class_names == {"label": ("ant", "bee")}


def check_arguments(cls):
    """What an adapter's class says of arguments that it lacks."""
    for given, words in (
        ({"batch_size": 8}, "has no argument 'batch_size'; write batch: {size: 8} in the spec"),
        ({"num_workers": 8}, "has no argument 'num_workers'; give workers=8"),
        ({"structrue": "index"}, "has no argument 'structrue'; did you mean 'structure'?"),
        ({"worker_quoto": "1GiB"}, "has no argument 'worker_quoto'; did you mean 'worker_quota'?"),
    ):
        with pytest.raises(TypeError) as raised:
            cls(numbers(9, 3), **{"structure": ("index",), **given})
        assert str(raised.value) == f"{cls.__name__} {words}"
        assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "check_arguments"
    with pytest.raises(bulkhead.InvalidArgument, match="outputs are 'index'; did you mean 'index'"):
        cls(numbers(9, 3), structure=("idnex",))


def check_healing(cls, service, firsts, step=4, **options):
    """A killed service is a longer wait; `firsts` has the first number of each batch."""
    with cls(numbers(100 * step, step), service.target, **options) as adapter:
        elements = iter(adapter)
        before = firsts(next(elements) for _ in range(5))
        service.kill()
        service.start()
        assert before + firsts(elements) == list(range(0, 100 * step, step))
        assert adapter.loader.reconnects == 1


def results_of(program, calls, **environment):
    """What processes of one job print as JSON in their last lines; each has the arguments of one of `calls`."""
    running = [
        subprocess.Popen(
            [sys.executable, program, *call], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )
        for call in calls
    ]  # fmt: skip
    results = []
    try:
        for process in running:
            output, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            results.append(json.loads(output.splitlines()[-1]))
    finally:
        for process in running:
            process.kill()
    return results
