"""A real Ray cluster of two nodes on this machine, each with its own address."""

import contextlib
import os
import pathlib
import signal
import time

import pytest
import ray
from ray.cluster_utils import Cluster

# A process of Ray takes long to start where others are busy.
PATIENCE_SECONDS = 300
# Workers start when they are needed, not one for each CPU beforehand, and are not nicer than others on the machine.
os.environ.update({"RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0", "RAY_worker_niceness": "0"})
HEAD = "127.0.0.11"


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.1)


def command(pid):
    """Its words; empty when it is gone."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return []


def parent(pid):
    """Its parent's pid; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def processes(word, of=None):
    """The pids of processes with `word` in their command line; `of`: with that process as their parent."""
    every = [int(folder.name) for folder in pathlib.Path("/proc").glob("[0-9]*")]
    return [pid for pid in every if any(word in each for each in command(pid)) and of in (None, parent(pid))]


class Nodes:
    """The cluster. `loader` is a resource of which each node has one, so that each gets one replica."""

    def __init__(self):
        self._addresses = (f"127.0.0.{last}" for last in range(11, 255))
        options = {"include_dashboard": False, **self._node({"head": 1})}
        self.cluster = Cluster(initialize_head=True, head_node_args=options)
        self.nodes = []

    def _node(self, more, **environment):
        return {
            "num_cpus": 4,
            "resources": {"loader": 1, **more},
            "node_ip_address": next(self._addresses),
            "object_store_memory": 100 << 20,
            "env_vars": environment or None,
        }

    def add(self, more=(), **environment):
        """Another node, on the next address, whose processes have this environment."""
        self.nodes.append(self.cluster.add_node(**self._node(dict(more), **environment)))
        return self.nodes[-1]

    def actors(self, name):
        """The pids of this cluster's actors of the class `name`."""
        return [pid for pid in processes(f"ray::{name}") if any(self.cluster.address in each for each in command(parent(pid)))]

    def kill(self, node):
        """As a machine that loses its power: nothing on it ends in order."""
        self.nodes.remove(node)
        services = processes(f"{node.node_ip_address}:0")
        for pid in services:
            os.kill(pid, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)
        return services

    def close(self):
        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def cluster():
    """The head alone; tests add nodes, and remove them."""
    made = Nodes()
    try:
        ray.init(address=made.cluster.address, _node_ip_address=HEAD)
        yield made
    finally:
        made.close()


@pytest.fixture
def head(cluster):
    """The head alone; what a test adds is removed."""
    yield cluster
    for node in list(cluster.nodes):
        cluster.nodes.remove(node)
        cluster.cluster.remove_node(node, allow_graceful=False)
    wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == 1, "only the head is left")


@pytest.fixture
def nodes(head):
    """The head and a second node."""
    head.add()
    return head
