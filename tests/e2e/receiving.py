"""bulkhead-receive, the services on other hosts whose batches it brings, and a host without it."""

import os

import pytest
from conftest import BIN, children_of, program_of
from replicas import Replica

PROGRAM = "bulkhead-receive"


def receivers(pid=None):
    """Those of a process, of this one by default."""
    return [child for child in children_of(pid or os.getpid()) if program_of(child) == PROGRAM]


@pytest.fixture
def serve(folder):
    """serve(*options, **place): a Replica, at a port of the loopback."""
    started = []

    def start(*options, **place):
        started.append(Replica(folder / f"service{len(started)}", *options, **place))
        return started[-1]

    start.also = started.append
    yield start
    for replica in started:
        replica.end()


@pytest.fixture
def programs(folder, monkeypatch):
    """A folder with the programs that a client starts, without bulkhead-receive."""
    path = folder / "bin"
    path.mkdir()
    (path / "bulkheadd").symlink_to(BIN / "bulkheadd")
    monkeypatch.setenv("BULKHEAD_SERVER", str(path / "bulkheadd"))
    return path
