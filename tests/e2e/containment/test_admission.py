"""What a full memory budget still admits, and what streams that nobody reads give up to others."""

import contextlib
import queue
import sys
import threading
import time

import grpc
import pytest
from conftest import AUGMENTED, HERE, Service, wait_until, write_spec

import bulkhead
from bulkhead._rpc import proto

sys.path.insert(0, str(HERE.parent / "chaos"))
from proxy import Proxy  # noqa: E402

MIB = 1 << 20
PATIENCE = 120


def status(service):
    return bulkhead.service_status(service.target)


def all_slots_are_out(service):
    return all(stream["arena"]["slots_sending"] == 4 for stream in status(service)["streams"])


@contextlib.contextmanager
def running(folder, *options):
    service = Service(folder, *options)
    try:
        yield service
    finally:
        assert service.stop() == 0


def list_spec(folder, photos, **more):
    """Lists are indexed at every opening."""
    entries = [f"{path},0" for path in sorted((photos / "folder").rglob("*.jpg"))]
    (folder / "list.txt").write_text("\n".join(entries) + "\n")
    source = {"image_list": {"path": str(folder / "list.txt"), "delimiter": "comma"}}
    return write_spec(folder / "spec.json", source=source, stages=AUGMENTED, batch={"size": 8}, **more)


def full_service(folder):
    """Eight workers are wanted and three fit, so that what is left holds no index worker."""
    return running(folder, "--root", "/", "--workers", 8, "--worker-quota", "256MiB", "--memory-budget", "1300MiB")


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_another_rank_and_another_epoch_are_admitted_by_a_full_budget(folder, photos, transport):
    spec = list_spec(folder, photos)
    with full_service(folder) as service:
        with bulkhead.Loader(spec, service.target, name="a", world_size=2, transport=transport) as first:
            batch = first.next_batch(timeout=PATIENCE)
            assert 2 <= len(status(service)["workers"]) < 8
            with bulkhead.Loader(
                spec, service.target, name="a", rank=1, world_size=2, transport=transport
            ) as second:
                second.next_batch(timeout=PATIENCE)
                second.set_epoch(3)
                assert second.next_batch(timeout=PATIENCE).epoch == 3
            first.set_epoch(2)
            assert first.next_batch(timeout=PATIENCE).epoch == 2
            assert batch["image"].shape[0] == 8  # held all the time


def test_a_rank_whose_connection_was_cut_comes_back_into_a_full_budget(folder, photos):
    spec = list_spec(folder, photos)
    with full_service(folder) as service:
        proxy = Proxy(folder / "proxy.sock", folder / "s.sock")
        try:
            with bulkhead.Loader(spec, f"unix:{proxy.path}", name="cut", world_size=2) as loader, bulkhead.Loader(
                spec, service.target, name="cut", rank=1, world_size=2
            ) as other:
                for _ in range(4):
                    loader.next_batch(timeout=PATIENCE)
                    other.next_batch(timeout=PATIENCE)
                proxy.cut()
                # Batches that were under way may have arrived.
                deadline = time.monotonic() + PATIENCE
                while loader.stats.reconnects == 0 and time.monotonic() < deadline:
                    loader.next_batch(timeout=PATIENCE)
                loader.next_batch(timeout=PATIENCE)
                assert loader.stats.reconnects == 1
        finally:
            proxy.close()


def big_spec(folder, photos, name="spec.json", **more):
    """Five slots of 48 MiB, of records whose index is kept."""
    source = {"tfrecord": {"files": str(photos / "records-*.tfrecord")}}
    features = {"image": {"bytes": {}}}
    stages = ["decode_image", {"resize": {"size": [512, 512]}}, {"normalize": {"divide": 255}}]
    return write_spec(folder / name, source=source, features=features, stages=stages, batch={"size": 16}, **more)


def test_a_half_open_connection_leaves_its_place_to_its_successor(folder, photos):
    spec = big_spec(folder, photos)
    # Supervisor, two workers with the one for replacements, one arena.
    budget = 48 + 3 * 128 + 5 * 48 + 20
    with running(
        folder, "--root", "/", "--workers", 2, "--worker-quota", "128MiB", "--memory-budget", f"{budget}MiB"
    ):
        proxy = Proxy(folder / "proxy.sock", folder / "s.sock")
        try:
            with bulkhead.Loader(
                spec, f"unix:{proxy.path}", name="open", reconnect_timeout=25, transport="grpc"
            ) as loader:
                loader.next_batch(timeout=PATIENCE)
                proxy.stall()  # what is connected now; new connections go through
                for _ in range(8):
                    loader.next_batch(timeout=PATIENCE)
                assert loader.stats.reconnects == 1
        finally:
            proxy.close()


# Streams that nobody reads.


def numbers(folder, seed, **more):
    """Another pipeline for each seed, in small batches without end."""
    stages = [{"one_hot": {"input": "index", "classes": 1000 + seed}}]
    return write_spec(
        folder / f"numbers-{seed}.json", source={"range": {"size": 1000}}, stages=stages, batch={"size": 10}, **more
    )


def crowd(folder, timeout):
    """Holds two pipelines of one worker."""
    return running(
        folder, "--workers", 1, "--worker-quota", "64MiB", "--memory-budget", f"{48 + 64 + 2 * 64 + 32}MiB",
        "--idle-timeout", timeout,
    )  # fmt: skip


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_streams_that_nobody_reads_give_up_their_workers_and_get_them_back(folder, transport):
    with crowd(folder, 0.1) as service, contextlib.ExitStack() as stack:

        def load(seed):
            loader = bulkhead.Loader(numbers(folder, seed), service.target, transport=transport)
            return stack.enter_context(loader)

        unread = [load(seed) for seed in range(2)]
        wait_until(lambda: all_slots_are_out(service))
        newcomer = load(2)
        newcomer.next_batch(timeout=PATIENCE)
        idle = [stream for stream in status(service)["streams"] if stream.get("idle")]
        assert len(idle) == 1
        newcomer.close()
        for loader in unread:
            seen = [int(label) for _ in range(30) for label in loader.next_batch(timeout=PATIENCE)["index"].argmax(1)]
            assert seen == list(range(300))
        assert not any(stream.get("idle") for stream in status(service)["streams"])


def test_a_client_is_told_that_its_workers_serve_others(folder):
    with crowd(folder, 0.1) as service, contextlib.ExitStack() as stack:
        request = proto.Open(name="raw", world_size=1, transport=proto.TRANSPORT_GRPC)
        request.spec.text.text = numbers(folder, 0).read_text()
        channel = stack.enter_context(grpc.insecure_channel(service.target))
        open_stream = channel.stream_stream(
            "/bulkhead.v1.Loader/Stream",
            request_serializer=proto.StreamRequest.SerializeToString,
            response_deserializer=proto.StreamResponse.FromString,
        )
        requests = queue.SimpleQueue()
        requests.put(proto.StreamRequest(open=request))
        call = open_stream(iter(requests.get, None))
        stack.callback(call.cancel)
        idle = (message.heartbeat.idle for message in call if message.HasField("heartbeat"))
        wait_until(lambda: len(status(service)["streams"]) == 1 and all_slots_are_out(service))
        assert not next(idle)
        for seed in (1, 2):
            newcomer = bulkhead.Loader(numbers(folder, seed), service.target)
            stack.enter_context(newcomer).next_batch(timeout=PATIENCE)
        while not next(idle):
            pass


def test_a_paused_trainer_keeps_its_place_while_nobody_waits(folder):
    with crowd(folder, 0.1) as service:
        with bulkhead.Loader(numbers(folder, 0), service.target) as paused:
            paused.next_batch(timeout=PATIENCE)
            with bulkhead.Loader(numbers(folder, 1), service.target) as busy:
                for _ in range(50):  # there is room for both
                    busy.next_batch(timeout=PATIENCE)
                [first, second] = sorted(status(service)["streams"], key=lambda stream: stream["opened"])
                assert not first.get("idle") and not second.get("idle")
            for _ in range(50):
                paused.next_batch(timeout=PATIENCE)
            assert paused.stats.reconnects == 0


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_places_of_streams_that_nobody_reads_are_given_up_and_taken_again(folder, photos, transport):
    """Three arenas of one pipeline, of which the budget holds two."""
    spec = big_spec(folder, photos)
    budget = 48 + 2 * 128 + 2 * 5 * 48 + 20
    with running(
        folder, "--root", "/", "--workers", 1, "--worker-quota", "128MiB", "--memory-budget", f"{budget}MiB",
        "--idle-timeout", 1,
    ) as service, contextlib.ExitStack() as stack:  # fmt: skip

        def load(name):
            return stack.enter_context(bulkhead.Loader(spec, service.target, name=name, transport=transport))

        unread = load("unread")
        busy = load("busy")
        first = unread.next_batch(timeout=PATIENCE)
        wait_until(lambda: all_slots_are_out(service))
        done = threading.Event()

        def read():
            with contextlib.suppress(bulkhead.LoaderClosed):
                while not done.is_set():
                    busy.next_batch(timeout=PATIENCE)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            newcomer = load("newcomer")
            newcomer.next_batch(timeout=PATIENCE)
            slots = {stream["name"]: stream["arena"]["slots"] for stream in status(service)["streams"]}
            # In shared memory the trainer keeps the batch that it holds, and gives back what it has not read: three slots
            # or four, as soon as they are there.
            assert slots.keys() == {"busy", "newcomer"} and slots["busy"] == 5
            assert slots["newcomer"] in ([5] if transport == "grpc" else [3, 4])
            assert busy.stats.reconnects == 0
            newcomer.close()
            positions = [first.positions[0]]
            for _ in range(8):
                positions.append(unread.next_batch(timeout=PATIENCE).positions[0])
            assert positions == list(range(0, 16 * 9, 16))
            assert unread.stats.reconnects == 1
        finally:
            done.set()
            reader.join()


# Places for calls, of which there are 256.


@contextlib.contextmanager
def unread_streams(service, spec, count):
    """Streams that are open, with batches that wait for somebody to take them."""
    stop = threading.Event()

    def requests(number):
        opening = proto.Open(name=f"unread-{number}", world_size=1, transport=proto.TRANSPORT_GRPC)
        opening.spec.text.text = spec.read_text()
        opening.credits.batches = 1
        yield proto.StreamRequest(open=opening)
        stop.wait()  # nothing is released

    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    with grpc.insecure_channel(service.target, options=options) as channel:
        open_stream = channel.stream_stream(
            "/bulkhead.v1.Loader/Stream",
            request_serializer=proto.StreamRequest.SerializeToString,
            response_deserializer=proto.StreamResponse.FromString,
        )
        calls = [open_stream(requests(number)) for number in range(count)]
        try:
            for call in calls:
                while not next(call).HasField("opened"):
                    pass
            yield calls
        finally:
            stop.set()
            for call in calls:
                call.cancel()


def test_calls_that_nobody_reads_give_their_places_to_newcomers(folder):
    spec = write_spec(folder / "numbers.json", source={"range": {"size": 1000}}, batch={"size": 10})
    with running(
        folder, "--workers", 1, "--worker-quota", "64MiB", "--idle-timeout", 1, "--open-rate", 0
    ) as service, contextlib.ExitStack() as stack:  # fmt: skip
        # The longest unread one is a trainer's.
        paused = stack.enter_context(bulkhead.Loader(spec, service.target, name="paused"))
        wait_until(lambda: all_slots_are_out(service))
        busy = stack.enter_context(bulkhead.Loader(spec, service.target, name="busy"))
        batches = busy.stream()
        calls = stack.enter_context(unread_streams(service, spec, 126))  # a process has 128 places
        for name in ("newcomer", "another"):
            wait_until(lambda: next(batches) is not None and is_admitted(stack, spec, service, name))
        assert busy.stats.reconnects == 0
        assert sum(call.done() and call.code() == grpc.StatusCode.UNAVAILABLE for call in calls) <= 1
        seen = [int(number) for _ in range(30) for number in paused.next_batch(timeout=PATIENCE)["index"]]
        assert seen == list(range(300)) and paused.stats.reconnects == 1


def is_admitted(stack, spec, service, name):
    try:
        loader = bulkhead.Loader(spec, service.target, name=name)
    except bulkhead.BulkheadError as refusal:
        assert refusal.reason == "TOO_MANY_CALLS", "until one is unread for long enough"
        return False
    stack.enter_context(loader).next_batch(timeout=PATIENCE)
    return True
