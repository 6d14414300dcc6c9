"""Batches in shared memory: when slots go back, what stays valid, and what happens when it cannot be."""

import ctypes
import gc
import json
import logging
import os
import socket
import threading

import numpy as np
import pytest

import bulkhead
import fake_bulkheadd
from bulkhead._arena import door as door_module, exhaustion
from bulkhead._stream import silence, transport
from bulkhead._stream.shared_memory import SharedMemory
from conftest import eventually, indices


@pytest.fixture(autouse=True)
def no_collector():
    """Slots must go back without the cyclic collector."""
    gc.disable()
    yield
    gc.enable()


def test_auto_takes_shared_memory_and_arrays_lie_in_it(fake_shm):
    loader = fake_shm.open(samples=40)
    assert (loader.transport, loader.transport_reason) == ("shm", "")
    batch = loader.next_batch()
    assert indices(batch) == list(range(8))
    for array in batch.values():
        assert array.ctypes.data % 64 == 0 and array.flags.writeable
    batch["pix"][:] = 77
    arena = fake_shm.arenas[0]
    assert arena.memory[:].count(bytes([77]) * 24) == 1, "the service sees what the trainer wrote"


def test_grpc_can_be_asked_for(fake_shm):
    loader = fake_shm.open(loader={"transport": "grpc"})
    assert (loader.transport, loader.transport_reason) == ("grpc", "")
    assert fake_shm.door.connections == []
    assert len(list(loader)) == 3


def test_a_slot_goes_back_with_its_batch(fake_shm):
    loader = fake_shm.open(samples=800, loader={"credits": 2})
    connection = fake_shm.door.connections[0]
    loader.next_batch()
    assert eventually(lambda: connection.released == [(7, 0)])
    kept = loader.next_batch()
    for count in range(2, 20):
        loader.next_batch()
        assert eventually(lambda: len(connection.released) == count)
    assert loader.held_slots == 1
    assert indices(kept) == list(range(8, 16))


VIEWS = {
    "slice": lambda array: array[2:4],
    "view of a view": lambda array: array[1:].reshape(-1).view(np.uint8)[3:],
    "transposed": lambda array: array.T,
    "memoryview": memoryview,
    "DLPack": np.from_dlpack,
    "__dlpack__": lambda array: array.__dlpack__(),
    "__array_interface__": lambda array: np.asarray(array),
    "ctypes": lambda array: np.ctypeslib.as_ctypes(array),
    "frombuffer": lambda array: np.frombuffer(array, np.uint8),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_any_view_keeps_the_slot_and_the_last_one_gives_it_back(fake_shm, kind):
    loader = fake_shm.open(samples=8000)
    connection = fake_shm.door.connections[0]
    batch = loader.next_batch()
    view = VIEWS[kind](batch["index"])
    del batch
    for _ in range(20):
        loader.next_batch()
    assert eventually(lambda: len(connection.released) >= 20)
    assert (7, 0) not in connection.released and loader.held_slots == 1
    before = fake_shm.arenas[0].memory[:64]
    assert np.frombuffer(before, np.int64).tolist() == list(range(8))
    if kind == "slice":
        assert view.tolist() == [2, 3]
    del view
    assert eventually(lambda: (7, 0) in connection.released)


@pytest.mark.parametrize("loop", ["for", "stream"])
def test_a_loop_itself_keeps_no_batch(fake_shm, loop):
    loader = fake_shm.open(samples=80, loader={"credits": 1})
    for batch in loader if loop == "for" else loader.stream():
        del batch
        assert loader.held_slots == 0


def test_one_credit_is_enough_for_a_loop(fake_shm):
    loader = fake_shm.open(samples=80, loader={"credits": 1, "timeout": 5})
    assert sum(len(batch["index"]) for batch in loader) == 80


def test_arrays_stay_valid_and_unchanged_after_close(fake_shm):
    loader = fake_shm.open(samples=8000)
    kept = loader.next_batch()["index"]
    connection = fake_shm.door.connections[0]
    loader.close()
    assert not connection.hung_up, "the service would write the slot again"
    assert kept.tolist() == list(range(8))
    kept[:] = 5
    del kept
    assert eventually(lambda: connection.hung_up), "the last array was the last reason to stay"


def test_close_hangs_up_when_nothing_is_held(fake_shm):
    loader = fake_shm.open(samples=8000)
    loader.next_batch()
    loader.close()
    assert eventually(lambda: fake_shm.door.connections[0].hung_up)


def test_a_dropped_loader_hangs_up(fake_shm):
    target = fake_shm.open(samples=8000).target
    loader = bulkhead.Loader({"samples": 8000}, target)
    connection = fake_shm.door.connections[1]
    assert loader.next_batch() is not None
    del loader
    assert eventually(lambda: connection.hung_up)


def test_a_forked_child_leaves_the_parents_door_open_and_closes_its_own(fake_shm):
    loader = fake_shm.open(samples=8000)
    batch = loader.next_batch()
    door = loader._stream._shm.door
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            closed = door._socket.fileno() == -1
            fine = batch["index"].tolist() == list(range(8))
            del batch  # must not give the parent's slot back
            loader.close()
            os.write(writer, b"%d%d" % (closed, fine))
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"11"
    os.close(reader)
    connection = fake_shm.door.connections[0]
    assert connection.released == [] and not connection.hung_up
    loader.next_batch()
    assert eventually(lambda: len(connection.released) == 1)


def test_descriptors_are_not_inherited_and_not_leaked(fake_shm):
    def memory_files():
        names = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
        return sum("fake-arena" in os.readlink(name) for name in names if os.path.lexists(name))

    first = fake_shm.open(samples=80)
    assert not os.get_inheritable(first._stream._shm.door._socket.fileno())
    before = memory_files()
    for _ in range(5):
        with bulkhead.Loader({"samples": 80}, first.target) as loader:
            kept = loader.next_batch()["index"]
            door = loader._stream._shm.door
        del kept, loader
        assert door._socket.fileno() >= 0 and door._hung_up
    # The service, in this process as well, has each memfd twice.
    assert eventually(lambda: memory_files() <= before + 5 * 2)
    descriptor = door._socket.fileno()
    del door
    with pytest.raises(OSError):
        os.fstat(descriptor)


# A release cannot be sent at once.


def test_releases_that_do_not_fit_are_sent_later(fake_shm, monkeypatch):
    loader = fake_shm.open(samples=8000)
    door = loader._stream._shm.door
    connection = fake_shm.door.connections[0]
    real = door._socket

    class Full:
        def send(self, *_):
            raise BlockingIOError

        def __getattr__(self, name):
            return getattr(real, name)

    door._socket = Full()
    loader.next_batch()
    assert len(door._unsent) == 1 and connection.released == []
    door._socket = real
    loader.next_batch()
    assert eventually(lambda: len(connection.released) == 2) and not door._unsent


def test_a_destructor_takes_no_lock(fake_shm):
    loader = fake_shm.open(samples=8000)
    batch = loader.next_batch()
    stream = loader._stream
    done = threading.Event()

    def drop(box):
        box.clear()
        done.set()

    box = [batch]
    del batch
    with stream._changed, stream._stream._changed:
        threading.Thread(target=drop, args=(box,)).start()
        assert done.wait(10), "giving a slot back waited for a lock"


# Slots are used up.


def test_a_program_that_keeps_all_batches_is_warned_and_then_stopped(fake_shm, monkeypatch, caplog):
    monkeypatch.setattr(silence, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(exhaustion, "WARNING_SECONDS", 0.2)
    monkeypatch.setattr(exhaustion, "LIMIT_SECONDS", 0.6)
    loader = fake_shm.open(samples=800, loader={"credits": 3})
    kept = [loader.next_batch() for _ in range(3)]
    assert loader.held_slots == 3
    for _ in range(2):
        with pytest.raises(bulkhead.SlotsExhausted) as caught:
            loader.next_batch()
        assert "all 3 batches" in str(caught.value) and "array.copy()" in str(caught.value)
    error = caught.value
    assert (error.reason, error.code) == ("SLOTS_EXHAUSTED", "RESOURCE_EXHAUSTED")
    assert isinstance(error, bulkhead.ResourceExhausted)
    assert caplog.text.count("waiting for a slot") == 1
    del kept[1]
    assert indices(loader.next_batch()) == list(range(24, 32)), "the stream is intact"


def test_the_slots_of_the_plan_are_a_limit_too(fake_shm):
    loader = fake_shm.open(samples=800, slots=3, loader={"credits": 9})
    kept = [loader.next_batch(), loader.next_batch()]
    with pytest.raises(bulkhead.SlotsExhausted, match="all 2 batches"):
        loader.next_batch(timeout=0.2)
    assert [indices(batch)[0] for batch in kept] == [0, 8]


def test_credits_that_the_shared_memory_lacks_are_told_once(fake_shm, caplog):
    fake_shm.open(samples=800, slots=3, loader={"credits": 1000})
    told = "credits=1000 is more than this stream's shared memory holds: at most 2 batches wait or are held at a time"
    assert caplog.text.count(told) == 1
    fake_shm.open(samples=800, loader={"credits": 4})
    assert caplog.text.count("credits=") == 1


def test_a_slow_service_is_no_exhaustion(fake_shm):
    loader = fake_shm.open(mode="stall")
    with pytest.raises(bulkhead.DeadlineExceeded):
        loader.next_batch(timeout=0.2)


# Reconnects.


def test_the_door_stays_and_arrays_of_the_lost_stream_stay_valid(fake_shm):
    loader = fake_shm.open(samples=80, lose_after=4)
    kept = loader.next_batch()
    values = [indices(loader.next_batch())[0] for _ in range(9)]
    assert values == list(range(8, 80, 8)) and loader.reconnects == 1
    [connection] = fake_shm.door.connections
    assert indices(kept) == list(range(8))
    assert [arena.arena_id for arena in fake_shm.arenas] == [7, 8]
    assert 0 in connection.retired[7]  # and what had arrived, but was not handed out yet
    assert eventually(lambda: fake_shm.arenas[0].out == [0])
    del kept
    assert eventually(lambda: fake_shm.arenas[0].out == [])
    assert (7, 0) == connection.released[-1]


def test_a_new_door_after_the_old_one_hung_up(fake_shm):
    loader = fake_shm.open(samples=80, lose_after=4)
    kept = loader.next_batch()
    fake_shm.door.connections[0].sock.shutdown(socket.SHUT_RDWR)
    assert [indices(loader.next_batch())[0] for _ in range(9)] == list(range(8, 80, 8))
    assert len(fake_shm.door.connections) == 2 and loader.transport == "shm"
    assert indices(kept) == list(range(8))


def test_a_door_that_comes_up_a_moment_later_is_found(fake_shm, monkeypatch):
    loader = fake_shm.open(samples=80, lose_after=4)
    real, looked = SharedMemory.open, []

    def too_early_once(self, patience, closed):
        looked.append(True)
        if len(looked) > 1:
            return real(self, patience, closed)
        self.door.close()
        self.door, self.reason = None, "nobody listens yet"
        return None

    monkeypatch.setattr(SharedMemory, "open", too_early_once)
    assert [indices(loader.next_batch())[0] for _ in range(10)] == list(range(0, 80, 8))
    assert (loader.transport, loader.transport_reason, loader.reconnects) == ("shm", "", 1)


def test_batches_that_were_announced_are_released_when_the_loader_is_closed(fake_shm):
    loader = fake_shm.open(samples=8000, loader={"credits": 4})
    arena = fake_shm.arenas[0]
    kept = loader.next_batch()
    assert eventually(lambda: len(arena.out) == 4)
    connection = fake_shm.door.connections[0]
    loader.close()
    assert eventually(lambda: len(arena.out) == 1), "one is kept"
    assert not connection.hung_up
    assert indices(kept) == list(range(8))


def test_an_error_that_is_kept_keeps_no_slot(fake_shm):
    loader = fake_shm.open(mode="data_error", at=2)
    caught = []
    while not caught:
        try:
            batch = loader.next_batch()
        except bulkhead.DataError as error:
            caught.append(error)
    del batch
    assert loader.held_slots == 0


# It cannot be.


def test_auto_falls_back_and_says_why(fake_grpc, caplog):
    with caplog.at_level(logging.INFO, "bulkhead"):
        loader = fake_grpc.open()
    assert loader.transport == "grpc" and "no arena door at" in loader.transport_reason
    assert "No such file" in loader.transport_reason and loader.transport_reason in caplog.text
    assert len(list(loader)) == 3


def test_the_services_own_reason_is_kept(fake_shm):
    loader = fake_shm.open(why="the budget is used up")
    assert (loader.transport, loader.transport_reason) == ("grpc", "the budget is used up")


def test_tcp_has_no_shared_memory_without_a_receiver(monkeypatch):
    monkeypatch.setenv("BULKHEAD_SERVER", "/none")
    _, server, port = fake_bulkheadd.serve("127.0.0.1:0")
    with bulkhead.Loader({}, f"127.0.0.1:{port}") as loader:
        assert loader.transport == "grpc" and "not a Unix socket" in loader.transport_reason
    with pytest.raises(bulkhead.TransportUnavailable, match="not a Unix socket"):
        bulkhead.Loader({}, f"127.0.0.1:{port}", transport="shm")
    server.stop(None).wait(30)


def test_demanded_and_impossible_is_a_typed_error(fake_grpc):
    with pytest.raises(bulkhead.TransportUnavailable) as caught:
        fake_grpc.open(loader={"transport": "shm"})
    assert caught.value.reason == "TRANSPORT_UNAVAILABLE"
    assert caught.value.code == "FAILED_PRECONDITION"


def test_demanded_and_refused_by_the_service_is_the_same_error(fake_shm):
    with pytest.raises(bulkhead.TransportUnavailable, match="no shared memory today"):
        fake_shm.open(why="x", loader={"transport": "shm"})


def test_another_word_than_the_three_is_refused(fake_shm):
    with pytest.raises(bulkhead.InvalidArgument, match="auto, shm, grpc"):
        fake_shm.open(loader={"transport": "rdma"})


@pytest.mark.parametrize(
    "kind", "unsealed small other_id unaligned narrow no_descriptor two_descriptors".split()
)
def test_an_arena_that_is_not_believed_means_grpc(fake_shm, kind, monkeypatch):
    monkeypatch.setattr(transport, "_GRANT_SECONDS", 0.3)
    before = len(os.listdir("/proc/self/fd"))
    loader = fake_shm.open(arena=kind, samples=80)
    assert loader.transport == "grpc"
    assert "arena" in loader.transport_reason
    assert sum(len(batch["index"]) for batch in loader) == 80
    with pytest.raises(bulkhead.TransportUnavailable):
        fake_shm.open(arena=kind, loader={"transport": "shm"})
    loader.close()
    assert len(os.listdir("/proc/self/fd")) < before + 30


def test_a_grant_of_a_stream_that_broke_is_passed_over(fake_shm):
    assert fake_shm.open(arena="stale").transport == "shm"


def test_a_door_that_does_not_welcome_costs_a_moment_only(tmp_path, monkeypatch):
    monkeypatch.setattr(door_module, "WELCOME_SECONDS", 0.2)
    service, server, _ = fake_bulkheadd.serve(f"unix:{tmp_path}/s.sock", door=True, welcome=False)
    with bulkhead.Loader(json.dumps({}), f"unix:{tmp_path}/s.sock") as loader:
        assert loader.transport == "grpc" and "did not answer" in loader.transport_reason
        assert len(list(loader)) == 3
    service.door.close()
    server.stop(None).wait(30)


@pytest.mark.parametrize("nonsense", [b"\xff\xff\xff", b"", b"\x0a\x00", b"x" * 9000])
def test_a_door_that_talks_nonsense_is_none(fake_grpc, tmp_path, nonsense):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{tmp_path}/s.sock.arena")
    listener.listen()

    def serve():
        sock, _ = listener.accept()
        with sock:
            sock.send(nonsense)

    threading.Thread(target=serve, daemon=True).start()
    loader = fake_grpc.open()
    assert loader.transport == "grpc" and "arena door" in loader.transport_reason
    listener.close()


def test_a_mapping_outlives_everything(fake_shm):
    loader = fake_shm.open(samples=80)
    kept = loader.next_batch()["index"][3:]
    address = kept.ctypes.data
    loader.close()
    fake_shm.opens.clear()
    os.close(fake_shm.arenas[0].descriptor)
    fake_shm.arenas.clear()
    del loader
    gc.collect()
    assert ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))[0] == 3
    assert kept.tolist() == [3, 4, 5, 6, 7]
