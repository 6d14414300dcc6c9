"""A service on another host, whose batches bulkhead-receive puts into shared memory: as if there were no such process."""

import hashlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from certificates import Authority
from conftest import AUGMENTED, BIN, HERE, write_spec
from receiving import PROGRAM, programs, receivers, serve  # noqa: F401  (programs and serve are fixtures)
from replicas import history, history_of, range_spec, targets

import bulkhead
from bulkhead import errors
from bulkhead._arena import door
from bulkhead._arena.door import Door
from bulkhead._service import receiver
from bulkhead._service.receiver import Receiver
from bulkhead._stream import silence
from bulkhead._stream.shared_memory import SharedMemory


def photos_spec(folder, photos):
    return write_spec(
        folder / "photos.yaml", source={"image_folder": {"path": str(photos / "folder")}}, stages=AUGMENTED,
        batch={"size": 32}, order={"global": {}}, seed=5, epochs=2,
    )


def opened(spec, service, **options):
    loader = bulkhead.Loader(spec, service.target, timeout=60, **options)
    assert loader.transport == "shm" and f"{PROGRAM} (pid {receivers()[0]})" in loader.transport_reason
    return loader


def digest(arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


# Bytes and identity.


def test_photos_have_the_bytes_of_grpc(folder, photos, serve):
    service = serve("--root", photos)
    spec = photos_spec(folder, photos)
    with opened(spec, service) as loader:
        received = [history_of(batch) for batch in loader.stream()]
    assert received == history(spec, service.target, transport="grpc") == history(spec, None)
    assert not receivers(), "it ends with its loader"


def test_shared_memory_may_be_demanded(folder, serve):
    with opened(range_spec(folder), serve(), transport="shm") as loader:
        assert loader.next_batch().sequence == 0


def test_certificates_and_tokens(folder, serve):
    authority = Authority(folder / "authority")
    (pem, key), (own, own_key) = authority.issue("server"), authority.issue("job", "DNS:job")
    token = folder / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    access = ("--tls-cert", str(pem), "--tls-key", str(key), "--tls-client-ca", str(authority.pem), "--allow-stream", "job",
              "--token-instead-of-certificate", str(token))  # fmt: skip
    service = serve(access=access)
    spec = range_spec(folder)
    by_certificate = bulkhead.Credentials(ca=str(authority.pem), cert=str(own), key=str(own_key))
    by_token = bulkhead.Credentials(ca=str(authority.pem), token_file=str(token))
    expected = history(spec, service.target, transport="grpc", credentials=by_token)
    for credentials in (by_certificate, by_token):
        with opened(spec, service, credentials=credentials) as loader:
            assert [history_of(batch) for batch in loader.stream()] == expected
            [receiver] = receivers()
            with open(f"/proc/{receiver}/cmdline", "rb") as said:
                assert service.target.encode() not in said.read(), "others can read what a program was started with"


def test_what_is_wrong_is_told_as_over_grpc(folder, serve):
    authority, stranger = Authority(folder / "authority"), Authority(folder / "stranger")
    pem, key = authority.issue("server")
    secure = serve(access=("--tls-cert", str(pem), "--tls-key", str(key), "--tls-client-ca", str(authority.pem), "--allow-stream", "job"))
    plain = serve()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
    wrong = [
        (range_spec(folder), nobody, {}),
        (range_spec(folder), secure.target, {}),
        (range_spec(folder), secure.target, {"credentials": bulkhead.Credentials(ca=str(stranger.pem))}),
        (range_spec(folder), plain.target, {"credentials": bulkhead.Credentials(ca=str(folder / "none.pem"))}),
        (write_spec(folder / "bad.yaml", source={"range": {"size": 8}}, batch={"size": 0}), plain.target, {}),
    ]
    for spec, target, options in wrong:
        told = []
        for transport in ("auto", "grpc"):
            with pytest.raises(errors.BulkheadError) as caught:
                bulkhead.Loader(spec, target, timeout=60, transport=transport, **options)
            told.append((type(caught.value), caught.value.reason, caught.value.message.partition(" (")[0]))
        assert told[0] == told[1]
    assert not receivers()


@pytest.mark.parametrize("kind", "schema early twice no_header bytes outside overlap gap excess short cut sequence count payload".split())
def test_what_the_protocol_forbids_is_told_as_over_grpc(monkeypatch, kind):
    monkeypatch.syspath_prepend(str(HERE.parents[1] / "client/python/tests"))
    service, server, port = importlib.import_module("fake_bulkheadd").serve("127.0.0.1:0")
    spec = json.dumps({"mode": f"bad:{kind}", "samples": 200, "batch": 8})
    try:
        for transport in ("auto", "grpc"):
            with pytest.raises(errors.ProtocolError) as caught:
                with bulkhead.Loader(spec, f"127.0.0.1:{port}", timeout=60, transport=transport) as loader:
                    assert (loader.transport == "shm") == (transport == "auto")
                    for _ in loader.stream():
                        pass
            assert caught.value.reason == "PROTOCOL_VIOLATION"
    finally:
        service.stopping.set()
        server.stop(None).wait(30)


# What a trainer holds.


def test_a_batch_that_is_kept_holds_up_no_other(folder, serve):
    with opened(range_spec(folder), serve(), copy_below=0) as loader:
        kept = loader.next_batch()["index"]
        before = kept.copy()
        rest = [batch.sequence for batch in loader.stream()]
        assert len(rest) == 99 and loader.held_slots >= 1
        np.testing.assert_array_equal(kept, before)


def test_a_trainer_that_keeps_all_slots_is_told_and_goes_on(folder, serve):
    with opened(range_spec(folder), serve(), credits=3, copy_below=0) as loader:
        kept = [loader.next_batch()["index"] for _ in range(3)]
        with pytest.raises(errors.SlotsExhausted, match="all 3 batches"):
            loader.next_batch(timeout=0.5)
        assert [array[0] for array in kept] == [array.copy()[0] for array in kept]
        del kept[1]
        assert loader.next_batch().sequence == 3


@pytest.mark.parametrize("credit_bytes", [1, 3 * 8 * 8])
def test_the_bytes_of_credit_bound_the_slots(folder, serve, credit_bytes):
    """One batch, and three, of 8 numbers; and two at least, as the training loop works on one."""
    service = serve()
    spec = range_spec(folder, size=67)  # its epochs end in partial batches
    expected = history(spec, service.target, transport="grpc")
    with opened(spec, service, credit_bytes=credit_bytes, credits=8, copy_below=0) as loader:
        assert [history_of(batch) for batch in loader.stream()] == expected
    with opened(spec, service, credit_bytes=credit_bytes, credits=8, copy_below=0) as loader:
        slots = max(2, credit_bytes // 64)
        kept = [loader.next_batch()["index"] for _ in range(slots)]
        with pytest.raises(errors.SlotsExhausted, match=f"all {slots} batches"):
            loader.next_batch(timeout=0.5)
        del kept[:]
        assert loader.next_batch().sequence == slots


def test_events_come_with_their_batches(folder, serve):
    images = folder / "images" / "a"
    images.mkdir(parents=True)
    subprocess.run([BIN / "bulkhead", "synth", folder / "photos", "--count", "30", "--size", "40x30"], check=True, stdout=subprocess.DEVNULL)
    for number, path in enumerate(sorted((folder / "photos" / "folder").rglob("*.jpg"))):
        (images / f"{number:02}.jpg").write_bytes(b"no image" if number % 5 == 0 else path.read_bytes())
    spec = write_spec(
        folder / "bad.yaml", source={"image_folder": {"path": str(folder / "images")}},
        stages=["decode_image", {"resize": {"size": [8, 8]}}], batch={"size": 5}, errors={"policy": "substitute", "max_fraction": 0.5}, epochs=1,
    )  # fmt: skip
    service = serve("--root", folder)
    told = []
    for transport in ("auto", "grpc"):
        with bulkhead.Loader(spec, service.target, timeout=60, transport=transport) as loader:
            told.append([])
            for batch in loader:
                assert len(loader.substitutions) >= batch.cursor["substitutions"], "an event comes before its batch"
                told[-1].append((history_of(batch), len(loader.substitutions)))
    assert [batch for batch, _ in told[0]] == [batch for batch, _ in told[1]]
    assert told[0][-1][1] == told[1][-1][1] == 6


# Losses.


def test_a_killed_receiver_is_replaced(folder, serve):
    service = serve()
    spec = range_spec(folder)
    expected = history(spec, service.target, transport="grpc")
    with opened(spec, service, copy_below=0) as loader:
        stream = loader.stream()
        seen, kept = [], []
        for number in range(len(expected)):
            batch = next(stream)
            seen.append(history_of(batch))
            if number in (10, 50):
                kept.append((batch["index"], batch["index"].copy()))
                [first] = receivers()
                os.kill(first, signal.SIGKILL)
        assert seen == expected and loader.reconnects == 2 and receivers() != [first]
        for array, before in kept:
            np.testing.assert_array_equal(array, before)
        assert loader.transport == "shm"


def test_one_that_has_just_ended_is_replaced(folder, serve, monkeypatch):
    service = serve()
    spec = range_spec(folder)
    with opened(spec, service) as loader:
        came = [history_of(loader.next_batch()) for _ in range(5)]
        monkeypatch.setattr(Receiver, "alive", lambda self: True)  # as long as its parent has not waited for it
        os.kill(receivers()[0], signal.SIGKILL)
        came += [history_of(batch) for batch in loader.stream()]
        assert loader.transport == "shm"
    assert came == history(spec, service.target, transport="grpc")


def test_one_that_ends_while_the_loader_opens_is_replaced(folder, serve, monkeypatch):
    service = serve()
    spec = range_spec(folder)
    find, killed = SharedMemory.open, []

    def open_and_kill(self, *arguments):
        door = find(self, *arguments)
        if not killed:
            killed.append(receivers()[0])
            os.kill(killed[0], signal.SIGKILL)
        return door

    monkeypatch.setattr(SharedMemory, "open", open_and_kill)
    with opened(spec, service) as loader:
        assert [history_of(batch) for batch in loader.stream()] == history(spec, service.target, transport="grpc")
    assert len(killed) == 1


@pytest.mark.waits
@pytest.mark.parametrize("replicas", [1, 2])
def test_loaders_whose_receivers_hang_at_once_open_over_grpc(folder, serve, monkeypatch, replicas):
    greet = Door.__init__

    def greet_and_stop(self, *arguments):
        greet(self, *arguments)
        for receiver in receivers():
            os.kill(receiver, signal.SIGSTOP)

    for name, seconds in (("WELCOME_SECONDS", 1.0), ("SECOND_WELCOME_SECONDS", 1.5)):
        monkeypatch.setattr(door, name, seconds)
    monkeypatch.setattr(Door, "__init__", greet_and_stop)
    services = [serve() for _ in range(replicas)]
    spec = range_spec(folder)
    with bulkhead.Loader(spec, targets(services), timeout=60) as loader:
        assert loader.transport == "grpc" and "did not answer in time" in loader.transport_reason
        assert [history_of(batch) for batch in loader.stream()] == history(spec, services[0].target, transport="grpc")
    assert not receivers()


@pytest.mark.waits
def test_replicas_wait_together_for_one_that_does_not_start(folder, serve, programs, monkeypatch):
    monkeypatch.setattr(receiver, "_START_SECONDS", 2.0)
    program = programs / PROGRAM
    program.write_text(f"#!/bin/sh\necho >>{folder}/starts\nexec sleep 60\n")
    program.chmod(0o755)
    with bulkhead.Loader(range_spec(folder), targets([serve() for _ in range(3)]), timeout=60) as loader:
        assert loader.transport == "grpc" and "was not ready within 2 s" in loader.transport_reason
        assert len((folder / "starts").read_text()) == 1


def test_a_killed_service_is_waited_for(folder, serve):
    service = serve()
    spec = range_spec(folder)
    expected = history(spec, service.target, transport="grpc")
    with opened(spec, service) as loader:
        before = receivers()
        seen = [history_of(loader.next_batch()) for _ in range(10)]
        service.kill()
        serve.also(service.again())
        seen += [history_of(batch) for batch in loader.stream()]
        assert seen == expected and loader.reconnects >= 1
        assert receivers() == before, "it had no part in the loss"


def test_a_trainer_that_holds_batches_of_two_lost_streams_gets_bytes(folder, serve):
    service = serve()
    spec = range_spec(folder)
    expected = history(spec, service.target, transport="grpc")
    with opened(spec, service, copy_below=0) as loader:
        stream, seen, kept = loader.stream(), [], []
        for number in range(len(expected)):
            batch = next(stream)
            seen.append(history_of(batch))
            if number in (20, 50):  # of each stream one
                kept.append((batch["index"], batch["index"].copy()))
                service.kill()
                service = service.again()
                serve.also(service)
        assert seen == expected
        assert loader.transport == "grpc" and "two earlier connections" in loader.transport_reason
        for array, before in kept:
            np.testing.assert_array_equal(array, before)


def test_both_killed(folder, serve):
    service = serve()
    spec = range_spec(folder)
    expected = history(spec, service.target, transport="grpc")
    with opened(spec, service) as loader:
        seen = [history_of(loader.next_batch()) for _ in range(10)]
        os.kill(receivers()[0], signal.SIGKILL)
        service.kill()
        serve.also(service.again())
        seen += [history_of(batch) for batch in loader.stream()]
        assert seen == expected and loader.transport == "shm"


@pytest.mark.waits
def test_a_stopped_receiver_is_replaced(folder, serve, monkeypatch):
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 3.0)
    service = serve()
    spec = range_spec(folder)
    expected = history(spec, service.target, transport="grpc")
    with opened(spec, service) as loader:
        seen = [history_of(loader.next_batch()) for _ in range(10)]
        os.kill(receivers()[0], signal.SIGSTOP)
        seen += [history_of(batch) for batch in loader.stream()]
        assert seen == expected and loader.transport == "shm"
    assert not receivers()


class SlowLink:
    """Passes bytes on to a port, those that come back at `rate` bytes a second."""

    def __init__(self, port, rate):
        self._port, self._rate = port, rate
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self._port))
            for source, sink, rate in ((here, there, 0), (there, here, self._rate)):
                threading.Thread(target=self._pass, args=(source, sink, rate), daemon=True).start()

    @staticmethod
    def _pass(source, sink, rate):
        began, passed = time.monotonic(), 0
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                passed += len(data)
                if rate:
                    time.sleep(max(0, began + passed / rate - time.monotonic()))
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def close(self):
        self._listener.close()


@pytest.mark.waits
def test_a_batch_that_is_slow_to_arrive_is_no_silence(folder, serve, monkeypatch):
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 4.0)
    service = serve()
    spec = write_spec(folder / "s.yaml", source={"range": {"size": 1_000_000}}, batch={"size": 1_000_000})  # 8 MB
    link = SlowLink(service.port, 1_000_000)
    with bulkhead.Loader(spec, link.target, timeout=60, credits=2) as loader:
        assert loader.transport == "shm"
        assert len(loader.next_batch()["index"]) == 1_000_000 and loader.reconnects == 0
    link.close()


# Where there is none.


def test_without_the_program_batches_come_over_grpc(folder, serve, programs):
    with bulkhead.Loader(range_spec(folder), serve().target, timeout=60) as loader:
        assert loader.transport == "grpc"
        assert f"there is no {PROGRAM} beside {programs}/bulkheadd" in loader.transport_reason
        assert loader.next_batch().sequence == 0
    with pytest.raises(errors.TransportUnavailable, match=f"there is no {PROGRAM}"):
        bulkhead.Loader(range_spec(folder), serve().target, timeout=60, transport="shm")


def test_without_any_program_batches_come_over_grpc(folder, serve, monkeypatch):
    monkeypatch.setenv("BULKHEAD_SERVER", "/none")
    with bulkhead.Loader(range_spec(folder), serve().target, timeout=60) as loader:
        assert loader.transport == "grpc" and f"{PROGRAM} is not installed" in loader.transport_reason


def test_one_that_does_not_start_is_done_without(folder, serve, programs):
    program = programs / PROGRAM
    program.write_text("#!/bin/sh\necho 'bulkhead-receive: out of order' >&2\nexit 3\n")
    program.chmod(0o755)
    with bulkhead.Loader(range_spec(folder), serve().target, timeout=60) as loader:
        assert loader.transport == "grpc" and "out of order" in loader.transport_reason
        assert len(list(loader.stream())) == 100


def test_one_that_dies_again_and_again_is_done_without(folder, serve, monkeypatch):
    monkeypatch.setattr(receiver.Receivers, "brought_batch", lambda self: None)
    service = serve()
    spec = range_spec(folder)
    expected = history(spec, service.target, transport="grpc")
    with opened(spec, service) as loader:
        seen = []
        for _ in range(3):
            assert loader.transport == "shm"
            os.kill(receivers()[0], signal.SIGKILL)
            seen += [history_of(loader.next_batch()) for _ in range(20)]  # more than waited in shared memory
        assert loader.transport == "grpc" and not receivers()
        assert "killed by signal 9" in loader.transport_reason and "2 before it" in loader.transport_reason
        service.kill()
        serve.also(service.again())
        assert seen + [history_of(batch) for batch in loader.stream()] == expected
        assert loader.transport == "grpc" and not receivers(), "it is not tried again"


# Its life.

TRAINER = """
import sys
import bulkhead
loader = bulkhead.Loader(sys.argv[1], sys.argv[2], timeout=60)
loader.next_batch()
print(loader.transport, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("told", [False, True])
def test_it_ends_with_a_killed_trainer_or_when_it_is_told_to_and_leaves_no_folder(folder, serve, monkeypatch, told):
    runtime = folder / "run"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    command = [sys.executable, "-c", TRAINER, range_spec(folder), serve().target]
    trainer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert trainer.stdout.readline().strip() == "shm"
    [receiver] = receivers(trainer.pid)
    pidfd = os.pidfd_open(receiver)
    if told:
        trainer.send_signal(signal.SIGSTOP)  # it has no time to remove the folder, as at an interpreter's end
        os.kill(receiver, signal.SIGTERM)
    else:
        trainer.kill()
    assert signal_of_end(pidfd), "it outlives its trainer"
    assert not list(runtime.glob("bulkhead-*")), "its folder is left"
    trainer.kill()
    trainer.communicate()


def signal_of_end(pidfd, seconds=30):
    import select

    ended = bool(select.select([pidfd], [], [], seconds)[0])
    os.close(pidfd)
    return ended


def test_a_forked_child_leaves_it_alone(folder, serve):
    with opened(range_spec(folder), serve()) as loader:
        before = receivers()
        loader.next_batch()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                loader.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert len(list(loader.stream())) == 99 and receivers() == before and loader.reconnects == 0
