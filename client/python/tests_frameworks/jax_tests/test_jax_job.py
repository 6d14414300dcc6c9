"""Processes of one job, with JAX's own coordinator and gloo between them."""

import pathlib
import socket

import pytest
from conftest import results_of

PROGRAM = pathlib.Path(__file__).with_name("job_process.py")


def run_job(*cases, processes=2, **environment):
    """What came of each case, by process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{probe.getsockname()[1]}"
    calls = [(",".join(cases), coordinator, str(number), str(processes)) for number in range(processes)]
    return results_of(PROGRAM, calls, **{"JAX_PLATFORMS": "cpu", **environment})


CASES = [
    "parts",
    "global_arrays",
    "alone",
    "other_cursors",
    "load",
    "other_batches",
    "one_fails",
    "one_has_no_sharding",
    "quarantine",
    "own_words_left",
    "without_store",
]


@pytest.fixture(scope="module")
def job():
    """One job that goes through all the cases: a disagreement leaves its processes fit to go on."""
    return run_job(*CASES)


def test_processes_share_an_epoch_across_a_checkpoint(job):
    first, second = (process["parts"] for process in job)
    assert sorted(first + second) == list(range(48)) and len(first) == len(second)


def test_processes_put_their_parts_together(job):
    assert [process["global_arrays"] for process in job] == [
        [[[8], [[0, 1, 2, 3]]], [[8], [[8, 9, 10, 11]]]],
        [[[8], [[4, 5, 6, 7]]], [[8], [[12, 13, 14, 15]]]],
    ]


def test_a_process_that_says_where_it_belongs_waits_for_nobody(job):
    assert job[0]["alone"]["state"]["consumed"] == 0


def test_processes_with_other_cursors_all_raise_and_name_who_differs(job):
    for process in job:
        result = process["other_cursors"]
        assert result["error"] == "CursorMismatch"
        assert "rank 1 has consumed 16, rank 0 has 8" in result["text"]


def test_loading_other_states_raises_on_all_processes(job):
    for process in job:
        assert process["load"]["error"] == "CursorMismatch"
        assert "rank 1 has consumed 16, rank 0 has 8" in process["load"]["text"]


def test_processes_with_other_batch_sizes_all_raise(job):
    for process in job:
        assert process["other_batches"]["error"] == "CursorMismatch"
        assert "rank 1 has batch size 8, rank 0 has 4" in process["other_batches"]["text"]


def test_a_process_that_cannot_open_ends_the_others_at_once(job):
    first, second = (process["one_fails"] for process in job)
    assert second["error"] == "SpecError"
    assert first["reason"] == "OTHER_RANK_FAILED" and "rank 1: " in first["text"]


def test_a_process_without_a_sharding_ends_the_others_at_once(job):
    first, second = (process["one_has_no_sharding"] for process in job)
    assert second["error"] == "InvalidArgument"
    assert first["reason"] == "OTHER_RANK_FAILED" and "sharding has nothing" in first["text"]


def test_what_is_quarantined_for_one_process_is_for_all(job):
    for process in job:
        state = process["quarantine"]["state"]
        assert state["quarantined"] == ["range@0", "range@1"]
        assert state["substitutions"] == 1 and state["consumed"] == 8


def test_without_a_key_value_store_the_devices_carry_the_words(job):
    for process in job:
        result = process["without_store"]
        assert result["agree"]["state"]["consumed"] == 0
        assert result["differ"]["error"] == "CursorMismatch"
        assert "rank 1 has consumed 24, rank 0 has 0" in result["differ"]["text"]


def test_words_that_all_have_heard_do_not_pile_up_in_the_coordinator(job):
    assert [process["own_words_left"] for process in job] == [1, 1]


def test_a_process_that_comes_too_late_and_those_that_waited_all_raise(tmp_path):
    first, second = run_job("one_comes_too_late", FOLDER=str(tmp_path))
    assert first["one_comes_too_late"]["reason"] == "OTHER_RANK_FAILED"
    assert "process 1 did not come" in first["one_comes_too_late"]["text"]
    assert "every rank must construct its Loader" in first["one_comes_too_late"]["text"]
    assert "process 0 did not come" in second["one_comes_too_late"]["text"]


def test_a_process_that_is_late_is_waited_for_aloud(tmp_path):
    first, second = run_job("one_is_late", FOLDER=str(tmp_path))
    assert first["one_is_late"]["state"] == second["one_is_late"]["state"]
    assert "rank 0 waits for the other ranks" in (tmp_path / "said").read_text()
