"""Does the pod of deploy/kubernetes work with all that it may not do?"""

import json
import pathlib
import shutil
import stat

from conftest import ROOT, USER, VERSION, measured, podman

TRAIN = """
import sys
sys.path.insert(0, "/tmp")
import bulkhead, hashlib, pathlib
digest = hashlib.sha256()
with bulkhead.Loader(pathlib.Path(sys.argv[1]), sys.argv[2], transport=sys.argv[3]) as loader:
    samples = 0
    for batch in loader:
        samples += len(batch["label"])
        for name in sorted(batch):
            digest.update(name.encode() + batch[name].tobytes())
    print(loader.transport, samples, digest.hexdigest())
"""
TARGET = "unix:/run/bulkhead/loader.sock"


def test_it_serves_within_its_constraints(start):
    pod = start()
    seconds = pod.wait_until_it_serves()
    measured.append(f"{seconds:.2f} s from the start of the service's process to SERVING")
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pod.state()['Pid']}/status").read_text().splitlines())
    assert status["Uid"].split() == [str(USER)] * 4
    assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapBnd"], 16)) == ("1", "2", 0)


def test_a_pod_gets_kernel_private_quotas(start):
    pod = start()
    pod.wait_until_it_serves()
    status = pod.status()
    containment, limit = status["containment"], int(status["memory"]["limit_bytes"])
    measured.append(f"quota {containment['quota_level']} ({containment['quota_level_reason']}), limit {limit >> 20} MiB")
    assert containment["quota_level"] == "kernel-private"
    assert f"{limit >> 20}Mi" == pod.service["resources"]["limits"]["memory"]


def test_the_probe_of_the_image_asks_the_service(start):
    pod = start()
    pod.wait_until_it_serves()
    assert podman("healthcheck", "run", pod.name, check=False).returncode == 0
    (pod.volumes["bulkhead-run"] / "loader.sock").unlink()
    assert podman("healthcheck", "run", pod.name, check=False).returncode == 1


def test_batches_travel_between_containers_by_shared_memory_and_by_grpc(start, trainer_image):
    pod = start()
    pod.wait_until_it_serves()
    # The client of this tree, in the trainer's volume.
    shutil.copytree(ROOT / "client/python/bulkhead", pod.volumes["tmp"] / "bulkhead")
    got = {}
    for transport in ("shm", "grpc"):
        said = pod.train(trainer_image, "python3", "-c", TRAIN, "/data/train.json", TARGET, transport).stdout
        used, samples, digest = said.split()
        assert (used, samples) == (transport, "150")
        got[transport] = digest
    assert got["shm"] == got["grpc"]


def test_the_command_streams_from_another_container(start):
    pod = start()
    pod.wait_until_it_serves()
    said = pod.train(f"bulkhead:{VERSION}", "bulkhead", "stream", "/data/train.json", "--target", TARGET, "--json").stdout
    run = json.loads(said[said.index("{"):])
    assert (run["transport"], run["samples"]) == ("shm", 150)
    measured.append(f"{run['samples_per_second']:.0f} samples/s by shared memory, from a container to another")


def test_python_stages_run_in_the_other_image(start):
    pod = start("python")
    pod.wait_until_it_serves()
    said = pod.train(f"bulkhead:{VERSION}", "bulkhead", "stream", "/data/blurred.json", "--target", TARGET, "--json").stdout
    assert json.loads(said[said.index("{"):])["samples"] == 150


def test_it_ends_when_it_is_told_to(start):
    pod = start()
    pod.wait_until_it_serves()
    assert pod.stop() == 0


def own_folder(pod):
    return pod.volumes["bulkhead-cache"] / "own"


def test_the_cache_in_a_claim_stays_private(start):
    pod = start("cache-claim")
    pod.wait_until_it_serves()
    pod.train(f"bulkhead:{VERSION}", "bulkhead", "stream", "/data/train.json", "--target", TARGET)
    folder = own_folder(pod)
    assert stat.S_IMODE(folder.stat().st_mode) & 0o777 == 0o700
    kept = {path for path in folder.rglob("*") if path.is_file()}
    assert kept and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    assert pod.stop() == 0
    # The root of the volume has the pod's group now, so with OnRootMismatch the next pod finds it as it was.
    podman("start", pod.name)
    pod.wait_until_it_serves()
    pod.train(f"bulkhead:{VERSION}", "bulkhead", "stream", "/data/train.json", "--target", TARGET)
    assert kept <= set(folder.rglob("*"))
    assert "open to other users" not in pod.log()


def test_a_cache_that_a_cluster_opened_to_its_group_is_refused(start):
    """What fsGroupChangePolicy: Always does at each start."""
    pod = start("cache-claim")
    pod.wait_until_it_serves()
    pod.train(f"bulkhead:{VERSION}", "bulkhead", "stream", "/data/train.json", "--target", TARGET)
    pod.stop()
    own_folder(pod).chmod(0o2770)
    podman("start", pod.name)
    podman("wait", pod.name)
    assert pod.state()["ExitCode"] != 0
    assert "is open to other users (mode 2770)" in pod.log()
