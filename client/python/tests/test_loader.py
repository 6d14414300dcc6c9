import gc
import json
import logging
import math
import mmap
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import bulkhead
from bulkhead._batch import buffers
from bulkhead._stream import incarnation
from conftest import eventually


def indices(batches):
    return [int(value) for batch in batches for value in batch["index"]]


def test_a_loop_gives_one_epoch_in_order(fake):
    batches = list(fake.open(samples=20, batch=8, epochs=2))
    assert indices(batches) == list(range(20))
    assert [len(batch["index"]) for batch in batches] == [8, 8, 4]
    assert [batch.last_in_epoch for batch in batches] == [False, False, True]
    assert batches[1].positions == range(8, 16)
    assert batches[2].valid_count == 4


def test_the_next_loop_gives_the_next_epoch_and_then_the_epochs_are_exhausted(fake):
    loader = fake.open(samples=20, batch=8, epochs=2)
    list(loader)
    assert indices(loader) == list(range(1000, 1020))
    with pytest.raises(bulkhead.EpochsExhausted, match="^all 2 epochs that the spec asks for have been delivered"):
        list(loader)
    with pytest.raises(bulkhead.EpochsExhausted):
        list(loader)
    loader = fake.open(samples=20, batch=8, epochs=1)
    list(loader)
    with pytest.raises(bulkhead.EpochsExhausted, match="^the one epoch that the spec asks for has been delivered"):
        list(loader)


def test_a_closed_loader_says_how_to_go_on(fake):
    with fake.open(samples=20, batch=8) as loader:
        loader.next_batch()
    with pytest.raises(bulkhead.LoaderClosed, match=r"closed; open another: Loader\(spec, cursor=loader.state_dict\(\)\)"):
        next(iter(loader))
    assert loader.state_dict()["consumed"] == 8


def test_a_loop_left_by_break_is_continued(fake):
    loader = fake.open(samples=20, batch=8, epochs=2)
    for first in loader:
        break
    assert indices([first]) == list(range(8))
    assert indices(loader) == list(range(8, 20))


def test_stream_crosses_epochs(fake):
    loader = fake.open(samples=4, batch=4, epochs=3)
    assert indices(loader.stream()) == [0, 1, 2, 3, 1000, 1001, 1002, 1003, 2000, 2001, 2002, 2003]


def test_len_counts_what_the_next_loop_gives(fake):
    loader = fake.open(samples=20, batch=8, epochs=2)
    assert len(loader) == 3
    loader.next_batch()
    assert len(loader) == 2
    list(loader)
    assert len(loader) == 3
    list(loader)
    assert len(loader) == 0


def test_arrays_are_aligned_writable_views_with_the_right_types(fake):
    loader = fake.open(samples=16, batch=8)
    batch = loader.next_batch()
    assert list(batch) == ["index", "pix"]
    assert batch["index"].dtype == np.int64 and batch["index"].shape == (8,)
    assert batch["pix"].dtype == np.uint8 and batch["pix"].shape == (8, 3)
    for array in batch.values():
        assert array.ctypes.data % 64 == 0
        array[:] = 0
    assert [spec.name for spec in loader.schema] == ["index", "pix"]


def test_a_batch_keeps_its_bytes_while_anything_refers_to_it(fake):
    loader = fake.open(samples=4000, batch=8)
    kept = loader.next_batch()["pix"][2:4]  # a view of a view
    for _ in range(40):
        loader.next_batch()
    assert kept.tolist() == [[2, 2, 2], [3, 3, 3]]


def test_memory_is_recycled_once_nothing_refers_to_it(fake):
    loader = fake.open(samples=4000, batch=8)
    addresses = set()
    for batch in loader:
        addresses.add(batch["index"].ctypes.data)
        del batch
    gc.collect()
    assert len(addresses) <= 10


def test_credits_bound_what_is_sent_ahead(fake):
    loader = fake.open(samples=400, batch=8, loader={"credits": 3})
    stream = loader._stream._stream
    with stream._changed:  # before any is taken: a fast trainer never has them all outstanding
        assert stream._changed.wait_for(lambda: stream.ready_batches == 3, 10)
    for _ in loader:
        pass
    assert fake.most_outstanding == 3
    assert fake.opens[0].credits.batches == 3


def test_the_cursor_resumes_exactly(fake):
    loader = fake.open(samples=20, batch=8, epochs=2)
    loader.next_batch()
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["consumed"] == 8 and state["quarantined"] == ['a"b']
    other = fake.open(samples=20, batch=8, epochs=2, loader={"cursor": state})
    assert len(other) == 2
    assert indices(other) == list(range(8, 20))
    loader.load_state_dict(state)
    assert indices(loader) == list(range(8, 20))
    assert fake.opens[2].incarnation > fake.opens[0].incarnation


def test_a_clock_that_is_set_back_makes_no_older_consumer(fake, monkeypatch):
    loader = fake.open(samples=20, batch=8, epochs=9)
    wall = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall - 3_600 * 10**9)
    loader.set_epoch(1)
    assert fake.opens[1].incarnation > fake.opens[0].incarnation
    assert len(fake.opens[0].machine_boot) == 16
    assert fake.opens[1].machine_boot == fake.opens[0].machine_boot
    assert fake.opens[1].since_boot > fake.opens[0].since_boot


def test_two_consumers_of_one_moment_are_told_apart(monkeypatch):
    monkeypatch.setattr(incarnation, "_boot", lambda: (b"b", 5))
    older, newer = incarnation.next_incarnation(), incarnation.next_incarnation()
    assert newer.since_boot > older.since_boot and newer.wall > older.wall


def test_without_a_boot_there_is_the_wall_clock(monkeypatch):
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    older, newer = incarnation.next_incarnation(), incarnation.next_incarnation()
    assert (newer.machine_boot, newer.since_boot) == (b"", 0) and newer.wall > older.wall


def test_set_epoch_goes_to_its_start(fake):
    loader = fake.open(samples=20, batch=8, epochs=9)
    loader.next_batch()
    loader.set_epoch(5)
    assert indices(loader) == list(range(5000, 5020))


def test_a_cursor_that_is_none_is_refused(fake):
    with pytest.raises(bulkhead.InvalidArgument):
        fake.open(loader={"cursor": {"epoch": "x"}})
    with pytest.raises(bulkhead.InvalidArgument):
        fake.open(loader={"cursor": {"no_such": 1}})


def test_progress_is_told_and_keeps_the_deadline_away(fake):
    told = []
    loader = fake.open(
        progress=8, progress_seconds=0.1, loader={"progress": told.append, "timeout": 0.5}
    )
    assert told[-1].files_total == 9 and told[-1].activity.startswith("indexing")
    assert loader.next_batch() is not None


@pytest.mark.parametrize("reverse", [{}, {"reverse": 2}])
def test_a_quarantined_record_is_in_the_cursors_from_then_on(fake, caplog, reverse):
    loader = fake.open(mode="quarantine:z@1", samples=32, batch=8, **reverse)
    cursors = [batch.cursor["quarantined"] for batch in loader]
    assert cursors == [['a"b'], ['a"b', "z@1"], ['a"b', "z@1"], ['a"b', "z@1"]]
    assert loader.state_dict()["quarantined"] == ['a"b', "z@1"]
    assert loader.quarantined == {"z@1": "z@1 ended 3 workers"}
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [text for text in warnings if "z@1 ended 3 workers" in text] == warnings
    assert len(warnings) == 1


def test_a_quarantined_record_is_asked_for_again_after_a_loss_and_told_once(fake, caplog):
    loader = fake.open(mode="quarantine:z@1", samples=40, batch=8, lose_after=1)
    assert [batch.cursor["quarantined"] for batch in loader][-1] == ['a"b', "z@1"]
    # Lost behind the event and before any batch that holds it.
    assert list(fake.opens[1].cursor.quarantined) == ['a"b', "z@1"]
    assert loader.reconnects == 1
    assert sum("z@1 ended 3 workers" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("end_after", [0, 1, 4])
@pytest.mark.parametrize("reverse", [{}, {"reverse": 2}])
def test_a_stream_that_ends_well_before_its_last_batch_was_lost(fake, end_after, reverse, caplog):
    loader = fake.open(samples=20, batch=8, epochs=2, end_after=end_after, **reverse)
    assert sorted(indices(loader.stream())) == [*range(20), *range(1000, 1020)]
    assert loader.reconnects == 1
    assert "ended the stream before its last batch" in caplog.text


def test_a_record_without_a_name_cannot_be_quarantined(fake):
    loader = fake.open(mode="quarantine:", samples=40, batch=8)
    loader.next_batch()
    with pytest.raises(bulkhead.ProtocolError, match="quarantined"):
        loader.next_batch()


def test_substitutions_are_listed_and_logged_for_who_asks_for_each(fake, caplog):
    caplog.set_level(logging.DEBUG, "bulkhead")
    loader = fake.open(mode="substitute")
    batch = loader.next_batch()
    assert loader.substitutions == [(0, 3, 4, "bad@7")]
    assert batch.cursor["substitutions"] == 1
    assert [record.levelname for record in caplog.records if "bad@7" in record.getMessage()] == ["DEBUG"]


def test_close_ends_a_waiting_call(fake):
    loader = fake.open(mode="stall", loader={"timeout": 30})
    raised = []

    def wait():
        try:
            loader.next_batch()
        except bulkhead.LoaderClosed as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    loader.close()
    thread.join(10)
    assert raised and not thread.is_alive()
    with pytest.raises(bulkhead.LoaderClosed):
        iter(loader)


def test_a_forked_child_gets_a_clear_error(fake):
    loader = fake.open(samples=20)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            loader.next_batch()
        except bulkhead.BulkheadError as error:
            os.write(writer, error.reason.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"FORKED"
    os.close(reader)
    assert len(list(loader)) == 3


def test_specs_come_as_path_text_or_dict(tmp_path, fake, monkeypatch):
    target = fake.open().target
    path = tmp_path / "s.yaml"
    path.write_text('{"samples": 3}')
    monkeypatch.chdir("/")
    for spec, base_dir in ((path, tmp_path), (str(path), tmp_path), ({"samples": 3}, "/")):
        with bulkhead.Loader(spec, target) as loader:
            assert loader.samples_per_epoch == 3
        sent = fake.opens[-1].spec
        assert sent.base_dir == str(base_dir)
        assert sent.text.name == (str(path) if base_dir == tmp_path else "spec")


def test_default_names_differ(fake):
    fake.open()
    fake.open()
    assert fake.opens[0].name != fake.opens[1].name


def test_no_credit_bytes_do_not_mean_the_services_default(fake):
    assert fake.open(loader={"credit_bytes": 0}).next_batch() is not None
    assert fake.opens[-1].credits.bytes == 1
    fake.open(loader={"credit_bytes": 5000})
    assert fake.opens[-1].credits.bytes == 5000


def test_behind_the_last_epoch_nothing_is_left(fake):
    loader = fake.open(samples=20, epochs=2)
    list(loader)
    list(loader)
    state = loader.state_dict()
    assert state["epoch"] == 2
    again = fake.open(samples=20, epochs=2, loader={"cursor": state})
    assert len(again) == 0
    with pytest.raises(bulkhead.EpochsExhausted):
        list(again)
    assert len(again) == 0


def test_a_state_that_cannot_be_loaded_changes_nothing(fake):
    loader = fake.open(samples=40, mode="refuse_resumed")
    loader.next_batch()
    before = (loader.state_dict(), len(loader), loader.epoch, loader.batch_size)
    with pytest.raises(bulkhead.InvalidArgument):
        loader.load_state_dict({"epoch": "x"})
    with pytest.raises(bulkhead.BulkheadError, match="not now"):
        loader.load_state_dict({**loader.state_dict(), "consumed": 16})
    assert (loader.state_dict(), len(loader), loader.epoch, loader.batch_size) == before
    for _ in range(2):  # the earlier position is refused as well, as long as the service does
        with pytest.raises(bulkhead.BulkheadError, match="not now"):
            loader.next_batch()
    assert len(loader) == before[1]
    loader.set_epoch(0)
    assert [int(batch["index"][0]) for batch in loader] == [0, 8, 16, 24, 32]


def test_after_a_failed_load_the_loop_goes_on_where_it_was(fake):
    loader = fake.open(samples=40)
    loader.next_batch()
    real = loader._endpoint.revive

    def fail(*_):
        raise bulkhead.ServiceUnavailable("gone")

    loader._endpoint.revive = fail
    with pytest.raises(bulkhead.ServiceUnavailable):
        loader.set_epoch(0)
    loader._endpoint.revive = real
    assert [int(batch["index"][0]) for batch in loader] == [8, 16, 24, 32]
    loader.close()


def test_time_in_which_a_service_prepares_is_no_time_of_loss(fake):
    loader = fake.open(
        lost_openings=2, progress=10, progress_seconds=0.15, loader={"reconnect_timeout": 1.2}
    )
    assert loader.reconnects == 1 and loader.next_batch() is not None


def test_only_the_newest_progress_is_told(fake):
    told = []

    def slow(progress):
        told.append(progress.files_done)
        if len(told) == 1:
            threading.Event().wait(1.0)

    fake.open(progress=500, progress_seconds=0.004, loader={"progress": slow})
    assert told[0] < 50 < told[1], "what came in between is not told any more"


def test_the_last_progress_is_told_though_the_stream_has_opened_since(fake):
    told = []

    def slow(progress):
        told.append(progress.files_done)
        assert eventually(lambda: fake.most_outstanding > 0), "it sends batches, so it has opened"
        threading.Event().wait(0.1)  # on its way here

    fake.open(progress=5, loader={"progress": slow})
    assert told[-1] == 4 and len(told) <= 2, "all came while the first was told"


def test_large_blocks_are_mapped_and_recycled(monkeypatch):
    made, make = [], mmap.mmap
    monkeypatch.setattr(mmap, "mmap", lambda *a, **k: made.append(a) or make(*a, **k))
    pool = buffers.BufferPool(200_000, 2)
    blocks = [pool.take() for _ in range(3)]
    assert {block.nbytes for block in blocks} == {200_000} and len(made) == 3
    part = blocks.pop()[10:20]
    part[:] = 7
    blocks.clear()
    blocks = [pool.take() for _ in range(2)]
    assert len(made) == 3
    blocks.append(pool.take())
    assert len(made) == 4, "nobody gets a block that is viewed"
    for block in blocks:
        block[:] = 0
    assert part.tolist() == 10 * [7]


def test_a_block_that_memory_has_no_room_for_is_a_memory_error():
    with pytest.raises(MemoryError, match="1152921504606846976 bytes"):
        buffers.BufferPool(1 << 60, 2).take()


@pytest.mark.parametrize("size", [1, 1000, 200_000])
def test_blocks_are_aligned(size):
    pool = buffers.BufferPool(size, 2)
    blocks = [pool.take() for _ in range(9)]
    assert not any(block.ctypes.data % 64 or block.nbytes != size for block in blocks)


FORKS_IN_THE_MIDDLE_OF_TAKES = """
import os, signal, threading
from bulkhead._batch import buffers

pool = buffers.BufferPool(1 << 20, 4)
stop = threading.Event()

def take():
    while not stop.is_set():
        pool.take()

threads = [threading.Thread(target=take, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        blocks = [pool.take() for _ in range(6)]
        del blocks
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
"""


def test_a_child_that_is_forked_in_the_middle_of_a_take_can_take():
    # In a process of its own: here a thread may collect gRPC servers of other tests, which gRPC does not do beside forks.
    subprocess.run([sys.executable, "-c", FORKS_IN_THE_MIDDLE_OF_TAKES], timeout=300, check=True)


@pytest.mark.parametrize("name, value", [
    ("consumed", True), ("quarantined", "a@1"), ("quarantined", b"a@1"), ("quarantined", [5]), ("epoch", "x"),
    ("epoch", 1.5), ("epoch", None), ("epoch", math.nan), ("epoch", [1]), ("order_fingerprint", 5),
])
def test_a_cursor_whose_member_is_of_another_kind_is_refused(fake, name, value):
    loader = fake.open()
    state = {**loader.state_dict(), name: value}
    words = f"not one that a batch gave: `{name}` is a .*, not {re.escape(repr(value))}$"
    with pytest.raises(bulkhead.InvalidArgument, match=words):
        fake.open(loader={"cursor": state})
    with pytest.raises(bulkhead.InvalidArgument, match=words):
        loader.load_state_dict(state)


@pytest.mark.parametrize("name, value, most", [
    ("substitutions", 1 << 63, (1 << 63) - 1), ("epoch", 1 << 63, (1 << 63) - 1), ("consumed", -1, (1 << 63) - 1), ("version", 1 << 32, (1 << 32) - 1),
])
def test_a_cursor_with_a_number_that_no_count_has_is_refused(fake, name, value, most):
    loader = fake.open()
    with pytest.raises(bulkhead.InvalidArgument, match=f"gave: `{name}` lies between 0 and {most}, and is {value}$"):
        loader.load_state_dict({**loader.state_dict(), name: value})
    assert loader.next_batch() is not None


def test_a_whole_number_of_another_type_is_one(fake):
    state = fake.open().state_dict()
    same = {**state, "epoch": 0.0, "consumed": np.int64(state["consumed"]), "substitutions": np.zeros((), int)}
    assert fake.open(loader={"cursor": same}).state_dict() == state


@pytest.mark.parametrize("given", [{}, None, "{}", 3])
def test_what_is_no_cursor_is_refused_in_the_same_words_everywhere(fake, given):
    with pytest.raises(bulkhead.InvalidArgument, match="^cursor must be the dict that state_dict.. gave, not ") as caught:
        fake.open().load_state_dict(given)
    if given is not None:
        with pytest.raises(bulkhead.InvalidArgument) as at_first:
            fake.open(loader={"cursor": given})
        assert str(at_first.value) == str(caught.value)
