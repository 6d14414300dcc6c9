import os
import pathlib
import signal
import subprocess
import sys

import pytest

import bulkhead

PACKAGE = str(pathlib.Path(bulkhead.__file__).resolve().parents[1])


def folder_of(loader):
    return os.path.dirname(loader.target[len("unix:") :])


def test_a_service_is_started_shared_and_ended_with_the_last_loader(fake_program):
    first = bulkhead.Loader({"samples": 20}, timeout=30)
    second = bulkhead.Loader({"samples": 20}, timeout=30)
    assert first.target == second.target
    assert os.stat(folder_of(first)).st_mode & 0o777 == 0o700
    pid = first._endpoint.service.pid
    first.close()
    assert len(list(second)) == 3
    second.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not os.path.exists(folder_of(first))


def test_other_options_mean_another_service(fake_program):
    with bulkhead.Loader({}, timeout=30) as first:
        with bulkhead.Loader({}, timeout=30, workers=1, threads=2) as second:
            assert first.target != second.target


def test_a_killed_service_is_started_again_for_all_its_loaders(fake_program):
    with bulkhead.Loader({"samples": 40}, timeout=30, credits=1) as first:
        with bulkhead.Loader({"samples": 40}, timeout=30, credits=1) as second:
            assert [int(b["index"][0]) for b in (first.next_batch(), second.next_batch())] == [0, 0]
            old = first.target
            os.kill(first._endpoint.service.pid, signal.SIGKILL)
            for loader in (first, second):
                batches = [(int(batch["index"][0]), batch.sequence) for batch in loader]
                assert batches == [(8, 1), (16, 2), (24, 3), (32, 4)]
                assert loader.reconnects == 1
            assert first.target == second.target != old
            assert not os.path.exists(os.path.dirname(old[len("unix:") :]))


def test_a_service_that_keeps_dying_is_explained_and_replaced(fake_program):
    with bulkhead.Loader({"mode": "die_again", "samples": 800}, timeout=30) as loader:
        assert loader.next_batch().sequence == 0
        with pytest.raises(bulkhead.ServiceUnavailable) as caught:
            loader.next_batch()
        assert "killed by signal 9" in str(caught.value)
        assert "the disk is on fire" in str(caught.value)
        with bulkhead.Loader({"samples": 8}, timeout=30) as other:
            assert other.target != loader.target
            assert len(list(other)) == 1


def test_a_service_that_does_not_start_says_why(fake_program):
    with pytest.raises(bulkhead.ServiceStartFailed, match="status 1.*cache folder 'refuse'"):
        bulkhead.Loader({}, cache_dir="refuse", timeout=30)


def test_a_service_that_is_never_ready_meets_the_deadline(fake_program):
    with pytest.raises(bulkhead.DeadlineExceeded, match="not ready within 0.5 s"):
        bulkhead.Loader({}, cache_dir="never-ready", timeout=0.5)


def test_without_a_program_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("BULKHEAD_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(bulkhead.ServiceNotFound, match="install Bulkhead's server"):
        bulkhead.Loader({})
    monkeypatch.setenv("BULKHEAD_SERVER", str(tmp_path / "none"))
    with pytest.raises(bulkhead.ServiceNotFound, match="BULKHEAD_SERVER names"):
        bulkhead.Loader({})


def test_a_long_runtime_folder_is_passed_over(fake_program, monkeypatch, tmp_path):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with bulkhead.Loader({}, timeout=30) as loader:
        assert folder_of(loader).startswith("/tmp/bulkhead-")


@pytest.mark.parametrize("ending", ["pass", "raise KeyboardInterrupt", "loader.next_batch()"])
def test_the_interpreter_ends_cleanly_with_a_loader_open(fake_program, ending):
    code = f"import bulkhead; loader = bulkhead.Loader({{'samples': 9999}}); print(loader.target); {ending}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = -signal.SIGINT if "Keyboard" in ending else 0
    assert done.returncode == expected, done.stderr
    assert not os.path.exists(os.path.dirname(done.stdout.strip()[len("unix:") :]))
