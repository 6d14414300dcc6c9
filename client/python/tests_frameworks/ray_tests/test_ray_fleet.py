"""Services on the nodes of a real Ray cluster, and a trainer that reads from all of them."""

import glob
import json
import os
import pathlib
import pickle
import signal
import stat
import subprocess
import sys
import threading

import bulkhead
import numpy as np
import pytest
import ray
from conftest import BIN, run_python
from two_nodes import HEAD, PATIENCE_SECONDS, cluster, head, nodes, processes, wait_until  # noqa: F401  (fixtures)

import bulkhead.ray

LOADER = {"CPU": 1, "loader": 1}
FOLDERS = "/tmp/bulkhead-fleet-*"


def spec(samples=4000, batch=8, **more):
    """Random numbers of the spec's seed, so that the bytes of a batch tell its positions and its epoch."""
    return {
        "source": {"range": {"size": samples}},
        "order": "global",
        "seed": 5,
        "epochs": 2,
        "batch": {"size": batch},
        **more,
    }


def write(folder, content):
    path = folder / "spec.json"
    path.write_text(json.dumps(content))
    return path


def digest_of(path, *options):
    return json.loads(run_python("-m", "bulkhead.digest", "--spec", path, *options))["digest"]


def fleet_of(replicas, **options):
    return bulkhead.ray.Fleet(replicas, resources=LOADER, **{"timeout": PATIENCE_SECONDS, **options})


def serving(fleet):
    return {each.number: each.address for each in fleet.replicas if each.address}


def has_moved(fleet, before):
    """Whether the fleet's only replica serves at another address, which the target has."""
    (now,) = fleet.replicas
    return now.address not in ("", before.address) and now.address in pathlib.Path(fleet.target).read_text()


class Reader(threading.Thread):
    """Reads a stream; holds on at each batch in `stops` until it is let go."""

    def __init__(self, content, target, *stops):
        super().__init__(daemon=True)
        self.loader = bulkhead.Loader(content, target)
        self.stops = {stop: (threading.Event(), threading.Event()) for stop in stops}
        self.indices, self.error = [], None
        self.start()

    def run(self):
        try:
            with self.loader:
                for count, batch in enumerate(self.loader.stream()):
                    if count in self.stops:
                        reached, go = self.stops[count]
                        reached.set()
                        go.wait()
                    self.indices += batch["index"].ravel().tolist()
        except bulkhead.BulkheadError as error:
            self.error = error

    def at(self, stop):
        """Waits until it is there."""
        assert self.stops[stop][0].wait(PATIENCE_SECONDS), self.error

    def go(self, stop):
        self.stops[stop][1].set()

    def end(self):
        for _, go in self.stops.values():
            go.set()
        self.join(PATIENCE_SECONDS)
        assert self.error is None and not self.is_alive(), self.error
        return self.indices


@pytest.fixture(scope="module")
def expected():
    """What one service of the trainer's own gives."""
    with bulkhead.Loader(spec(), workers=1) as loader:
        return [index for batch in loader.stream() for index in batch["index"].ravel().tolist()]


def test_the_stream_of_two_nodes_is_that_of_one_service(nodes, tmp_path):
    path = write(tmp_path, spec())
    others = set(glob.glob(FOLDERS))
    with fleet_of(2) as fleet:
        assert set(glob.glob(FOLDERS)) - others
        replicas = fleet.replicas
        assert sorted(each.node for each in replicas) == [HEAD, nodes.nodes[0].node_ip_address]
        assert [each.version for each in replicas] == [bulkhead.__version__] * 2
        assert [each.address.rpartition(":")[0] for each in replicas] == [each.node for each in replicas]
        assert digest_of(path, "--target", fleet.target) == digest_of(path, "--workers", "1")
        made = [status_of(fleet, each)["samples_produced"] for each in replicas]
        assert min(made) > 0 and sum(made) >= 8000
        assert all(map(processes, [f"{each.node}:0" for each in replicas]))
    listening = [f"{each.node}:0" for each in replicas]
    assert not any(map(processes, listening)), "services are left"
    assert set(glob.glob(FOLDERS)) <= others


def status_of(fleet, replica):
    folder = pathlib.Path(fleet.target).parent
    known = bulkhead.Credentials(ca=str(folder / "ca.pem"), cert=str(folder / "cert.pem"), key=str(folder / "key.pem"))
    return bulkhead.service_status(replica.address, credentials=known)


def test_a_killed_node_loses_and_repeats_nothing_and_a_new_one_joins(nodes, expected):
    with fleet_of(2) as fleet:
        reader = Reader(spec(), fleet.target, 40, 400, 900)
        reader.at(40)
        lost = nodes.nodes[0]
        assert nodes.kill(lost), "a service ran there"
        why = f"the node {lost.node_ip_address} is lost: Ray starts the replica again where there is room"
        wait_until(lambda: why in [str(each.error) for each in fleet.replicas], "the loss is told")
        reader.go(40)
        reader.at(400)
        # Ray starts the replica again as soon as a node has what it takes.
        assert len(nodes.nodes) == 0
        node = nodes.add()
        wait_until(lambda: node.node_ip_address in [each.node for each in fleet.replicas], "it is on the new node")
        reader.go(400)
        reader.at(900)
        added = next(each for each in fleet.replicas if each.node == node.node_ip_address)
        wait_until(lambda: status_of(fleet, added)["streams"], "it has joined")
        assert reader.end() == expected
        assert reader.loader.reconnects >= 1


def test_replicas_join_and_leave_an_open_stream(nodes, expected):
    with fleet_of(1) as fleet:
        (first,) = fleet.replicas
        reader = Reader(spec(), fleet.target, 40, 400)
        reader.at(40)
        fleet.resize(2, PATIENCE_SECONDS)
        added = next(each for each in fleet.replicas if each.number != first.number)
        assert {each.node for each in fleet.replicas} == {HEAD, nodes.nodes[0].node_ip_address}
        wait_until(lambda: status_of(fleet, added)["streams"], "the new replica has joined")
        reader.go(40)
        reader.at(400)
        assert status_of(fleet, added)["samples_produced"] > 0
        fleet.resize(1)
        assert fleet.replicas == [first]
        assert reader.end() == expected


def test_a_killed_actor_leaves_no_service_and_is_started_again(cluster):
    with fleet_of(1) as fleet:
        (before,) = fleet.replicas
        (actor,) = cluster.actors("Replica")
        (service,) = processes("bulkheadd", of=actor)
        os.kill(actor, signal.SIGKILL)
        wait_until(lambda: not pathlib.Path(f"/proc/{service}").exists(), "its service has ended")
        wait_until(lambda: has_moved(fleet, before), "another serves")
        assert [each.number for each in fleet.replicas] == [before.number]
        with bulkhead.Loader(spec(64), fleet.target) as loader:
            assert len(list(loader)) == 8


def test_a_killed_service_is_started_again(cluster):
    with fleet_of(1) as fleet:
        (before,) = fleet.replicas
        (service,) = processes("bulkheadd", of=cluster.actors("Replica")[0])
        os.kill(service, signal.SIGKILL)
        wait_until(lambda: has_moved(fleet, before), "another serves")
        with bulkhead.Loader(spec(64), fleet.target) as loader:
            assert len(list(loader)) == 8


def test_the_directory_may_be_lost(cluster):
    with fleet_of(1) as fleet:
        before = serving(fleet)
        (directory,) = cluster.actors("Directory")
        os.kill(directory, signal.SIGKILL)
        wait_until(lambda: cluster.actors("Directory") not in ([], [directory]), "another is there")
        wait_until(lambda: serving_now(fleet) == before, "the replica has told it again")


def serving_now(fleet):
    try:
        return serving(fleet)
    except ray.exceptions.RayActorError:
        return None


@ray.remote(num_cpus=1)
def read_there(target, content):
    with bulkhead.Loader(content, target) as loader:
        indices = [index for batch in loader for index in batch["index"].ravel().tolist()]
    return ray.util.get_node_ip_address(), str(target), sorted(indices)


def test_a_target_is_a_file_wherever_it_arrives(nodes):
    with fleet_of(1) as fleet:
        mode = os.stat(os.path.dirname(fleet.target)).st_mode
        assert stat.S_IMODE(mode) == 0o700 and os.path.isfile(fleet.target)
        node = nodes.nodes[0]
        there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        address, path, indices = ray.get(
            read_there.options(scheduling_strategy=there).remote({"config": fleet.target}["config"], spec(100))
        )
        assert address == node.node_ip_address and indices == list(range(100))
        assert path != str(fleet.target) and path.endswith("/fleet.yaml")
        # Each process has a certificate of its own.
        folder = os.path.dirname(fleet.target)
    assert not os.path.exists(folder)
    with pytest.raises(bulkhead.LoaderClosed, match="the fleet is closed"):
        fleet.target


@ray.remote(num_cpus=1)
def why_it_ends(target, content, began):
    """The reason and the message; makes the file `began` once it has a batch."""
    with bulkhead.Loader(content, target) as loader:
        try:
            while loader.next_batch() is not None:
                pathlib.Path(began).touch()
        except bulkhead.BulkheadError as error:
            return error.reason, error.message


def test_a_stream_says_that_its_fleet_was_closed(cluster, tmp_path, caplog):
    content = spec(samples=10**9)
    with fleet_of(1) as fleet:
        elsewhere = why_it_ends.remote(fleet.target, content, str(tmp_path / "began"))
        here = Reader(content, fleet.target, 5)
        here.at(5)
        wait_until(lambda: (tmp_path / "began").exists() or ray.wait([elsewhere], timeout=0)[0], "the other reads")
    here.go(5)
    here.join(PATIENCE_SECONDS)
    words = "the fleet of this target has been closed: keep the bulkhead.ray.Fleet while its target is used"
    assert (here.error.reason, here.error.message) == ("SERVICE_UNAVAILABLE", words)
    assert ray.get(elsewhere, timeout=PATIENCE_SECONDS) == ("SERVICE_UNAVAILABLE", words)
    assert "cannot be read" not in caplog.text


def test_ray_warns_of_no_actor_of_a_fleet(cluster):
    program = "import bulkhead.ray; bulkhead.ray.Fleet(1, resources={'loader': 1}).close()"
    environment = {**os.environ, "RAY_ADDRESS": cluster.cluster.address}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "Connected to Ray" in done.stderr and "constructor arguments" not in done.stderr and "retries remaining" not in done.stderr


def test_strangers_do_not_get_in(cluster):
    with fleet_of(1) as fleet:
        (replica,) = fleet.replicas
        with pytest.raises(bulkhead.ServiceUnavailable, match="it speaks TLS"):
            bulkhead.Loader(spec(), replica.address, timeout=20, reconnect_timeout=0)


def test_resources_that_no_node_has_are_named(nodes):
    with pytest.raises(bulkhead.DeadlineExceeded) as raised:
        bulkhead.ray.Fleet(2, resources={"CPU": 64, "loader": 1}, timeout=3)
    assert str(raised.value) == (
        "replicas 0, 1 of the fleet: no node within 3 s; each takes CPU 64, loader 1, and no node has that "
        f"({HEAD} has CPU 4, loader 1; {nodes.nodes[0].node_ip_address} has CPU 4, loader 1): ask for less (resources=), or add such nodes"
    )
    with pytest.raises(bulkhead.DeadlineExceeded, match="replicas? .*2 of the fleet: no node .* is in use: end others, or add nodes"):
        fleet_of(3, timeout=10)


def test_a_node_without_programs_is_named(head):
    node = head.add({"bare": 1}, BULKHEAD_SERVER="/nowhere/bulkheadd")
    with pytest.raises(bulkhead.ServiceNotFound) as raised:
        bulkhead.ray.Fleet(1, resources={"bare": 1}, timeout=PATIENCE_SECONDS)
    assert str(raised.value) == (
        f"on the node {node.node_ip_address}: BULKHEAD_SERVER names '/nowhere/bulkheadd', which is not a program"
    )


def test_nodes_with_different_versions_are_refused(head, tmp_path):
    other = tmp_path / "bulkheadd"
    other.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "bulkheadd 9.9.9" && exit\nexec {BIN}/bulkheadd "$@"\n')
    other.chmod(0o755)
    node = head.add({"newer": 1}, BULKHEAD_SERVER=str(other))
    with bulkhead.ray.Fleet(1, resources={"head": 1}, timeout=PATIENCE_SECONDS) as fleet:
        fleet._resources = {"CPU": 1, "newer": 1}  # the next replica comes to the other node
        with pytest.raises(bulkhead.InvalidArgument) as raised:
            fleet.resize(2, PATIENCE_SECONDS)
        assert str(raised.value) == (
            f"the node {node.node_ip_address} has bulkheadd 9.9.9, and {fleet.replicas[0].node} has {bulkhead.__version__}: "
            "the replicas of a fleet make one stream, so install the same version on all nodes"
        )
        assert len(fleet.replicas) == 1


def test_a_service_that_does_not_start_says_why(cluster):
    with pytest.raises(bulkhead.ServiceStartFailed, match=r"on the node 127.*: the service did not start: .*worker_quota"):
        fleet_of(1, worker_quota="1KiB")


@pytest.mark.parametrize(
    "arguments, options, words",
    [
        ((0,), {}, "replicas is a whole number between 1 and 256, not 0"),
        ((1.5,), {}, "replicas is a whole number between 1 and 256, not 1.5"),
        ((1,), {"resources": {"CPU": "4"}}, "resources: CPU must be a number, 0 at least, not '4'"),
        ((1,), {"resources": 4}, 'resources is a dict such as {"CPU": 4}, not 4'),
        ((1,), {"worker_quota": "1GB"}, "worker_quota is a size such as .* did you mean '1GiB'"),
    ],
)
def test_impossible_arguments(cluster, arguments, options, words):
    with pytest.raises(bulkhead.InvalidArgument, match=words.replace("{", r"\{")):
        bulkhead.ray.Fleet(*arguments, **options)


def test_an_unknown_argument_is_named(cluster):
    with pytest.raises(TypeError, match="Fleet has no argument 'worker_quoto'; did you mean 'worker_quota'"):
        bulkhead.ray.Fleet(1, worker_quoto="1GiB")


def test_a_fleet_stays_where_it_is(cluster):
    with fleet_of(1) as fleet:
        assert repr(fleet) == "<Fleet replicas: 1>"
        with pytest.raises(bulkhead.InvalidArgument, match="give others its `target`"):
            pickle.dumps(fleet)
    assert repr(fleet) == "<Fleet replicas: closed>"


@pytest.mark.parametrize(
    "missing, error, words",
    [
        ("ray", "ModuleNotFoundError", "bulkhead.ray needs Ray, which is not installed here: pip install 'ray[train]'"),
        ("cryptography", "bulkhead.errors.InvalidArgument", "which is not installed here: pip install cryptography"),
    ],
)
def test_a_missing_package_is_named(missing, error, words):
    program = f"import sys; sys.modules[{missing!r}] = None; import bulkhead.ray; bulkhead.ray.Fleet(1)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(error) and last.endswith(words)


def test_a_batch_outlives_its_fleet(cluster):
    with fleet_of(1) as fleet, bulkhead.Loader(spec(), fleet.target) as loader:
        array = loader.next_batch()["index"]
        copy = np.array(array)
    assert (array == copy).all()
