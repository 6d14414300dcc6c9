"""The real programs of $BULKHEAD_BIN_DIR and a synthetic photo set."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import object_sets
import pytest

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", HERE.parents[1] / "build/release/bin"))
PYTHON_PACKAGE = HERE.parents[1] / "client/python"
# Of the stages; the tests' own needs more packages.
PYTHON = os.environ.get("BULKHEAD_TEST_PYTHON", sys.executable)
os.environ["BULKHEAD_SERVER"] = str(BIN / "bulkheadd")
sys.path.insert(0, str(PYTHON_PACKAGE))

import bulkhead  # noqa: E402  (the package of this tree, not an installed one)

CLIENTS = {
    "cpp": [str(BIN / "bulkhead-client-digest")],
    "python": [sys.executable, "-m", "bulkhead.digest"],
}


def pytest_configure(config):
    config.addinivalue_line("markers", "waits: most of its time it waits; begun first, others run beside it")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A folder made by `bulkhead synth`: 150 photos of about 200 × 150 pixels, as folder, list and TFRecords."""
    folder = tmp_path_factory.mktemp("synth") / "photos"
    subprocess.run(
        [BIN / "bulkhead", "synth", folder, "--count", "150", "--size", "200x150", "--seed", "7"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    states = {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}
    yield folder
    changed = [path for path, state in states.items() if (path.stat().st_size, path.stat().st_mtime_ns) != state]
    assert not changed, "a test changed the photos of all"


@pytest.fixture(scope="session")
def numbers(tmp_path_factory):
    """A folder made by `bulkhead synth --schema range`: shards of numbered records."""
    folder = tmp_path_factory.mktemp("synth") / "numbers"
    subprocess.run([BIN / "bulkhead", "synth", folder, "--schema", "range"], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="session")
def stored(photos, tmp_path_factory):
    """A folder for an ObjectServer: the photos as shards in bucket/train, bucket/gzip and bucket/tar (object_sets.py)."""
    folder = tmp_path_factory.mktemp("store")
    object_sets.write_shards(photos, folder / "bucket")
    return folder


def _serving(folder):
    from object_server import ObjectServer  # needs Python 3.11, which not all tests' interpreters are

    return ObjectServer(folder)


@pytest.fixture
def store(stored, folder, monkeypatch):
    """An object store of `stored`, which services that the test starts ask. Tests may change it, not the objects."""
    with _serving(stored) as server:
        object_sets.lead_to(server, folder, monkeypatch)
        yield server


@pytest.fixture
def own_store(stored, folder, monkeypatch):
    """The same with objects of the test's own, in folder/"store"."""
    shutil.copytree(stored, folder / "store")
    with _serving(folder / "store") as server:
        object_sets.lead_to(server, folder, monkeypatch)
        yield server


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for the test's own files; the record indexes lie in it, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def preloaded(folder):
    """preloaded(source): the environment of a program that loads this library in C before all others."""

    def build(source):
        (folder / "preloaded.c").write_text(source)
        library = folder / "preloaded.so"
        subprocess.run(["cc", "-shared", "-fPIC", folder / "preloaded.c", "-o", library, "-ldl"], check=True)
        return {**os.environ, "LD_PRELOAD": str(library)}

    return build


def tool(*words, code=0):
    """Runs `bulkhead …`; gives what it wrote to standard output, or, when it has to fail, to standard error."""
    result = subprocess.run([BIN / "bulkhead", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert result.returncode == code, result.stderr
    return result.stdout if code == 0 else result.stderr


def write_spec(path, **spec):
    path.write_text(json.dumps(spec))
    return path


# Ends in float32, so that every stage that computes takes part.
AUGMENTED = [
    "decode_image",
    {"random_resized_crop": {"size": [64, 64]}},
    "random_horizontal_flip",
    {"normalize": {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}},
    {"layout": {"to": "nchw"}},
]


def start_digest(client, spec, environment=None, **options):
    """Starts a client that prints a stream's digest as JSON; finish_digest gives its result."""
    command = [*CLIENTS[client], "--spec", str(spec), "--error-json"]
    for key, value in options.items():
        command += ["--" + key.replace("_", "-"), str(value)]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE), **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_pause(process):
    """Until a client with `pause_after` has so many batches."""
    for line in process.stdout:
        if line.strip() == "paused":
            return


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def finish_digest(process, fails=False):
    try:
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    result = json.loads(output.splitlines()[-1])
    assert ("error" in result) == fails, result
    return result


def digest_of(client, spec, environment=None, **options):
    return finish_digest(start_digest(client, spec, environment, **options))["digest"]


def read(service, spec, **options):
    """Copies of all batches."""
    with bulkhead.Loader(spec, service.target, timeout=120, **options) as loader:
        return [{name: np.array(batch[name]) for name in batch} for batch in loader.stream()]


def read_bytes(service, spec, disturb=None, **options):
    """The bytes of all batches; `disturb` is called with the number of each that has come."""
    with bulkhead.Loader(spec, service.target, **options) as loader:
        found = []
        for number, batch in enumerate(loader.stream()):
            found.append({name: array.tobytes() for name, array in batch.items()})
            if disturb is not None:
                disturb(number)
        return found


def error_of(service, spec):
    """Of a stream that has to fail."""
    with pytest.raises(bulkhead.BulkheadError) as caught:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            for _ in loader.stream():
                pass
    return caught.value


def wait_until(condition, what=""):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def children_of(pid):
    """The living child processes of `pid`."""
    children = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            children.append(int(stat.parent.name))
    return children


def kill_embedded_workers(pid, count):
    """Kills the workers, so many, of the service that the process `pid` has started for itself."""
    [service] = [child for child in children_of(pid) if program_of(child) == "bulkheadd"]
    workers = children_of(service)
    assert len(workers) == count
    for worker in workers:
        os.kill(worker, signal.SIGKILL)


def program_of(pid):
    return os.path.basename(os.readlink(f"/proc/{pid}/exe"))


class Service:
    """bulkheadd on a Unix socket, or at `listen`."""

    def __init__(self, folder, *options, programs=BIN, listen=None, **popen):
        self.target = listen or f"unix:{folder}/s.sock"
        ready, child_end = os.pipe()
        self.log = (folder / "service.log").open("w")
        if "--cache-dir" not in options:
            options = ("--cache-dir", folder / "cache", *options)
        self.process = subprocess.Popen(
            [programs / "bulkheadd", "--listen", self.target, "--ready-fd", str(child_end), *map(str, options)],
            pass_fds=(child_end,),
            stderr=self.log,
            **popen,
        )
        os.close(child_end)
        with os.fdopen(ready) as said:
            word, _, address = said.readline().strip().partition(" ")
        assert word == "ready", (folder / "service.log").read_text()
        if listen:
            self.target = address  # with the port that was chosen

    def workers(self):
        return children_of(self.process.pid)

    def kill_worker(self, number=0, how=signal.SIGKILL):
        """Ends one of the workers by that signal; False when there is none at this moment."""
        workers = self.workers()
        try:
            os.kill(workers[number % len(workers)], how)
        except (ProcessLookupError, ZeroDivisionError):  # it has just ended by itself
            return False
        return True

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log.close()
        return code


@pytest.fixture
def services():
    """services(folder, *options, **popen) starts a Service; in the end those that still run are stopped."""
    started = []

    def start(folder, *options, **popen):
        folder.mkdir(exist_ok=True)
        started.append(Service(folder, *options, **popen))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            service.stop()
