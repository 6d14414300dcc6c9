"""What a worker of Python stages may use while it imports, and what is said when an import fails."""

import os
import pathlib
import re

import bulkhead
import numpy as np
import pytest
from conftest import HERE, PYTHON, Service, error_of, write_spec



@pytest.fixture
def scratch():
    """On a disk, also where the tests' folder is none."""
    import shutil
    import tempfile

    folder = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="bulkhead-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def start(folder, scratch):
    started = []

    def start_one(*options, **popen):
        home = folder / f"service{len(started)}"
        home.mkdir()
        started.append(Service(home, "--workers", 1, "--python", PYTHON, "--python-path", HERE, "--scratch-dir", scratch,
                               *options, **popen))
        return started[-1]

    yield start_one
    for service in started:
        if service.process.poll() is None:
            service.stop()


def over_range(folder, function, dtype="int64", shape=(), **more):
    output = {"name": "index", "dtype": dtype, "shape": list(shape)}
    stage = {"function": function, "inputs": ["index"], "outputs": [output]}
    return write_spec(folder / "spec.json", source={"range": {"size": 8}}, stages=[{"python": stage}],
                      batch={"size": 4}, epochs=1, **more)


def read(service, spec):
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        return np.concatenate([np.array(batch["index"]) for batch in loader])


SUBSTITUTE = {"errors": {"policy": "substitute", "max_fraction": 1}}


def test_what_frameworks_do_at_import_works_at_default_settings(start, folder, scratch):
    service = start()
    assert read(service, over_range(folder, "framework_like:double")).tolist() == list(range(0, 16, 2))
    parts = {part["name"]: part for part in bulkhead.service_status(service.target)["containment"]["sandbox"]}
    assert parts["scratch"]["active"], parts
    assert list(scratch.glob("*/*/home/.framework/settings.json"))
    assert service.stop() == 0
    assert not list(scratch.iterdir())


def test_compiled_files_are_read_where_the_environment_says(start, folder, monkeypatch):
    """Else a worker compiles all that it imports, at each start."""
    prefix = folder / "compiled"
    prefix.mkdir()
    (prefix / "number").write_text("7")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(prefix))
    assert read(start(), over_range(folder, "user_functions:beside_compiled_files")).tolist() == 8 * [7]


def test_the_folder_of_a_worker_is_removed_behind_it_and_those_of_a_killed_service_at_the_next_start(start, folder, scratch):
    service = start()
    spec = over_range(folder, "framework_like:double")
    read(service, spec)
    [first] = scratch.glob("*/*/home")
    service.kill_worker()
    read(service, spec)
    while first.exists():
        pass
    [second] = scratch.glob("*/*/home")
    assert first != second
    service.process.kill()
    service.process.wait()
    assert second.exists()
    other = start()
    assert not second.exists()
    assert [path.name for path in scratch.glob("*.lock")] != []
    other.stop()


def test_libraries_have_one_thread_unless_more_are_asked_for(start, folder):
    spec = over_range(folder, "framework_like:threads", shape=[4])
    assert np.all(read(start(env={**os.environ, "OMP_NUM_THREADS": "7"}), spec) == 1)
    asked = read(start("--worker-env", "OMP_NUM_THREADS=4"), spec)
    assert asked[0].tolist() == [4, 1, 1, 1]


def test_secrets_of_the_service_are_not_the_workers(start, folder):
    spec = over_range(folder, "framework_like:variables", dtype="bool", shape=[3])
    environment = {**os.environ, "A_SECRET": "x", "ASKED_FOR": "x"}
    service = start("--worker-env", "ASKED_FOR", "--worker-env", "GIVEN=x", env=environment)
    assert read(service, spec)[0].tolist() == [False, True, True]
    by_variable = start(env={**environment, "BULKHEAD_WORKER_ENV": "ASKED_FOR,GIVEN=x"})
    assert read(by_variable, spec)[0].tolist() == [False, True, True]
    [worker] = service.workers()
    assert "A_SECRET" not in pathlib.Path(f"/proc/{worker}/environ").read_text()


def test_an_import_larger_than_the_quota_ends_the_opening(start, folder):
    (folder / "large.py").write_text("HELD = bytearray(b'x') * (300 << 20)\n\n\ndef f(index):\n    return index\n")
    service = start("--python-path", folder, "--worker-quota", "128MiB")
    error = error_of(service, over_range(folder, "large:f", **SUBSTITUTE))
    assert error.reason == "STAGE_UNUSABLE", error
    assert "large:f" in str(error) and "more than a worker's quota of 128MiB" in str(error) and "--worker-quota" in str(error)
    assert "`bulkhead explain` with a large one says" in str(error)
    [held] = re.findall(r"it held (\d+)(?:\.\d+)?MiB", str(error))
    assert 128 <= int(held) <= 400, error
    assert int(bulkhead.service_status(service.target).get("samples_substituted", 0)) == 0


def test_an_import_that_the_sandbox_refuses_names_the_path_and_what_helps(start, folder):
    secret = folder / "secret"
    secret.write_text("x")
    code = folder / "code"
    code.mkdir()
    (code / "reads.py").write_text(f"TABLE = open({str(secret)!r}).read()\n\n\ndef f(index):\n    return index\n")
    error = error_of(start("--python-path", code), over_range(folder, "reads:f", **SUBSTITUTE))
    assert error.reason == "STAGE_UNUSABLE"
    for text in ("importing reads failed", str(secret), "reads.py:1", "--root", "--python-path"):
        assert text in str(error), error


def test_an_import_within_a_function_that_fails_is_no_sample_error(start, folder):
    service = start()
    error = error_of(service, over_range(folder, "framework_like:imports_when_called", **SUBSTITUTE))
    assert error.reason == "STAGE_UNUSABLE", error
    assert "importing no_such_framework failed" in str(error)
    assert int(bulkhead.service_status(service.target).get("samples_substituted", 0)) == 0


def test_an_error_in_what_exec_runs_is_the_samples(start, folder):
    code = 'def f(index):\n    if index == 2:\n        exec("raise ValueError(\'odd\')")\n    return index\n'
    (folder / "executes.py").write_text(code)
    service = start("--python-path", folder)
    spec = over_range(folder, "executes:f", **SUBSTITUTE)
    read(service, spec)
    assert int(bulkhead.service_status(service.target)["samples_substituted"]) == 1


def test_a_file_of_a_worker_is_bounded(start, folder):
    error = error_of(start(), over_range(folder, "framework_like:one_large_file"))
    assert error.reason == "STAGE_FAILED"
    assert "File too large" in str(error)


def test_a_worker_that_fills_its_folder_is_ended(start, folder):
    service = start()
    spec = over_range(folder, "framework_like:fill_own_folder")
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        with pytest.raises(bulkhead.BulkheadError):
            loader.next_batch()
    exits = bulkhead.service_status(service.target)["recent_exits"]
    assert any("in its own folder" in one["reason"] for one in exits), exits
