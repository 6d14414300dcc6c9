import importlib.util
import json
import pathlib
import shutil
import sys
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import bulkhead  # noqa: E402
import fake_bulkheadd  # noqa: E402
import option_table  # noqa: E402


def generator(script):
    """The module of a script that writes a file of this repository, by its path from the root."""
    path = HERE.parents[2] / script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_fresh(script):
    """That what a script writes from the tables of the build is what is kept. Returns the script as a module; skips
    where there is no build."""
    if not option_table.path().exists():
        pytest.skip(f"{option_table.path()} is not built")
    update = generator(script)
    outputs = update.outputs() if hasattr(update, "outputs") else {update.OUTPUT: update.generate()}
    for path, text in outputs.items():
        assert path.read_text() == text, "run scripts/update_generated.sh"
    return update


@pytest.fixture(params=["grpc", "shm"])
def fake(tmp_path, request):
    """A fake service; `fake.open(mode=…, samples=…)` opens a loader on it."""
    yield from fake_service(tmp_path, door=request.param == "shm")


@pytest.fixture
def fake_grpc(tmp_path):
    """One without an arena door."""
    yield from fake_service(tmp_path, door=False)


@pytest.fixture
def fake_shm(tmp_path):
    """One with an arena door."""
    yield from fake_service(tmp_path, door=True)


def fake_service(tmp_path, door):
    service, server, _ = fake_bulkheadd.serve(f"unix:{tmp_path}/s.sock", door)
    loaders = []

    def open_loader(loader=None, **spec):
        # Its arrays are small, and tests are about the memory in which they came.
        options = {"timeout": 10.0, "copy_below": 0, **(loader or {})}
        loaders.append(bulkhead.Loader(json.dumps(spec), f"unix:{tmp_path}/s.sock", **options))
        return loaders[-1]

    service.open = open_loader
    service.server = server
    yield service
    service.stopping.set()
    for loader in loaders:
        loader.close()
    server.stop(None).wait(30)
    if service.door is not None:
        service.door.close()


@pytest.fixture
def fake_program(monkeypatch, tmp_path):
    """The fake service as the embedded one; logs lie in tmp_path / "cache"."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # relative cache folders
    monkeypatch.setenv("BULKHEAD_SERVER", str(HERE / "fake_bulkheadd.py"))


def eventually(condition, seconds=10.0):
    """Waits for what another thread does."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    return condition()


def indices(batch):
    return batch["index"].tolist()


@pytest.fixture
def runtime(monkeypatch):
    """An empty $XDG_RUNTIME_DIR with a short name."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="bh", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    yield path
    shutil.rmtree(path)
