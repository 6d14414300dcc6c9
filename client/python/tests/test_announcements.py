"""Slots and events that come through the arena door: their order, and that none is lost."""

import errno
import logging
import socket
import threading
from concurrent import futures

import pytest

import bulkhead
from bulkhead._arena import announcements, door as door_module
from bulkhead._rpc import proto
from bulkhead._stream import stream as stream_module
from conftest import eventually, indices


def cursors(loader):
    return [batch.cursor["quarantined"] for batch in loader]


@pytest.mark.parametrize("more", [{}, {"full_at": 4}, {"full_at": 0}, {"no_announcing": True}])
def test_slots_come_in_order_whichever_way(fake_shm, more):
    loader = fake_shm.open(samples=80, **more)
    assert (loader._stream._stream._announcements is not None) == ("no_announcing" not in more)
    assert [indices(batch)[0] for batch in loader] == list(range(0, 80, 8))


@pytest.mark.parametrize("more", [{}, {"no_announcing": True}])
def test_an_event_comes_before_the_batch_behind_it(fake_shm, more):
    loader = fake_shm.open(samples=24, mode="quarantine:z@1", **more)
    assert cursors(loader) == [['a"b'], ['a"b', "z@1"], ['a"b', "z@1"]]


def test_what_was_announced_before_the_stream_is_open_is_kept(fake_shm, monkeypatch):
    listen = door_module.Door.listen

    def late(door, listener):
        assert eventually(lambda: door.pump() or len(door._early) == 4)  # three batches and the event
        listen(door, listener)

    monkeypatch.setattr(door_module.Door, "listen", late)
    loader = fake_shm.open(samples=24, mode="quarantine:z@1")
    assert cursors(loader) == [['a"b'], ['a"b', "z@1"], ['a"b', "z@1"]]


def test_what_was_announced_before_the_stream_ended_is_delivered(fake_shm):
    loader = fake_shm.open(samples=24)
    assert eventually(lambda: loader._stream._stream._ended)  # it reads the door empty
    assert [indices(batch)[0] for batch in loader] == [0, 8, 16]


def test_stats_count_what_lies_at_the_door(fake_shm):
    loader = fake_shm.open(samples=800)
    assert eventually(lambda: loader.stats.ready_batches == 4)
    assert [indices(batch)[0] for batch in loader] == list(range(0, 800, 8))


def test_an_interrupt_while_the_door_is_read_costs_no_batch(fake_shm, monkeypatch):
    receive, calls = door_module.Door._receive_now, []

    def interrupted(door):
        received = receive(door)
        calls.append(received is not None and threading.current_thread() is threading.main_thread())
        if calls.count(True) == 3 and calls[-1]:
            raise KeyboardInterrupt  # the packet is lost
        return received

    loader = fake_shm.open(samples=160)
    monkeypatch.setattr(door_module.Door, "_receive_now", interrupted)
    came = []
    with pytest.raises(KeyboardInterrupt):
        for batch in loader:
            came.append(indices(batch)[0])
    del batch
    came += [indices(batch)[0] for batch in loader]
    assert came == list(range(0, 160, 8)) and loader.reconnects == 1


def test_a_packet_that_is_none_ends_the_stream_with_an_error(fake_shm):
    loader = fake_shm.open(samples=80, mode="bad:packet")
    with pytest.raises(bulkhead.ProtocolError, match="is malformed"):
        for _ in loader:
            pass


def test_an_interrupt_at_the_streams_very_end_costs_no_batch(fake_shm, monkeypatch):
    on_slot, stop_listening = stream_module.Stream._on_slot, door_module.Door.stop_listening
    reading, waiting = threading.Event(), threading.Event()

    def interrupted(stream, message):
        if message.header.sequence != 2 or reading.is_set():
            return on_slot(stream, message)
        reading.set()
        assert waiting.wait(10)  # the other thread, for its turn at the door
        raise KeyboardInterrupt

    def after_that(door, arena_id):
        reading.wait(10)
        waiting.set()
        stop_listening(door, arena_id)

    monkeypatch.setattr(stream_module.Stream, "_on_slot", interrupted)
    monkeypatch.setattr(door_module.Door, "stop_listening", after_that)
    loader = fake_shm.open(samples=24)
    came = [indices(loader.next_batch())[0] for _ in range(2)]
    with pytest.raises(KeyboardInterrupt):
        loader.next_batch()
    assert came + [indices(batch)[0] for batch in loader] == [0, 8, 16]


def test_a_log_handler_may_ask_for_stats(fake_shm, monkeypatch):
    class Asking(logging.Handler):
        def emit(self, record):
            asked.append(loader.stats.ready_batches)

    on_slot = stream_module.Stream._on_slot

    def telling(stream, message):
        if message.header.sequence == 20:
            stream_module._log.warning("as of a substituted sample")
        on_slot(stream, message)

    monkeypatch.setattr(stream_module.Stream, "_on_slot", telling)
    asked, handler = [], Asking()
    logging.getLogger("bulkhead").addHandler(handler)
    try:
        loader = fake_shm.open(samples=800)
        assert len(cursors(loader)) == 100 and len(asked) == 1
    finally:
        logging.getLogger("bulkhead").removeHandler(handler)


def test_what_lies_behind_a_reset_is_read(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    door = door_module.Door.__new__(door_module.Door)
    door._socket, door.path, door._grants = ours, "x", {}
    theirs.send(proto.ArenaServerMessage(slot={"arena_id": 7}).SerializeToString())
    ours.send(b"a release that nobody reads")
    theirs.close()
    packet, _ = door._receive_now()
    assert packet.slot.arena_id == 7
    with pytest.raises(door_module.DoorClosed):
        door._receive_now()


def test_a_service_lost_right_behind_its_grant_is_a_loss(fake_shm, monkeypatch):
    receive, lost = door_module.Door.receive_grant, []

    def hangs_up(door, *arguments):
        if not lost:
            lost.append(True)
            for connection in fake_shm.door.connections:
                connection.sock.shutdown(socket.SHUT_RDWR)
            raise door_module.DoorClosed("gone")
        return receive(door, *arguments)

    monkeypatch.setattr(door_module.Door, "receive_grant", hangs_up)
    loader = fake_shm.open(samples=24)
    assert (loader.transport, loader.reconnects) == ("shm", 1)
    assert [indices(batch)[0] for batch in loader] == [0, 8, 16]


def test_a_process_that_may_open_no_more_files_is_told_so(fake_shm, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(announcements, "Wake", refuse)
    with pytest.raises(bulkhead.BulkheadError, match="Too many open files") as caught:
        fake_shm.open()
    assert caught.value.reason == "RESOURCE_EXHAUSTED"


def test_threads_that_wait_for_batches_share_them(fake_shm):
    loader = fake_shm.open(samples=4000, batch=8)

    def take(_):
        return [int(value) for batch in iter(loader.next_batch, None) for value in batch["index"]]

    with futures.ThreadPoolExecutor(2) as threads:
        one, other = threads.map(take, range(2))
    assert sorted(one + other) == list(range(4000))
