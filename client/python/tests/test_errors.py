import pickle
import signal
import socket
import threading
import time

import grpc
import pytest

import bulkhead
from bulkhead import errors
from bulkhead._service import endpoint
from bulkhead._stream import healing as healing_module


def drain(loader):
    while loader.next_batch() is not None:
        pass


def test_a_spec_error_is_typed(fake):
    with pytest.raises(bulkhead.SpecError) as caught:
        fake.open(mode="spec_error")
    assert caught.value.reason == "SPEC_INVALID"
    assert caught.value.metadata == {"line": "3"}
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "x.yaml:3:5" in str(caught.value)


def test_a_data_error_comes_after_the_good_batches_and_stays(fake):
    loader = fake.open(mode="data_error")
    assert loader.next_batch().sequence == 0
    for _ in range(2):
        with pytest.raises(bulkhead.DataError) as caught:
            loader.next_batch()
        assert (caught.value.file, caught.value.offset) == ("a.tfrecord", 77)


@pytest.mark.parametrize(
    "kind",
    "schema early twice no_header bytes offset outside overlap gap excess short cut sequence count "
    "payload credit".split(),
)
def test_what_the_protocol_forbids_is_an_error_not_a_crash(fake_grpc, kind):
    refuses(fake_grpc, kind)


@pytest.mark.parametrize(
    "kind", "schema early twice sequence count credit slot slot_held slot_arena slot_part".split()
)
def test_what_the_protocol_forbids_over_shared_memory_too(fake_shm, kind):
    refuses(fake_shm, kind)


def refuses(fake, kind):
    with pytest.raises(bulkhead.ProtocolError) as caught:
        loader = fake.open(mode="bad:" + kind, samples=200, batch=8)
        # It must meet the fault before any batch is taken where credits are the point.
        if kind in ("credit", "slot_held"):
            stream, until = loader._stream._stream, time.monotonic() + 10
            while not stream._ended and time.monotonic() < until:
                assert stream.ready_batches <= 5  # looks at the door
                time.sleep(0.01)
        drain(loader)
    assert caught.value.reason == "PROTOCOL_VIOLATION"


BATCH_BYTES = 8 * (8 + 3)  # of the fake, which counts batches only


def test_more_bytes_than_the_credit_are_refused(fake_grpc):
    credit = {"credits": 4, "credit_bytes": 3 * BATCH_BYTES}
    loader = fake_grpc.open(samples=200, batch=8, loader=credit)
    stream = loader._stream._stream
    with stream._changed:  # before any is taken
        assert stream._changed.wait_for(lambda: stream._ended, 10)
    with pytest.raises(bulkhead.ProtocolError, match="more than the 264 bytes of credit"):
        drain(loader)


@pytest.mark.parametrize("credits,credit_bytes", [(3, 3 * BATCH_BYTES), (1, 1)])
def test_bytes_within_the_credit_are_not(fake_grpc, credits, credit_bytes):
    credit = {"credits": credits, "credit_bytes": credit_bytes}
    assert len(list(fake_grpc.open(samples=200, batch=8, loader=credit))) == 25


def test_a_stream_that_ends_unopened_is_an_error(fake):
    with pytest.raises(bulkhead.ProtocolError):
        fake.open(mode="plain_ok")


def test_silence_while_opening_meets_the_deadline(fake):
    with pytest.raises(bulkhead.DeadlineExceeded, match="0.3 s while opening"):
        fake.open(mode="silent", loader={"timeout": 0.3})


def test_silence_instead_of_a_batch_meets_the_deadline_and_may_be_waited_for_again(fake):
    loader = fake.open(mode="stall")
    for _ in range(2):
        with pytest.raises(TimeoutError, match="no batch came .* within 0.2 s"):
            loader.next_batch(timeout=0.2)


def test_nobody_at_the_target(tmp_path):
    with pytest.raises(bulkhead.ServiceUnavailable) as caught:
        bulkhead.Loader({}, f"unix:{tmp_path}/nobody.sock", timeout=10)
    assert caught.value.metadata["target"].endswith("nobody.sock")
    assert str(caught.value).endswith("check that bulkheadd runs there, then go on from the last cursor")
    with pytest.raises(bulkhead.ServiceUnavailable) as caught:
        bulkhead.service_status(f"unix:{tmp_path}/nobody.sock")
    assert str(caught.value).endswith("check that bulkheadd runs there")  # there is no stream to go on with
    with pytest.raises(ConnectionError):
        bulkhead.Loader({}, "127.0.0.1:1", timeout=10)


@pytest.mark.parametrize(
    "target",
    ["", "name", "h:99999", "h:0", "h:port", "http://h:1", "a b:1", ":1", "unix:", 5, b"unix:/x"],
)
def test_a_target_that_is_no_address_is_refused_at_once(target):
    for use in (lambda: bulkhead.Loader({}, target), lambda: bulkhead.service_status(target)):
        with pytest.raises(bulkhead.InvalidArgument, match="target is .host:port., .unix:/path. or a target file"):
            use()


@pytest.mark.parametrize("target", ["h:1", "[::1]:65535", "unix:rel", "dns:///h:1", "10.0.0.1:80"])
def test_addresses_of_every_kind_are_taken(target):
    endpoint.check_target(target)


def test_a_target_that_never_answers_meets_the_deadline():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(bulkhead.DeadlineExceeded):
            bulkhead.Loader({}, f"127.0.0.1:{mute.getsockname()[1]}", timeout=0.5)


@pytest.mark.parametrize("patience", [0, 0.5])
def test_a_service_that_ends_is_unavailable_within_the_deadline(fake, caplog, patience):
    loader = fake.open(samples=10**6, batch=8, loader={"reconnect_timeout": patience})
    loader.next_batch()
    fake.server.stop(None).wait(30)
    started = time.monotonic()
    with pytest.raises(bulkhead.ServiceUnavailable) as raised:
        drain(loader)
    assert time.monotonic() - started < 10
    # Who reads the log of a loader that heals has nothing to do; who reads the error has.
    said = str(raised.value)
    assert said.endswith("; check that bulkheadd runs there, then go on from the last cursor") and said.count("cursor") == 1
    assert "cursor" not in caplog.text
    assert ("the loader connects again by itself and goes on where it was: the service at" in caplog.text) == (patience > 0)


def test_close_while_reconnecting_leaves_no_thread(fake):
    loader = fake.open(samples=10**6, batch=8)
    fake.server.stop(None).wait(30)
    with pytest.raises(bulkhead.DeadlineExceeded, match="is being reconnected"):
        while True:
            loader.next_batch(timeout=0.5)
    assert any(thread.name == "bulkhead-reconnect" for thread in threading.enumerate())
    loader.close()
    mine = [t for t in threading.enumerate() if t.name.startswith("bulkhead-")]
    for thread in mine:
        if thread.name != "bulkhead-reaper":  # the one that serves all loaders of the process
            thread.join(60)  # it may be at its last words
            assert not thread.is_alive(), thread.name
    with pytest.raises(bulkhead.LoaderClosed):
        loader.next_batch()


def test_a_wait_for_a_lost_service_can_be_interrupted(fake):
    loader = fake.open(samples=10**6, batch=8)
    fake.server.stop(None).wait(30)
    main = threading.main_thread().ident
    reconnecting = threading.Event()

    def interrupt():
        while not any(thread.name == "bulkhead-reconnect" for thread in threading.enumerate()):
            reconnecting.wait(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        # In here, since the loss may have been noticed already.
        threading.Thread(target=interrupt).start()
        while True:
            loader.next_batch(timeout=30)


def test_closing_on_the_reconnecting_thread_itself_closes_everything(fake):
    loader = fake.open(samples=10**6)
    healing = loader._stream
    done = []

    def close():
        healing.close()
        done.append(True)

    healing._healer = threading.Thread(target=close)
    healing._healer.start()
    healing._healer.join()
    assert done and healing not in healing_module.open_streams


class Lost(grpc.RpcError):
    def __init__(self, code=grpc.StatusCode.UNAVAILABLE, details="gone"):
        self.code = lambda: code
        self.details = lambda: details

    def trailing_metadata(self):
        return ()


def test_a_call_that_a_service_with_full_memory_ended_is_made_again():
    full = grpc.StatusCode.RESOURCE_EXHAUSTED
    assert errors.from_rpc(Lost(full, "Received RST_STREAM with error code 11"), "unix:/x").reason == "SERVICE_UNAVAILABLE"
    too_long = errors.from_rpc(Lost(full, "Received message larger than max (9 vs. 8)"), "unix:/x")
    assert too_long.reason == "RESOURCE_EXHAUSTED"


def test_a_lost_service_of_ones_own_is_not_to_be_looked_for():
    assert "check that bulkheadd runs there" in str(errors.from_rpc(Lost(), "unix:/x").again()._final())
    own = str(errors.from_rpc(Lost(), "unix:/x", True)._final())
    assert "check that" not in own and "the next loader starts another" in own


def test_a_reader_that_fails_to_explain_ends_the_stream_all_the_same(fake, monkeypatch):
    monkeypatch.setattr(errors, "from_rpc", lambda *_: 1 / 0)
    loader = fake.open(mode="data_error")
    with pytest.raises(bulkhead.BulkheadError, match="reader failed: ZeroDivisionError"):
        drain(loader)


def test_a_long_message_beyond_ascii_arrives_whole(fake):
    with pytest.raises(bulkhead.BulkheadError) as caught:
        fake.open(mode="long_error")  # 4,000 bytes, percent-encoded 12,000
    assert "Ж" * 2000 in str(caught.value) and caught.value.code == "NOT_FOUND"


def test_bad_arguments_are_refused_before_anything_starts(fake_program):
    with pytest.raises(bulkhead.InvalidArgument, match="rank 1 is not below world_size 1; give world_size= too"):
        bulkhead.Loader({}, rank=1)
    for options in ({"rank": 2}, {"world_size": 0}, {"credits": 0}, {"timeout": 0}, {"reconnect_timeout": -1},
                    {"credit_bytes": -1}, {"credits": 1 << 32}, {"transport": "tcp"}):
        with pytest.raises(bulkhead.InvalidArgument):
            bulkhead.Loader({}, **options)


def test_a_missing_spec_file_is_named(tmp_path):
    with pytest.raises(bulkhead.DataError) as caught:
        bulkhead.Loader(str(tmp_path / "no.yaml"), "unix:/nowhere")
    assert caught.value.reason == "FILE_NOT_FOUND"
    assert caught.value.file == str(tmp_path / "no.yaml")


def test_errors_survive_pickling():
    error = bulkhead.DataError("m", "CORRUPT_RECORD", {"file": "f"}, "DATA_LOSS")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.reason, again.file, again.code, str(again)) == (
        bulkhead.DataError,
        "CORRUPT_RECORD",
        "f",
        "DATA_LOSS",
        "m",
    )
