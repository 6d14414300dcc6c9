"""The images in podman's store, and the pods of deploy/kubernetes as podman and runc run them. deploy/test.sh runs this."""

import json
import os
import pathlib
import re
import resource
import subprocess
import time
import uuid

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
PROGRAMS = ROOT / "build/wheel/installed/bin"
VERSION = re.search(r'^__version__ = "(.*)"', (ROOT / "client/python/bulkhead/__init__.py").read_text(), re.MULTILINE)[1]
USER = 10001
SERVING = 60  # seconds; only a service that never serves takes that long
measured: list[str] = []


def pytest_terminal_summary(terminalreporter):
    for line in measured:
        terminalreporter.write_line(f"measured: {line}")


def podman(*arguments, check=True) -> subprocess.CompletedProcess:
    """crun does not start where both versions of cgroups are mounted; timers of health checks need systemd, which may not run."""
    command = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "DISABLE_HC_SYSTEMD": "true"})
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def inspected(name: str, kind: str) -> dict:
    (found,) = json.loads(podman("inspect", "--type", kind, name).stdout)
    return found


def read(path: str) -> dict:
    return yaml.safe_load((KUBERNETES / path).read_text())


def pod_of(path: str) -> dict:
    return read(path)["spec"]["template"]["spec"]


def limits() -> list[str]:
    """podman would raise those of the container, which not every root may. It runs with 32,768 processes itself."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    processes = 32768 if processes < 0 else min(processes, 32768)
    return [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}"]


class Pod:
    """The pod of deploy/kubernetes/sidecar with `components`: its volumes are folders here."""

    def __init__(self, folder: pathlib.Path, data: pathlib.Path, *components: str):
        self.folder = folder
        self.base, self.sidecar = pod_of("base/trainer-job.yaml"), pod_of("sidecar/sidecar.yaml")
        patches = [pod_of(f"{name}/pod.yaml") for name in components]
        self.context: dict = {}
        for part in (self.base, self.sidecar, *patches):
            self.context.update(part.get("securityContext", {}))
        (self.service,) = self.sidecar["initContainers"]
        (self.trainer,) = self.base["containers"]
        (patched,) = self.sidecar["containers"]
        self.trainer["volumeMounts"] += patched["volumeMounts"]
        self.variant = "-python" if "python" in components else ""
        if self.variant:
            self.service["volumeMounts"] += patches[components.index("python")]["initContainers"][0]["volumeMounts"]
            self.service["args"].append(read("python/kustomization.yaml")["patches"][1]["patch"].split("value: ")[1].strip())
        self.volumes = {"data": data, "bulkhead-stages": KUBERNETES / "python"}
        for name in ("bulkhead-run", "bulkhead-cache", "tmp"):
            self.make_volume(name, claim=name == "bulkhead-cache" and "cache-claim" in components)
        self.name = f"bulkhead-test-{uuid.uuid4().hex[:12]}"

    def make_volume(self, name: str, *, claim: bool) -> None:
        """As the kubelet does: an emptyDir is open to all, a new volume is root's; fsGroup gets both."""
        path = self.volumes[name] = self.folder / name
        path.mkdir()
        mode = 0o755 if claim else 0o777
        if "fsGroup" in self.context:
            os.chown(path, 0, self.context["fsGroup"])
            mode |= 0o2770
        path.chmod(mode)

    def constraints(self, container: dict) -> list[str]:
        """What the manifests ask of the container, in podman's words."""
        own, context = container["securityContext"], self.context
        assert own == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert context["runAsNonRoot"] and context["seccompProfile"] == {"type": "RuntimeDefault"}, "podman's default, too"
        options = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges",
                   f"--user={context['runAsUser']}:{context['runAsGroup']}", "--network=none", *limits(),
                   f"--memory={container['resources']['limits']['memory'].removesuffix('i').lower()}"]
        if "fsGroup" in context:
            options.append(f"--group-add={context['fsGroup']}")
        for mount in container["volumeMounts"]:
            options.append(f"--volume={self.volumes[mount['name']]}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}")
        return options

    def start(self) -> "Pod":
        flags = dict(line.split("=", 1) for line in (KUBERNETES / "sidecar/flags.env").read_text().splitlines() if re.match(r"\w", line))
        arguments = [re.sub(r"\$\((\w+)\)", lambda match: flags[match[1]], argument) for argument in self.service["args"]]
        podman("run", "--detach", f"--name={self.name}", *self.constraints(self.service), f"bulkhead:{VERSION}{self.variant}", *arguments)
        return self

    def health(self) -> bool:
        return subprocess.run(
            [PROGRAMS / "bulkhead", "health", "--target", f"unix:{self.volumes['bulkhead-run']}/loader.sock", "--timeout", "1"],
            capture_output=True, env={"BULKHEAD_SOCKET_USER": str(USER)}).returncode == 0

    def wait_until_it_serves(self) -> float:
        """Seconds from the start of its first process, as podman saw it."""
        deadline = time.monotonic() + SERVING
        while not self.health():
            assert self.state()["Running"] and time.monotonic() < deadline, self.log()
        serving = time.time()
        return serving - float(podman("inspect", "--type=container", "--format={{.State.StartedAt.UnixNano}}", self.name).stdout) / 1e9

    def state(self) -> dict:
        return inspected(self.name, "container")["State"]

    def log(self) -> str:
        done = podman("logs", self.name)
        return done.stdout + done.stderr

    def status(self) -> dict:
        return json.loads(podman("exec", self.name, "bulkhead", "status", "--json").stdout)

    def train(self, image: str, *command, check=True) -> subprocess.CompletedProcess:
        """A command in the trainer's place, with its constraints."""
        return podman("run", "--rm", *self.constraints(self.trainer), f"--entrypoint={command[0]}", image, *command[1:], check=check)

    def stop(self) -> int:
        podman("stop", f"--time={self.sidecar['terminationGracePeriodSeconds']}", self.name)
        return self.state()["ExitCode"]

    def remove(self) -> None:
        podman("rm", "--force", "--time=0", self.name, check=False)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """150 photos in TFRecords, and specs for them."""
    folder = tmp_path_factory.mktemp("data") / "set"
    subprocess.run([PROGRAMS / "bulkhead", "synth", folder, "--count", "150", "--size", "200x150", "--seed", "7"], check=True, capture_output=True)
    spec = {
        "source": {"tfrecord": {"files": "/data/records-*.tfrecord"}},
        "features": {"image": {"bytes": {}}, "label": {"int64": {}}},
        "stages": [{"decode_image": {}}, {"random_resized_crop": {"size": 64}}],
        "batch": {"size": 16}, "order": "global", "seed": 1, "epochs": 1, "outputs": ["image", "label"],
    }
    (folder / "train.json").write_text(json.dumps(spec))
    spec["stages"].append({"python": {"function": "stages:blur", "inputs": ["image"],
                                      "outputs": [{"name": "image", "dtype": "uint8", "shape": [64, 64, 3]}]}})
    (folder / "blurred.json").write_text(json.dumps(spec))
    return folder


@pytest.fixture
def start(tmp_path, data):
    """Starts pods of the sidecar with components."""
    pods = []

    def one(*components):
        folder = tmp_path / f"pod-{len(pods)}"
        folder.mkdir()
        pods.append(Pod(folder, data, *components))
        return pods[-1].start()

    yield one
    for pod in pods:
        pod.remove()


@pytest.fixture(scope="session")
def trainer_image(tmp_path_factory):
    """An image of one's own, by the Dockerfile of docs/deploy.md, with what a trainer's client needs."""
    folder = tmp_path_factory.mktemp("own")
    page = (ROOT / "docs/deploy.md").read_text()
    lines = re.search(r"^```dockerfile\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    assert "albumentations" in lines
    (folder / "Dockerfile").write_text(lines.replace("albumentations", "grpcio protobuf"))
    name = f"bulkhead-test:{uuid.uuid4().hex[:12]}"
    # The index and its certificates are those of this machine.
    shared = [f"--volume={path}:{path}:ro" for path in ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt") if os.path.exists(path)]
    shared += [f"--env={name}" for name in ("PIP_CERT", "PIP_INDEX_URL") if name in os.environ]
    done = subprocess.run(["buildah", "bud", "--isolation=chroot", "--network=host", "--format=docker", *shared, "-t", name, folder],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    yield name
    podman("rmi", "--force", name)
