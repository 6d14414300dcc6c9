import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import bulkhead  # noqa: E402
import fake_bulkheadd  # noqa: E402


@pytest.fixture
def fake(tmp_path):
    """A fake service; `fake.open(mode=…, samples=…)` opens a loader on it."""
    service, server, _ = fake_bulkheadd.serve(f"unix:{tmp_path}/s.sock")
    loaders = []

    def open_loader(loader=None, **spec):
        options = {"timeout": 10.0, **(loader or {})}
        loaders.append(bulkhead.Loader(json.dumps(spec), f"unix:{tmp_path}/s.sock", **options))
        return loaders[-1]

    service.open = open_loader
    service.server = server
    yield service
    service.stopping.set()
    for loader in loaders:
        loader.close()
    server.stop(None).wait()


@pytest.fixture
def fake_program(monkeypatch):
    """The fake service as the embedded one."""
    monkeypatch.setenv("BULKHEAD_SERVER", str(HERE / "fake_bulkheadd.py"))
