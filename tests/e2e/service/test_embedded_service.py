"""The service that a Loader starts: its options, its log, and how it is found."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import bulkhead
import pytest
from conftest import BIN, PYTHON_PACKAGE, tool, write_spec


@pytest.fixture
def runtime(monkeypatch):
    """An empty $XDG_RUNTIME_DIR with a short name."""
    with tempfile.TemporaryDirectory(prefix="bh", dir="/tmp") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield pathlib.Path(path)


@pytest.fixture
def spec(folder):
    return write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 10})


def option_of(pid, flag):
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return words[words.index(flag) + 1]


def test_its_options_are_arguments_of_the_loader(folder, spec):
    with bulkhead.Loader(spec, workers=1, worker_quota="200MiB", memory_budget=2 << 30, worker_hang_timeout=7.5,
                         sandbox="seccomp,landlock", metrics="127.0.0.1:0", log_level="debug",
                         native_path=folder) as loader:
        loader.next_batch()
        status = bulkhead.service_status(loader.target)
        pid = loader._endpoint.service.pid
        log = pathlib.Path(loader._endpoint.service.log).read_text()
        given = {flag: option_of(pid, flag) for flag in ("--worker-hang-timeout", "--sandbox", "--log-level", "--native-path")}
    assert status["memory"]["budget_bytes"] == 2 << 30
    assert {worker["quota_bytes"] for worker in status["workers"]} == {200 << 20}
    assert pid == status["pid"]
    assert given == {"--worker-hang-timeout": "7.5", "--sandbox": "seccomp,landlock", "--log-level": "debug",
                     "--native-path": str(folder)}
    assert re.search(r"metrics on http://127\.0\.0\.1:[0-9]+/metrics", log)


def test_the_adapters_pass_them_on(folder, spec, monkeypatch):
    torch = pytest.importorskip("torch")
    assert torch
    import bulkhead.torch

    dataset = bulkhead.torch.Dataset(spec, worker_quota="300MiB")
    status = bulkhead.service_status(dataset.loader.target)
    dataset.close()
    assert {worker["quota_bytes"] for worker in status["workers"]} == {300 << 20}


@pytest.mark.parametrize("options, said", [
    ({"worker_quota": "1MiB"}, "worker_quota= 1MiB: a worker without any sample takes 20 MiB"),
    ({"sandbox": "walls"}, "sandbox= walls: there is no part 'walls'"),
    ({"native_path": "/nowhere"}, "native_path= /nowhere: "),
])
def test_a_wrong_value_is_told_by_the_name_of_the_argument(spec, options, said):
    with pytest.raises(bulkhead.ServiceStartFailed) as caught:
        bulkhead.Loader(spec, **options)
    assert said in str(caught.value) and "--" not in str(caught.value)


def test_errors_advise_the_argument(folder):
    spec = write_spec(folder / "s.json", source={"range": {"size": 1000}}, batch={"size": 1 << 24}, epochs=1)
    with pytest.raises(bulkhead.BudgetExceeded) as caught:
        bulkhead.Loader(spec, workers=1, worker_quota="64MiB", memory_budget="300MiB")
    assert "use a smaller batch.size or worker_quota=, or use a larger memory_budget=" in str(caught.value)


def test_a_service_that_is_lost_leaves_its_log_and_the_error_names_it(folder, spec):
    with bulkhead.Loader(spec, workers=1, reconnect_timeout=0) as loader:
        loader.next_batch()
        pid = loader._endpoint.service.pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(bulkhead.ServiceUnavailable) as caught:
            for _ in loader.stream():
                pass
    [log] = (folder / "cache/bulkhead/logs").iterdir()
    assert f"the embedded service (pid {pid}) was killed by signal 9; its log is {log}" in str(caught.value)
    assert "listening on unix:" in log.read_text() and log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("heals, words", [(120, "; the loader starts it again by itself, at its next batch"), (0, "; check that bulkheadd runs there")])
def test_the_status_of_a_lost_service_says_whether_the_loader_gets_another(folder, spec, heals, words):
    with bulkhead.Loader(spec, workers=1, reconnect_timeout=heals) as loader:
        loader.next_batch()
        os.kill(loader._endpoint.service.pid, signal.SIGKILL)
        while loader._endpoint.service.alive():
            pass
        with pytest.raises(bulkhead.ServiceUnavailable) as caught:
            loader.status()
    assert str(caught.value).endswith(words)


STAGE = {"function": "ends_stage:ends", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}


@pytest.mark.parametrize("code, reason", [
    ("import os\nos.kill(os.getpid(), 9)", "WORKER_CRASH_LOOP"),
    ("raise ValueError", "STAGE_FAILED"),
    ("input()", "STAGE_UNUSABLE"),
    ("import time\nwhile True: time.sleep(0.01)", "DEADLINE_EXCEEDED"),
])
def test_each_error_of_a_stream_ends_in_the_path_of_the_log(folder, monkeypatch, code, reason):
    (folder / "ends_stage.py").write_text("def ends(index):\n" + "".join(f"    {line}\n" for line in code.split("\n")))
    monkeypatch.syspath_prepend(str(folder))
    spec = {"source": {"range": {"size": 8}}, "stages": [{"python": STAGE}], "batch": {"size": 4}, "epochs": 1}
    with bulkhead.Loader(spec, workers=1) as loader:
        for _ in range(2):  # as often as it is raised
            with pytest.raises(bulkhead.BulkheadError) as caught:
                loader.next_batch(timeout=0.5 if reason == "DEADLINE_EXCEEDED" else None)
            assert caught.value.reason == reason
            [log] = (folder / "cache/bulkhead/logs").iterdir()
            assert str(caught.value).endswith(f"; the log of the embedded service is {log}")
            assert str(caught.value).count(str(log)) == 1 and caught.value.message == str(caught.value)


def test_so_do_errors_of_openings_but_not_those_of_specs(folder, spec):
    with pytest.raises(bulkhead.DataError) as caught:
        bulkhead.Loader({"source": {"image_folder": {"path": str(folder / "none")}}, "outputs": ["label"], "batch": {"size": 1}}, workers=1)
    assert "; the log of the embedded service is " in str(caught.value)
    with pytest.raises(bulkhead.SpecError) as caught:
        bulkhead.Loader({"source": {"range": {"size": 3}}}, workers=1)
    assert " log " not in str(caught.value)


def test_a_service_that_is_never_ready_names_its_log(folder, spec, monkeypatch):
    """It stands still, as on a machine that has no time for it, once it has begun its log."""
    program = folder / "bulkheadd"
    program.write_text(f"#!{sys.executable}\nimport os, signal, sys\n"
                       "open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write('began')\n"
                       "os.kill(os.getpid(), signal.SIGSTOP)\n")
    program.chmod(0o755)
    monkeypatch.setenv("BULKHEAD_SERVER", str(program))
    with pytest.raises(bulkhead.DeadlineExceeded) as caught:
        bulkhead.Loader(spec, timeout=3)
    [log] = (folder / "cache/bulkhead/logs").iterdir()
    assert re.fullmatch(r"the embedded service was not ready within [0-9.]+ s; the log of the embedded service is (.*)",
                        str(caught.value))[1] == str(log)


def test_logs_are_bounded_in_number(folder, spec):
    logs = folder / "cache/bulkhead/logs"
    with bulkhead.Loader(spec, workers=1):
        pass
    for number in range(30):
        (logs / f"embedded-{number:06x}.log").touch()
        os.utime(logs / f"embedded-{number:06x}.log", (number, number))
    (logs / "notes.txt").touch()
    with bulkhead.Loader(spec, workers=1):
        pass
    left = sorted(path.name for path in logs.iterdir())
    assert len(left) == 17 and "notes.txt" in left
    assert "embedded-00001d.log" in left and "embedded-000000.log" not in left


def status_lines(runtime):
    """Of the services below `runtime`. The tool also lists those below /tmp, which others may have started."""
    run = subprocess.run([BIN / "bulkhead", "status", "--all"], capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0 or "no service of yours runs" in run.stderr, run
    return [line for line in run.stdout.splitlines() if line.startswith(f"unix:{runtime}/")]


def asked(loader, *command):
    """What a command says without a target; tests beside this one may have services, too, which it then names."""
    run = subprocess.run([BIN / "bulkhead", *command], capture_output=True, text=True, check=False, timeout=60)
    if run.returncode == 0:
        return run.stdout
    assert "services of yours run" in run.stderr and f"--target {loader.target}" in run.stderr
    return tool(*command, "--target", loader.target)


def test_status_finds_it(runtime, folder, spec):
    with bulkhead.Loader(spec, workers=1, name="mine") as loader:
        loader.next_batch()
        assert "stream mine, rank 0 of 1" in asked(loader, "status")
        assert json.loads(asked(loader, "status", "--json"))["streams"][0]["name"] == "mine"
        with bulkhead.Loader(spec, workers=1, threads=2, name="other") as other:
            ours = status_lines(runtime)
            assert [line.partition("  ")[0] for line in ours] == sorted([loader.target, other.target])
            assert any(line.endswith("streams: mine") for line in ours)
            for command in (["status"], ["recycle"], ["quarantine", "list"]):
                error = tool(*command, code=1)
                assert "services of yours run" in error
                assert f"--target {loader.target}" in error and f"--target {other.target}" in error
            # What a dead one left is passed over.
            dead = other.target
            os.kill(other._endpoint.service.pid, signal.SIGKILL)
            other._endpoint.service._process.wait()
            assert dead not in tool("status", "--all") and "stream mine" in asked(loader, "status")


def test_quarantine_and_recycle_find_it(runtime, spec):
    with bulkhead.Loader(spec, workers=1) as loader:
        loader.next_batch()
        [added] = json.loads(asked(loader, "quarantine", "add", "range@17", "--json"))["records"]
        assert added["record"] == "range@17"
        assert json.loads(asked(loader, "quarantine", "list", "--json"))["records"] == [added]
        assert json.loads(asked(loader, "quarantine", "clear", "--all", "--json")) == {"records": []}
        assert json.loads(asked(loader, "recycle", "--json")) == {"workers": 1}


def test_what_is_not_there_to_be_recycled_or_cleared_is_told(runtime, spec):
    with bulkhead.Loader(spec, workers=1) as loader:
        loader.next_batch()

        def said(*words):
            return subprocess.run(
                [BIN / "bulkhead", *words, "--target", loader.target], capture_output=True, text=True, timeout=60
            )

        asked(loader, "quarantine", "add", "range@17")
        run = said("quarantine", "clear", "range@17", "nope@3")
        assert run.returncode == 0 and run.stderr == "nope@3 was not in quarantine\n0 records in quarantine\n"
        for words, what in ((["--slot", "7"], "in slot 7"), (["--pipeline", "nope"], "of pipeline nope")):
            run = said("recycle", *words)
            assert run.returncode == 1 and not run.stdout, run
            assert run.stderr.startswith(f"there is no worker {what}; there are slot 0 of pipeline "), run


def test_a_repeated_status_leaves_its_error_to_be_read(runtime):
    run = subprocess.run([BIN / "bulkhead", "status", "--every", "1", "--target", f"unix:{runtime}/s.sock"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert run.returncode == 1 and "cannot be reached" in run.stdout
    assert "\033" not in run.stdout  # which would clear the screen


def test_status_finds_one_that_processes_share(runtime, folder, spec):
    program = (f"import sys, bulkhead\nloader = bulkhead.Loader({str(spec)!r}, workers=1)\n"
               "print(loader.target, flush=True)\nsys.stdin.readline()\n")
    job = {"TORCHELASTIC_RUN_ID": "status", "PYTHONPATH": str(PYTHON_PACKAGE)}
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **job}, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    target = process.stdout.readline().strip()
    assert target.startswith(f"unix:{runtime}/bulkhead-")
    [line] = status_lines(runtime)
    assert line.startswith(target)
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
