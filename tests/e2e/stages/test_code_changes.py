"""Code of the user's that is edited: what runs is what is there when a stream is opened, and a cursor knows by what it was made."""

import json
import os
import py_compile
import subprocess

import bulkhead
import numpy as np
import pytest
from conftest import CLIENTS, PYTHON, PYTHON_PACKAGE, Service, write_spec

STAGE = """\
import helper


def f(index):
    import later
    return index * 100 + helper.VALUE * 10 + later.VALUE
"""


@pytest.fixture
def code(folder):
    code = folder / "code"
    code.mkdir()
    (code / "stage.py").write_text(STAGE)
    write(code / "helper.py", 1)
    write(code / "later.py", 1)
    return code


@pytest.fixture
def start(folder, code):
    started = []

    def start_one(workers=1, home=None):
        home = home or folder / f"service{len(started)}"
        home.mkdir(exist_ok=True)
        started.append(Service(home, "--workers", workers, "--python", PYTHON, "--python-path", code))
        return started[-1]

    yield start_one
    for service in started:
        service.stop()


def write(path, value):
    """The same size and second whatever the value is: nothing but the content tells."""
    path.write_text(f"VALUE = {value}\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    py_compile.compile(str(path))


def edit(path, value):
    """As an editor does it: what was compiled before stays."""
    path.write_text(f"VALUE = {value}\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.fixture
def spec(folder):
    stage = {"function": "stage:f", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    return write_spec(folder / "s.json", source={"range": {"size": 4000}}, stages=[{"python": stage}],
                      batch={"size": 4}, epochs=1)


def made_by(batch):
    """The values of helper.py and later.py."""
    [value] = set(np.array(batch["index"]) % 100)
    return divmod(int(value), 10)


@pytest.mark.parametrize("file, expected", [("helper.py", (2, 1)), ("later.py", (1, 2))])
def test_a_new_loader_runs_what_was_edited_while_another_one_is_open(start, code, spec, file, expected):
    service = start()
    with bulkhead.Loader(spec, service.target, timeout=60) as first:
        assert made_by(first.next_batch()) == (1, 1)
        edit(code / file, 2)
        with bulkhead.Loader(spec, service.target, timeout=60) as second:
            assert made_by(second.next_batch()) == expected
            assert made_by(first.next_batch()) == (1, 1)
        with bulkhead.Loader(spec, service.target, timeout=60) as third:
            assert made_by(third.next_batch()) == expected
    assert len({worker["pipeline"] for worker in bulkhead.service_status(service.target)["workers"]}) == 1


def test_what_was_not_edited_keeps_its_workers(start, spec):
    service = start()
    for _ in range(3):
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            loader.next_batch()
            [worker] = service.workers()
    assert bulkhead.service_status(service.target)["workers"][0]["pid"] == worker
    assert not bulkhead.service_status(service.target).get("recent_exits")


@pytest.mark.parametrize("file", ["helper.py", "later.py"])
def test_code_that_changes_under_a_stream_ends_it_and_names_the_file(start, code, spec, file):
    service = start(workers=2)
    endless = json.loads(spec.read_text())
    del endless["epochs"]  # the other worker would be done before a new one has started
    spec.write_text(json.dumps(endless))
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        seen = {made_by(loader.next_batch())}
        edit(code / file, 2)
        service.kill_worker()
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for batch in loader.stream():
                seen.add(made_by(batch))
    assert seen == {(1, 1)}
    assert caught.value.reason == "CODE_CHANGED", caught.value
    assert caught.value.metadata["file"] == file
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        assert 2 in made_by(loader.next_batch())


def test_a_cursor_knows_the_code_that_made_its_batches(start, code, spec):
    with bulkhead.Loader(spec, start().target, timeout=60) as loader:
        batch = loader.next_batch()
        cursor = json.loads(json.dumps(batch.cursor))
        state = loader.state_dict()
    assert [(file["name"], file.get("later", False)) for file in cursor["code"]] == [
        ("helper.py", False), ("later.py", True), ("stage.py", False)]
    assert state["code"] == cursor["code"]
    # Another service, the same code.
    service = start()
    for _ in range(2):
        with bulkhead.Loader(spec, service.target, timeout=60, cursor=cursor) as loader:
            again = loader.next_batch()
            assert np.array(again["index"]).tolist()[0] // 100 == 4
            assert again.cursor["bytes_fingerprint"] == cursor["bytes_fingerprint"]
    edit(code / "helper.py", 2)
    with pytest.raises(bulkhead.BulkheadError) as caught:
        bulkhead.Loader(spec, service.target, timeout=60, cursor=cursor).next_batch()
    assert caught.value.reason == "CURSOR_MISMATCH"
    assert "helper.py was changed" in str(caught.value) and "allow_changed_bytes" in str(caught.value)
    with bulkhead.Loader(spec, service.target, timeout=60, cursor=cursor, allow_changed_bytes=True) as loader:
        batch = loader.next_batch()
        assert made_by(batch) == (2, 1)
        assert batch.cursor["bytes_fingerprint"] != cursor["bytes_fingerprint"]
    (code / "helper.py").unlink()
    with pytest.raises(bulkhead.BulkheadError, match="helper.py is not there any more"):
        bulkhead.Loader(spec, service.target, timeout=60, cursor=cursor).next_batch()


LAZY = """\
def f(index):
    if index >= 40:
        import later
        return index * 100 + later.VALUE
    return index * 100
"""


@pytest.fixture
def lazy(code):
    """Nothing is imported before sample 40, in the eleventh batch."""
    (code / "stage.py").write_text(LAZY)


def code_of(cursor):
    return [file["name"] for file in cursor["code"]]


def resume(spec, target, cursor, **options):
    with bulkhead.Loader(spec, target, timeout=60, cursor=cursor, **options) as loader:
        return loader.state_dict(), loader.next_batch()


def refused(spec, target, cursor):
    with pytest.raises(bulkhead.CursorMismatch) as caught:
        resume(spec, target, cursor)
    assert "allow_changed_bytes" in str(caught.value)
    return caught.value


def test_a_cursor_knows_what_was_imported_when_the_pipeline_was_at_work(start, code, spec, lazy):
    first = start()
    with bulkhead.Loader(spec, first.target, timeout=60) as loader:
        assert code_of(loader.state_dict()) == ["stage.py"]
        cursors = [loader.next_batch().cursor for _ in range(12)]
        # Another stream of these workers hears of what they have loaded.
        with bulkhead.Loader(spec, first.target, timeout=60) as other:
            assert code_of(other.state_dict()) == ["stage.py"]
            assert other.next_batch().cursor["code"] == cursors[-1]["code"]
    # Workers are ahead of the trainer: a cursor may name the file before the batch that needs it.
    named = ["later.py" in code_of(cursor) for cursor in cursors]
    assert named == sorted(named) and all(named[10:])
    assert len({cursor["bytes_fingerprint"] for cursor in cursors}) == 1
    cursor = json.loads(json.dumps(cursors[10]))
    # In another service, which has not imported it yet: of a new epoch, say.
    service = start()
    early = {**cursor, "consumed": 0}
    for _ in range(2):  # with new workers, and with those
        opened, batch = resume(spec, service.target, early)
        assert opened["code"] == cursor["code"] == batch.cursor["code"]
        assert batch.cursor["bytes_fingerprint"] == cursor["bytes_fingerprint"]
    edit(code / "later.py", 2)
    for target in (service.target, start().target):
        error = refused(spec, target, early)
        assert error.metadata["file"] == "later.py" and "later.py was changed" in str(error)
    opened, batch = resume(spec, service.target, cursor, allow_changed_bytes=True)
    assert code_of(opened) == ["stage.py"] and code_of(batch.cursor) == ["later.py", "stage.py"]
    assert int(batch["index"][0]) % 100 == 2
    assert batch.cursor["code"][0]["digest"] != cursor["code"][0]["digest"]
    (code / "later.py").unlink()
    assert "later.py is not there any more" in str(refused(spec, service.target, early))


@pytest.mark.parametrize("stage", [STAGE, LAZY], ids=["in the first call", "at sample 40"])
def test_what_edited_code_kept_is_not_used(start, code, folder, stage):
    """The cache's key stays. Nothing but the file that is imported late tells one result from the other."""
    (code / "stage.py").write_text(stage)
    function = {"function": "stage:f", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    spec = write_spec(folder / "kept.json", source={"range": {"size": 200}}, batch={"size": 4}, epochs=3,
                      stages=[{"python": function}, {"cache": {"key": "1"}}])

    def values(service):
        with bulkhead.Loader(spec, service.target, timeout=60) as loader:
            return {int(value) for batch in loader.stream() for value in batch["index"]}

    def expected(later):
        return {i * 100 + (10 + later if stage is STAGE else later if i >= 40 else 0) for i in range(200)}

    def added(service):
        return int(bulkhead.service_status(service.target)["kept"].get("added", 0))

    service = start(home=folder / "home")
    while added(service) < 200:  # segments come when the disk has made them
        assert values(service) == expected(1)
    service.stop()
    service = start(home=folder / "home")
    assert values(service) == expected(1)
    assert added(service) < 100, "results outlive a service, also those of code that is loaded late"
    edit(code / "later.py", 2)
    assert values(service) == expected(2)
    service.stop()
    assert values(start(home=folder / "home")) == expected(2)


def test_an_edit_between_the_resume_and_the_import_ends_the_stream(start, code, spec, lazy):
    with bulkhead.Loader(spec, start().target, timeout=60) as loader:
        cursor = [loader.next_batch().cursor for _ in range(12)][-1]
    with bulkhead.Loader(spec, start().target, timeout=60, cursor={**cursor, "consumed": 0}) as loader:
        loader.next_batch()  # and those that are made ahead of it come before sample 40
        edit(code / "later.py", 2)
        with pytest.raises(bulkhead.CodeChanged) as caught:
            for batch in loader:
                assert int(batch["index"][-1]) < 4000
    assert caught.value.metadata["file"] == "later.py"


def test_a_stream_that_heals_keeps_the_code_and_checks_it(start, code, spec, lazy, folder):
    service = start(home=folder / "home")
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        for _ in range(12):
            last = loader.next_batch()
        edit(code / "later.py", 2)
        service.stop()
        start(home=folder / "home")
        with pytest.raises(bulkhead.CursorMismatch, match="later.py was changed"):
            while True:
                last = loader.next_batch()
        assert "later.py" in code_of(last.cursor)


def test_both_clients_carry_the_code(start, folder, spec):
    service = start()
    short = json.loads(spec.read_text())
    short["source"]["range"]["size"] = 12
    spec.write_text(json.dumps(short))
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        cursor = [batch.cursor for batch in loader][0]
    ends = []
    for command in CLIENTS.values():
        done = subprocess.run(
            [*command, "--spec", spec, "--target", service.target, "--cursor", json.dumps(cursor), "--error-json"],
            env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)}, stdout=subprocess.PIPE, text=True, timeout=120)
        ends.append(json.loads(done.stdout.splitlines()[-1])["cursor"])
    assert ends[0] == ends[1]
    assert ends[0]["code"] == cursor["code"] and "later.py" in code_of(cursor)
    assert ends[0]["bytes_fingerprint"] == cursor["bytes_fingerprint"]


def test_a_spec_without_code_of_ones_own_has_none_in_its_cursor(start, folder):
    plain = write_spec(folder / "plain.json", source={"range": {"size": 8}}, batch={"size": 4}, epochs=1)
    with bulkhead.Loader(plain, start().target, timeout=60) as loader:
        assert "code" not in loader.next_batch().cursor


MANY = """\
import importlib
import pathlib

MODULES = ["{package}." + path.stem for path in (pathlib.Path(__file__).parent / "{package}").glob("*.py")]


def load():
    for module in MODULES:
        importlib.import_module(module)


{at_once}


def f(index):
    load()
    return index
"""


def write_modules(code, count, package, at_once):
    """A function that imports `count` modules of `package`, when it is made or in its first call."""
    (code / package).mkdir()
    for number in range(count):
        (code / package / f"m{number}.py").touch()
    (code / "stage.py").write_text(MANY.format(package=package, at_once="load()" if at_once else ""))


@pytest.mark.parametrize("at_once", [True, False])
def test_more_code_than_one_message_holds_is_told_in_parts(start, code, spec, at_once):
    # Over 1 MiB of names, and within the bound of 4,096 files.
    write_modules(code, 4000, package="p" * 250, at_once=at_once)
    service = start()
    with bulkhead.Loader(spec, service.target, timeout=100) as loader:
        cursor = loader.next_batch().cursor
    assert len(code_of(cursor)) == 4001
    resume(spec, service.target, cursor)


@pytest.mark.parametrize("at_once", [True, False])
def test_more_code_than_is_kept_ends_the_stream_and_says_so(start, code, spec, at_once):
    write_modules(code, 12_000, package="p" * 100, at_once=at_once)
    service = start()
    with pytest.raises(bulkhead.BulkheadError) as caught:
        with bulkhead.Loader(spec, service.target, timeout=100) as loader:
            for _ in loader:
                pass
    assert caught.value.reason == "STAGE_UNUSABLE"
    assert "more than 4096 files" in str(caught.value)
