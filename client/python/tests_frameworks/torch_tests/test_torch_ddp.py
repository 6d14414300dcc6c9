"""Ranks of one job, over gloo, each a process of its own."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

RANKS = pathlib.Path(__file__).with_name("ddp_rank.py")


@pytest.fixture(scope="module")
def forker():
    with subprocess.Popen([sys.executable, RANKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:  # fmt: skip
        yield process
        process.stdin.close()


@pytest.fixture
def run_ranks(forker, tmp_path):
    """run_ranks(case, ranks=2, **environment): what each of them printed last, as JSON."""

    def run(case, ranks=2, **environment):
        print(json.dumps([case, str(tmp_path / "rendezvous"), ranks, environment]), file=forker.stdin, flush=True)
        codes, said = json.loads(forker.stdout.readline())
        assert codes == [0] * ranks, said
        return [json.loads(output.splitlines()[-1]) for output, _ in said]

    return run


def runs(pid):
    """A zombie does not; it waits for its parent, whoever that is by now."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_ranks_share_an_epoch_and_stay_equal_across_a_checkpoint(run_ranks):
    first, second = run_ranks("train")
    assert sorted(first["seen"] + second["seen"]) == list(range(48))
    assert len(first["seen"]) == len(second["seen"])
    assert first["weights"] == second["weights"]


def test_the_ranks_of_a_host_share_one_service_and_its_workers(run_ranks):
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(os.getpid())}  # what torchrun sets
    first, second, third = run_ranks("share", ranks=3, **job)
    assert first["service"] == second["service"] == third["service"]
    assert len(first["workers"]) == 1, "each of them asked for one"
    assert first["workers"] == second["workers"] == third["workers"]
    assert sorted(first["seen"] + second["seen"] + third["seen"]) == list(range(48))
    deadline = time.monotonic() + 10
    while runs(first["service"]):
        assert time.monotonic() < deadline, "the service runs without anybody who uses it"
        time.sleep(0.02)


def test_ranks_with_other_cursors_all_raise_and_name_who_differs(run_ranks):
    for result in run_ranks("other_cursors", ranks=3):
        assert result["error"] == "CursorMismatch"
        assert "rank 1 has consumed 24, rank 0 has 12" in result["text"]
        assert "rank 2 has consumed 36, rank 0 has 12" in result["text"]


def test_loading_other_states_raises_on_all_ranks(run_ranks):
    for result in run_ranks("load"):
        assert result["error"] == "CursorMismatch"
        assert "rank 1 has consumed 16, rank 0 has 8" in result["text"]


def test_ranks_with_other_batch_sizes_all_raise(run_ranks):
    for result in run_ranks("other_batches"):
        assert result["error"] == "CursorMismatch"
        assert "rank 1 has batch size 8, rank 0 has 4" in result["text"]


def test_a_rank_that_cannot_open_ends_the_others_at_once(run_ranks):
    first, second = run_ranks("one_fails")
    assert second["error"] == "SpecError"
    assert first["reason"] == "OTHER_RANK_FAILED" and "rank 1: " in first["text"]


def test_a_rank_without_its_device_ends_the_others_at_once(run_ranks):
    first, second = run_ranks("one_finds_no_device")
    assert second["error"] == "RuntimeError" and "no_device" in second["text"]
    assert first["reason"] == "OTHER_RANK_FAILED" and "rank 1: " in first["text"]


def test_ranks_whose_epochs_have_other_lengths_all_raise(run_ranks):
    for result in run_ranks("other_ends"):
        assert result["error"] == "CursorMismatch"
        assert "rank 1 has batches per epoch 5, rank 0 has 4" in result["text"]


def test_a_cursor_amid_batches_out_of_turn_is_of_one_rank_alone(run_ranks):
    for result in run_ranks("out_of_turn"):
        assert result["error"] == "CursorMismatch" and "end of an epoch" in result["text"]


def test_a_rank_that_dies_before_it_opens_ends_the_others_with_advice(run_ranks):
    first, _ = run_ranks("one_dies")
    assert first["reason"] == "OTHER_RANK_FAILED"
    assert "every rank must construct its Dataset" in first["text"]


def test_a_rank_that_is_late_is_waited_for_aloud(run_ranks, tmp_path):
    first, second = run_ranks("one_is_late")
    assert second["name"] == "called" and first["state"] == second["state"]
    said = (tmp_path / "said").read_text()
    assert "rank 0 waits for the other ranks" in said


def test_what_is_quarantined_for_one_rank_is_for_all(run_ranks):
    for result in run_ranks("quarantine"):
        assert result["state"]["quarantined"] == ["range@0", "range@1"]
        assert result["state"]["substitutions"] == 1
        assert result["state"]["consumed"] == 8
