"""bulkhead.try_stage and the code that it runs: files that were edited, exceptions, debuggers, and what a worker would deny."""

import os
import pdb
import socket
import subprocess
import sys
import time
import traceback

import bulkhead
import pytest
from conftest import PYTHON_PACKAGE, write_spec
from trial_code import CODE, INDEX, over_range, stages  # noqa: F401  (stages is a fixture)


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
    ("open('FOLDER/made', 'w')", "made': files to write must be below TMPDIR or HOME, which are the worker's own"),
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
