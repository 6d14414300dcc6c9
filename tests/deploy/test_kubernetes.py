"""The manifests: do they hold together, and do their limits agree with what the service plans?"""

import os
import re
import shutil
import subprocess

import bulkhead
import pytest
import yaml
from manifests import FOLDER, ROOT, SUPERVISOR_BYTES, described_by, flags_of, given, parsed_bytes, read


def flags():
    return flags_of("sidecar/flags.env")


def pod():
    return read("sidecar/sidecar.yaml")["spec"]["template"]["spec"]


def sidecar():
    (container,) = pod()["initContainers"]
    return container


def arguments():
    """The sidecar's arguments, with its ConfigMap's values, as a dict without the dashes."""
    return given(sidecar()["args"], flags())


def test_the_caches_fit_their_volume():
    (volume,) = [volume for volume in pod()["volumes"] if volume["name"] == "bulkhead-cache"]
    options = arguments()
    names = ("cache-bytes", "coefficient-cache-bytes", "stage-cache-bytes", "block-cache-bytes")
    kept = sum(0 if options[name] == "0" else parsed_bytes(options[name]) for name in names)
    assert 0 < kept <= parsed_bytes(volume["emptyDir"]["sizeLimit"]) * 3 // 4, "record indexes need room, too"


def limit_bytes():
    return parsed_bytes(sidecar()["resources"]["limits"]["memory"])


@pytest.fixture
def described(tmp_path):
    """The service with the sidecar's flags, this machine's paths aside: its status, and its plan for pipeline.yaml."""
    yield from described_by(tmp_path, arguments())


def test_the_memory_limit_agrees_with_the_plan(described):
    status, plan = described
    promised = SUPERVISOR_BYTES + plan.arena_bytes + (plan.workers + 1) * plan.worker_quota_bytes
    budget = parsed_bytes(flags()["MEMORY_BUDGET"])
    assert plan.workers == int(flags()["WORKERS"])
    assert plan.worker_quota_bytes == parsed_bytes(flags()["WORKER_QUOTA"])
    # Enough, with the quotas biting before the container's limit does; and not much more than that.
    assert promised <= budget <= limit_bytes() * 9 // 10
    assert budget - promised < 64 << 20
    assert limit_bytes() * 9 // 10 - budget < 128 << 20
    # And that is what the service goes by.
    assert status["memory"]["supervisor_bytes"] == SUPERVISOR_BYTES
    assert status["memory"]["budget_bytes"] == budget


def test_memory_is_requested_as_it_is_limited():
    resources = sidecar()["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    # A thread that waits for its CPU quota holds everybody up, so CPUs are requested and not limited.
    assert "cpu" not in resources["limits"]
    assert resources["requests"]["cpu"] == flags()["WORKERS"]


def test_the_page_has_the_arithmetic_of_these_files():
    page = (ROOT / "docs/deploy.md").read_text()
    for value in (flags()["WORKER_QUOTA"], flags()["MEMORY_BUDGET"], sidecar()["resources"]["limits"]["memory"]):
        assert value in page, value


def test_it_is_a_native_sidecar():
    container = sidecar()
    assert container["restartPolicy"] == "Always"  # else the trainer would wait for its end
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"  # the trainer starts when it serves


def test_flags_are_those_of_the_configmap():
    (reference,) = [source["configMapRef"]["name"] for source in sidecar()["envFrom"]]
    (generator,) = read("sidecar/kustomization.yaml")["configMapGenerator"]
    assert (generator["name"], generator["envs"]) == (reference, ["flags.env"])
    used = set(re.findall(r"\$\((\w+)\)", " ".join(sidecar()["args"])))
    assert used == set(flags())


def test_both_containers_share_the_socket_and_the_user():
    folder = os.path.dirname(arguments()["listen"].removeprefix("unix:"))
    (trainer,) = pod()["containers"]
    for container in (sidecar(), trainer):
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert mounts[folder] == "bulkhead-run"
        assert "runAsUser" not in container.get("securityContext", {})  # the pod says it, for both
    (target,) = [entry["value"] for entry in trainer["env"] if entry["name"] == "BULKHEAD_TARGET"]
    assert target == arguments()["listen"]
    (image_user,) = re.findall(r"\bUSER_ID=(\d+)$", (ROOT / "deploy/docker/build.sh").read_text(), re.MULTILINE)
    context = pod()["securityContext"]
    assert context["runAsUser"] == context["runAsGroup"] == int(image_user)


def test_the_images_are_those_of_this_version():
    assert sidecar()["image"] == f"bulkhead:{bulkhead.__version__}"
    (python,) = read("python-stages/kustomization.yaml")["images"]
    assert python["newTag"] == f"{bulkhead.__version__}-python"


def test_the_claim_has_the_room_of_the_volume_and_the_group_of_the_user():
    (volume,) = [volume for volume in pod()["volumes"] if volume["name"] == "bulkhead-cache"]
    requested = read("cache-claim/cache-claim.yaml")["spec"]["resources"]["requests"]["storage"]
    assert requested == volume["emptyDir"]["sizeLimit"]
    context = read("cache-claim/pod.yaml")["spec"]["template"]["spec"]["securityContext"]
    # Always would open the private folder in it at each start (tests/containers).
    assert context == {"fsGroup": pod()["securityContext"]["runAsGroup"], "fsGroupChangePolicy": "OnRootMismatch"}


# The components for data in object stores: the fields of a pod that hold its service, where the flags and the memory come
# from, and the claim.
STORES = [
    ("object-store", "initContainers", ["sidecar"], "sidecar/sidecar.yaml", "pod.yaml"),
    ("fleet-object-store", "containers", ["overlays/fleet", "fleet-caches"], "overlays/fleet/deployment.yaml", "deployment.yaml"),
]


@pytest.fixture(params=STORES, ids=[store[0] for store in STORES])
def store(request):
    return request.param


def memory_of(path, containers):
    service = read(path)["spec"]["template"]["spec"][containers][0]
    assert service["name"] == "bulkhead"
    return service["resources"]


def test_what_reads_object_stores_has_memory_of_its_own(store):
    folder, containers, _, service, patch = store
    mine = memory_of(f"{folder}/{patch}", containers)
    assert mine["requests"] == mine["limits"]
    (quota,) = re.findall(r" kQuotaBytes = uint64_t\{(\d+)\} << 20;", (ROOT / "server/data/fetch_child.h").read_text())
    before = memory_of(service, containers)["limits"]["memory"]
    assert parsed_bytes(mine["limits"]["memory"]) == parsed_bytes(before) + (int(quota) << 20)


def test_the_claim_has_room_for_what_was_read_of_an_object_store(store):
    folder, _, flags_from, _, patch = store
    values = {}
    for each in [*flags_from, folder]:
        values.update(flags_of(f"{each}/flags.env"))
    names = ("CACHE_BYTES", "COEFFICIENT_CACHE_BYTES", "STAGE_CACHE_BYTES", "BLOCK_CACHE_BYTES")
    kept = sum(0 if values[name] == "0" else parsed_bytes(values[name]) for name in names)
    if folder == "object-store":
        claim = read(f"{folder}/cache-claim.yaml")["spec"]
    else:
        claim = read(f"{folder}/{patch}")["spec"]["template"]["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert parsed_bytes(values["BLOCK_CACHE_BYTES"]) < kept <= parsed_bytes(claim["resources"]["requests"]["storage"]) * 3 // 4


def test_credentials_come_from_a_secret_and_go_to_the_service_alone(store):
    folder, containers, *_ = store
    (patch,) = [entry for entry in read(f"{folder}/kustomization.yaml")["patches"] if "target" in entry]
    root, credentials = yaml.safe_load(patch["patch"])
    assert root["path"] == f"/spec/template/spec/{containers}/0/args/-"
    assert credentials["path"] == f"/spec/template/spec/{containers}/0/envFrom/-"
    assert credentials["value"] == {"secretRef": {"name": "bulkhead-object-store", "optional": True}}
    texts = "".join(path.read_text() for path in (FOLDER / folder).iterdir())
    assert not re.search(r"AWS_|secretKeyRef|ACCESS_KEY", texts)


def test_a_fleet_reaches_stores_by_https_and_nothing_else():
    egress = read("fleet-object-store/network-policy.yaml")["spec"]["egress"]
    assert [(port["port"], port["protocol"]) for rule in egress for port in rule["ports"]] == [(53, "UDP"), (53, "TCP"), (443, "TCP")]


def test_the_disk_that_is_requested_holds_the_cache_volume():
    (volume,) = [volume for volume in pod()["volumes"] if volume["name"] == "bulkhead-cache"]
    resources = sidecar()["resources"]
    assert resources["requests"]["ephemeral-storage"] == resources["limits"]["ephemeral-storage"]
    assert parsed_bytes(resources["limits"]["ephemeral-storage"]) > parsed_bytes(volume["emptyDir"]["sizeLimit"])


def test_every_path_that_the_flags_name_is_mounted():
    mounts = {mount["mountPath"]: mount for mount in sidecar()["volumeMounts"]}
    assert mounts[arguments()["root"]]["readOnly"]
    # The service makes a folder of its own in the volume, which others may open.
    assert os.path.dirname(arguments()["cache-dir"]) in mounts
    declared = {volume["name"] for volume in pod()["volumes"]}
    base = read("base/trainer-job.yaml")["spec"]["template"]["spec"]
    declared |= {volume["name"] for volume in base["volumes"]}
    assert {mount["name"] for mount in mounts.values()} <= declared


def test_scrapers_and_probes_go_to_the_port_of_the_metrics():
    (port,) = sidecar()["ports"]
    assert arguments()["metrics"] == f"0.0.0.0:{port['containerPort']}"
    annotations = read("sidecar/sidecar.yaml")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    assert annotations["prometheus.io/scrape"] == "true"
    for probe in ("startupProbe", "readinessProbe"):
        assert sidecar()[probe]["httpGet"]["port"] == port["name"]
    monitor = read("pod-monitor/pod-monitor.yaml")["spec"]
    assert [(end["port"], end["path"]) for end in monitor["podMetricsEndpoints"]] == [(port["name"], "/metrics")]
    labels = read("base/trainer-job.yaml")["spec"]["template"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()


def test_no_container_has_privileges():
    # deploy/kubernetes/test.sh asks the library that admits pods; this part needs no Go.
    base = read("base/trainer-job.yaml")["spec"]["template"]["spec"]
    (trainer,) = base["containers"]
    for container in (trainer, sidecar()):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert base["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_the_pod_waits_longer_than_the_service_drains():
    assert pod()["terminationGracePeriodSeconds"] > 25 + 5  # docs/deploy.md


def kustomized(folder, base, component):
    """The objects of `base` with this component, by kind and name."""
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [os.path.relpath(FOLDER / base, folder.resolve())],
        "components": [os.path.relpath(FOLDER / component, folder.resolve())],
    }))
    text = subprocess.run(["kubectl", "kustomize", folder], check=True, capture_output=True, text=True).stdout
    return {(each["kind"], re.sub(r"-[a-z0-9]{10}$", "", each["metadata"]["name"])): each for each in yaml.safe_load_all(text)}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_adds_the_object_store(tmp_path, store):
    folder, containers, flags_from, _, patch = store
    objects = kustomized(tmp_path, flags_from[0], folder)
    kind, name, flags_name = {"object-store": ("Job", "trainer", "bulkhead-flags"),
                              "fleet-object-store": ("Deployment", "bulkhead-fleet", "bulkhead-fleet-flags")}[folder]
    pod = objects[kind, name]["spec"]["template"]["spec"]
    service = pod[containers][0]
    values = objects["ConfigMap", flags_name]["data"]
    assert values.items() >= flags_of(f"{folder}/flags.env").items()
    options = given(service["args"], values)
    assert (options["root"], options["block-cache-bytes"]) == (values["OBJECT_ROOT"], values["BLOCK_CACHE_BYTES"])
    assert [list(source)[0] for source in service["envFrom"]] == ["configMapRef", "secretRef"]
    assert service["resources"]["limits"]["memory"] == memory_of(f"{folder}/{patch}", containers)["limits"]["memory"]
    others = [each for each in pod["containers"] if each["name"] != "bulkhead"]
    assert others and not any("envFrom" in each for each in others)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_page_shows_how_to_name_another_store(tmp_path):
    section = (ROOT / "docs/deploy.md").read_text().partition("\n### Data in an object store\n")[2]
    overlay = section.partition("```yaml\n")[2].partition("```")[0]
    assert "s3://photos/train/" in overlay
    (tmp_path / "kustomization.yaml").write_text(overlay.replace("../", os.path.relpath(FOLDER, tmp_path.resolve()) + "/"))
    text = subprocess.run(["kubectl", "kustomize", tmp_path], check=True, capture_output=True, text=True).stdout
    (flags_there,) = [each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap"]
    assert flags_there["data"]["OBJECT_ROOT"] == "s3://photos/train/"


def test_kustomize_puts_it_together():
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    text = subprocess.run(
        ["kubectl", "kustomize", FOLDER / "sidecar"], check=True, capture_output=True, text=True
    ).stdout
    config, job = yaml.safe_load_all(text)
    assert config["data"] == flags()
    (container,) = job["spec"]["template"]["spec"]["initContainers"]
    assert container["envFrom"][0]["configMapRef"]["name"] == config["metadata"]["name"]
    assert container["image"].startswith("bulkhead:")
    (trainer,) = job["spec"]["template"]["spec"]["containers"]
    # The patch adds to the trainer's container and replaces nothing of it.
    assert trainer["image"] == "registry.example/trainer:1"
    assert {mount["name"] for mount in trainer["volumeMounts"]} == {"data", "bulkhead-run", "tmp"}
