"""Shared memory between real processes: what a trainer holds stays as it is, whatever others do."""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

import pytest
from conftest import HERE, PYTHON_PACKAGE, Service, write_spec

import bulkhead
from bulkhead._stream.stream import Stream

sys.path.append(str(HERE.parents[1] / "client/conformance"))
from data import example, record, tfrecord_spec  # noqa: E402


def digest(arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


# Holds three batches' arrays, says so, and stops; when it goes on, says whether they are unchanged.
HOLDER = """
import hashlib, os, signal, sys
import bulkhead

def digest(arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()

loader = bulkhead.Loader(sys.argv[1], sys.argv[2], name="holder", transport="shm", copy_below=0)
arrays = [loader.next_batch()["index"] for _ in range(3)]
before = digest(arrays)
print("holding", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
print("unchanged" if digest(arrays) == before else "changed", flush=True)
print("next", loader.next_batch()["index"][0], flush=True)
del arrays
loader.close()
"""


@pytest.fixture
def service(folder):
    service = Service(folder, "--workers", "2")
    yield service
    service.stop()


@pytest.fixture
def spec(folder):
    return write_spec(
        folder / "s.json", source={"range": {"size": 100_000}}, batch={"size": 100}, order={"global": {}}
    )


def start_holder(spec, target, prefix=()):
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", HOLDER, spec, target],
        env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_stopped_trainer_keeps_its_arrays_while_others_go_on(service, spec):
    holder = start_holder(spec, service.target)
    assert holder.stdout.readline() == "holding\n"
    with bulkhead.Loader(spec, service.target, name="other", transport="shm") as other:
        for _ in range(150):
            other.next_batch()
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.stdout.readline() == "unchanged\n"
    assert holder.stdout.readline().startswith("next ")
    assert holder.wait(30) == 0


def test_a_stopped_trainer_keeps_its_arrays_when_its_stream_is_taken_over(service, spec):
    """The stream of that name goes to a newer trainer, which gets another arena."""
    holder = start_holder(spec, service.target)
    assert holder.stdout.readline() == "holding\n"
    with bulkhead.Loader(spec, service.target, name="holder", transport="shm") as newer:
        for _ in range(100):
            newer.next_batch()
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.stdout.readline() == "unchanged\n"
        holder.wait(30)  # superseded, behind what it had received before


def test_a_killed_trainer_gives_everything_back(service, spec):
    holder = start_holder(spec, service.target)
    assert holder.stdout.readline() == "holding\n"
    assert bulkhead.service_status(service.target)["streams"][0]["arena"]["slots_sending"] >= 3
    holder.kill()
    holder.wait()
    deadline = time.monotonic() + 20
    while bulkhead.service_status(service.target)["streams"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert bulkhead.service_status(service.target)["streams"] == []
    open_files = []
    for link in pathlib.Path(f"/proc/{service.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            open_files.append(os.readlink(link))
    # Those of the flight recorders are the workers', which live on.
    assert not [name for name in open_files if "memfd" in name and "flight" not in name]


def test_containers_of_a_pod_share_memory_through_the_sockets_folder(service, spec):
    """The trainer has PID, IPC, network and UTS namespaces of its own; what it shares is the folder."""
    namespaces = ["unshare", "--pid", "--ipc", "--net", "--uts", "--fork"]
    if subprocess.run([*namespaces, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("this user may not make namespaces")
    namespaces += ["sh", "-c", '"$@"; exit $?', "sh"]  # the first process of a PID namespace cannot be stopped
    holder = start_holder(spec, service.target, namespaces)
    assert holder.stdout.readline() == "holding\n"
    stream = bulkhead.service_status(service.target)["streams"][0]
    assert stream["transport"] == "TRANSPORT_SHM"
    # The trainer is the last of unshare's descendants.
    trainer = holder.pid
    while True:
        children = pathlib.Path(f"/proc/{trainer}/task/{trainer}/children").read_text().split()
        if not children:
            break
        trainer = int(children[0])
    os.kill(trainer, signal.SIGCONT)
    assert holder.stdout.readline() == "unchanged\n"
    assert holder.stdout.readline().startswith("next ")
    assert holder.wait(30) == 0


def test_the_numbers_of_a_batch_are_the_same_over_both(service, spec):
    def indices(transport):
        with bulkhead.Loader(spec, service.target, transport=transport) as loader:
            return [loader.next_batch()["index"].tolist() for _ in range(20)]

    assert json.dumps(indices("shm")) == json.dumps(indices("grpc"))


def test_a_client_that_does_not_read_its_door_gets_the_rest_on_the_stream(services, folder, monkeypatch):
    service = services(folder / "s", "--root", folder, "--workers", "1")
    records = [b"\xff" if number % 2 else example(number % 100, b"x") for number in range(2000)]
    (folder / "a.tfrecord").write_bytes(b"".join(map(record, records)))
    spec = tfrecord_spec(
        folder / "bad.json", "a.tfrecord", batch={"size": 100}, epochs=2,
        errors={"policy": "substitute", "max_fraction": 1.0},
    )
    with bulkhead.Loader(spec, service.target, credits=16) as loader:
        undisturbed = [digest([batch["label"]]) for batch in loader.stream()]
        events = len(loader.substitutions)
    assert events == 1000  # the newest

    came = []
    on_slot = Stream._on_slot

    def noted(stream, message):
        came.append(any(frame.name == "_pump_one" for frame in traceback.extract_stack()))
        on_slot(stream, message)

    monkeypatch.setattr(Stream, "_on_slot", noted)
    with bulkhead.Loader(spec, service.target, credits=16) as loader:
        assert loader.transport == "shm"
        stream = loader._stream._stream
        until = time.monotonic() + 60
        while stream._announcements.open and False not in came and not stream._ended:  # reads nothing meanwhile
            assert time.monotonic() < until
            time.sleep(0.01)
        assert [digest([batch["label"]]) for batch in loader.stream()] == undisturbed
    assert came == sorted(came, reverse=True), "first those at the door, then the others"
    assert {True, False} == set(came), "some of each"


def test_the_slot_in_reserve_takes_no_memory(folder, service):
    spec = write_spec(folder / "wide.json", source={"range": {"size": 1_000_000}}, batch={"size": 100_000})  # 800,000 bytes
    with bulkhead.Loader(spec, service.target, timeout=60, credits=4, copy_below=0) as loader:
        for _ in range(30):  # so each usual slot has been filled
            loader.next_batch()
        [arena] = [
            file for file in pathlib.Path(f"/proc/{service.process.pid}/fd").iterdir() if "bulkhead-arena" in os.readlink(file)
        ]
        slot = os.stat(arena).st_size // 5
        assert 3 * slot < os.stat(arena).st_blocks * 512 <= 4 * slot
