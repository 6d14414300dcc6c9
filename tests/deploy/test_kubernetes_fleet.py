"""The manifests of a fleet, and of the Jobs over shards: do they hold together, and do their commands do what they are for?"""

import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import time

import bulkhead
import pytest
import yaml
from conftest import BIN, photos, tool  # noqa: F401  (photos is a fixture)
from manifests import FOLDER, ROOT, SUPERVISOR_BYTES, described_by, flags_of, given, parsed_bytes, read, read_all

# Trainers' streams that the memory limit is made for (docs/deploy.md).
STREAMS = 4


def deployment():
    return read("overlays/fleet/deployment.yaml")["spec"]


def pod():
    return deployment()["template"]["spec"]


def container(name):
    return next(each for each in pod()["containers"] if each["name"] == name)


def flags():
    return flags_of("overlays/fleet/flags.env")


def options():
    return given(container("bulkhead")["args"], flags())


def rights():
    return [argument for argument in container("bulkhead")["args"] if argument.startswith("--allow-")]


def certificates():
    return {each["metadata"]["name"]: each for each in read_all("overlays/fleet/certificates.yaml")[::-1]}


@pytest.fixture
def described(tmp_path):
    yield from described_by(tmp_path, options())


def test_the_memory_limit_agrees_with_the_plan(described):
    status, plan = described
    promised = SUPERVISOR_BYTES + STREAMS * plan.arena_bytes + (plan.workers + 1) * plan.worker_quota_bytes
    budget, limit = parsed_bytes(flags()["MEMORY_BUDGET"]), parsed_bytes(container("bulkhead")["resources"]["limits"]["memory"])
    assert promised <= budget <= limit * 9 // 10
    assert budget - promised < 64 << 20 and limit * 9 // 10 - budget < 128 << 20
    assert status["memory"]["budget_bytes"] == budget


def test_the_page_has_the_arithmetic_of_these_files():
    section = (ROOT / "docs/deploy.md").read_text().partition("\n## A fleet\n")[2]
    for value in (flags()["MEMORY_BUDGET"], container("bulkhead")["resources"]["limits"]["memory"], f"{STREAMS} streams"):
        assert value in section, value


def test_nothing_listens_beyond_the_loopback_without_tls():
    flags = options()
    assert flags["tls-cert"] and flags["tls-key"] and flags["tls-client-ca"]
    assert "insecure-tcp" not in flags and "insecure-metrics" not in flags
    assert flags["metrics"].startswith("127.0.0.1:")
    conf = (FOLDER / "overlays/fleet/nginx.conf").read_text()
    assert re.findall(r"listen (.*);", conf) == [f"{container('metrics')['ports'][0]['containerPort']} ssl"]
    assert "ssl_verify_client on;" in conf and "ssl_protocols TLSv1.3;" in conf
    assert re.findall(r"proxy_pass http://(.*);", conf) == [flags["metrics"]]


def test_rights_and_names_are_those_of_the_certificates():
    made = certificates()
    (trainer,) = made["bulkhead-trainer"]["spec"]["dnsNames"]
    assert rights() == [f"--allow-{right}" for right in (f"stream={trainer}", f"status={trainer}", "status=bulkhead-fleet")]
    (service,) = read_all("overlays/fleet/service.yaml")
    assert service["spec"]["clusterIP"] == "None"
    names = made["bulkhead-fleet"]["spec"]["dnsNames"]
    assert "bulkhead-fleet" in names, "the probe shows it"
    for file in ("self.yaml", "fleet.yaml"):
        host, _, port = read(f"overlays/fleet/{file}")["target"].removeprefix("dns:///").partition(":")
        assert host in names and int(port) == container("bulkhead")["ports"][0]["containerPort"]
    assert read("overlays/fleet/fleet.yaml")["target"].startswith(f"dns:///{service['metadata']['name']}:")
    common = made["bulkhead-prometheus"]["spec"]["commonName"]
    assert f"CN={common} 1;" in (FOLDER / "overlays/fleet/nginx.conf").read_text()
    tls = read("overlays/fleet/pod-monitor.yaml")["spec"]["podMetricsEndpoints"][0]["tlsConfig"]
    assert tls["serverName"] in names
    secrets = {tls["keySecret"]["name"], *(tls[each]["secret"]["name"] for each in ("ca", "cert"))}
    assert secrets == {made["bulkhead-prometheus"]["spec"]["secretName"]}


def test_files_and_options_go_by_the_keys_of_cert_managers_secrets():
    keys = {"tls.crt", "tls.key", "ca.crt"}
    folder = next(each["mountPath"] for each in container("bulkhead")["volumeMounts"] if each["name"] == "tls")
    paths = {options()[name] for name in ("tls-cert", "tls-key", "tls-client-ca")}
    assert paths == {f"{folder}/{key}" for key in keys}
    for file in ("self.yaml", "fleet.yaml"):
        content = read(f"overlays/fleet/{file}")
        assert {content[name] for name in ("ca", "cert", "key")} == paths
    (volume,) = [each for each in pod()["volumes"] if each["name"] == "tls"]
    assert volume["secret"]["secretName"] == certificates()["bulkhead-fleet"]["spec"]["secretName"]
    trainer = read("overlays/fleet/trainer.yaml")["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in trainer["containers"][0]["volumeMounts"]}
    assert mounts["bulkhead-tls"] == folder
    assert trainer["containers"][0]["env"][0]["value"] == f"{mounts['bulkhead-target']}/fleet.yaml"


def test_everything_selects_the_pods():
    labels = deployment()["template"]["metadata"]["labels"]
    assert deployment()["selector"]["matchLabels"] == labels
    (service,) = read_all("overlays/fleet/service.yaml")
    assert service["spec"]["selector"] == labels
    for path in ("disruption-budget.yaml", "pod-monitor.yaml"):
        assert read(f"overlays/fleet/{path}")["spec"]["selector"]["matchLabels"] == labels
    policies = {each["metadata"]["name"]: each["spec"] for each in read_all("overlays/fleet/network-policy.yaml")}
    assert policies["bulkhead-fleet"]["podSelector"]["matchLabels"] == labels
    assert policies["bulkhead-fleet"]["egress"] == []
    ports = {port["name"] for each in pod()["containers"] for port in each["ports"]}
    assert {port["port"] for rule in policies["bulkhead-fleet"]["ingress"] for port in rule["ports"]} == ports
    for spread in pod()["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == labels
    autoscaler = read("overlays/fleet/autoscaler.yaml")["spec"]
    assert autoscaler["scaleTargetRef"]["name"] == read("overlays/fleet/deployment.yaml")["metadata"]["name"]
    assert "replicas" not in deployment()
    (metric,) = autoscaler["metrics"]
    (rule,) = read("overlays/fleet/adapter-rule.yaml")
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]


def test_the_caches_of_a_replica_fit_its_claim():
    values = {**flags(), **flags_of("fleet-caches/flags.env")}
    (volume,) = read("fleet-caches/deployment.yaml")["spec"]["template"]["spec"]["volumes"]
    room = volume["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"]
    kept = sum(parsed_bytes(values[name]) for name in ("CACHE_BYTES", "COEFFICIENT_CACHE_BYTES", "STAGE_CACHE_BYTES"))
    assert kept <= parsed_bytes(room) * 3 // 4, "record indexes need room, too"


@contextlib.contextmanager
def fleet_service(folder, tls, port=0):
    """A service with the TLS options and rights of the manifests, on the loopback; its port."""
    flags = options()
    command = [BIN / "bulkheadd", "--cache-dir", folder / "cache", "--listen", f"127.0.0.1:{port}"]
    command += [f"--{name}={tls}/{pathlib.Path(flags[name]).name}" for name in ("tls-cert", "tls-key", "tls-client-ca")]
    command += rights()
    ready, child_end = os.pipe()
    service = subprocess.Popen([*map(str, command), "--ready-fd", str(child_end)], pass_fds=(child_end,))
    os.close(child_end)
    try:
        with os.fdopen(ready) as said:
            yield said.readline().strip().rpartition(":")[2]
    finally:
        service.terminate()
        service.wait(30)


def test_the_probe_asks_the_service_over_tls(tmp_path):
    """With the arguments and the target file of the manifests, and certificates as cert-manager's."""
    tls = tmp_path / "tls"
    tls.mkdir()
    issue(tls, [f"DNS:{name}" for name in certificates()["bulkhead-fleet"]["spec"]["dnsNames"]])
    with fleet_service(tmp_path, tls) as port:
        text = (FOLDER / "overlays/fleet/self.yaml").read_text()
        text = text.replace(":7077", f":{port}").replace("/etc/bulkhead/tls", str(tls))
        (tmp_path / "self.yaml").write_text(text)
        probe = container("bulkhead")["readinessProbe"]["exec"]["command"]
        words = [str(tmp_path / "self.yaml") if word.endswith("self.yaml") else word for word in probe[1:]]
        assert tool(*words)
        # A trainer's certificate is not the service's: an address that it does not name is refused.
        (tmp_path / "self.yaml").write_text(text.replace("localhost", "127.0.0.1"))
        assert "is not for 127.0.0.1" in tool(*words, code=1)


def test_a_trainer_waits_for_the_fleet(tmp_path):
    """With the command and the target file of its pod, and a certificate with the trainer's name."""
    tls = tmp_path / "tls"
    tls.mkdir()
    issue(tls, ["DNS:localhost", "DNS:bulkhead-trainer"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = (FOLDER / "overlays/fleet/fleet.yaml").read_text().replace("/etc/bulkhead/tls", str(tls))
    (tmp_path / "fleet.yaml").write_text(text.replace("bulkhead-fleet:7077", f"localhost:{port}"))
    trainer = read("overlays/fleet/trainer.yaml")["spec"]["template"]["spec"]
    (waits,) = trainer["initContainers"]
    assert (waits["image"], waits["command"][0]) == (f"bulkhead:{bulkhead.__version__}", "/usr/local/bin/bulkhead")
    assert waits["volumeMounts"] == trainer["containers"][0]["volumeMounts"]
    words = [*waits["command"][1:], *waits["args"]]
    words = [str(tmp_path / "fleet.yaml") if word.endswith("fleet.yaml") else word for word in words]
    assert "cannot be reached" in tool(*words[:-2], code=1)
    waiting = subprocess.Popen([BIN / "bulkhead", *words])
    try:
        with fleet_service(tmp_path, tls, port):
            assert waiting.wait(120) == 0
    finally:
        waiting.kill()
        waiting.wait()


@contextlib.contextmanager
def metrics_container(folder, nginx):
    """The container's command with this script in nginx's place. Gives what waits until a file is there; at the end the command has ended as a pod's."""
    metrics = container("metrics")
    (folder / "nginx").write_text(f"#!/bin/sh\n{nginx}\n")
    (folder / "nginx").chmod(0o755)
    words = [word.replace("sleep 5", "sleep 0.1") for word in [*metrics["command"], *metrics["args"]]]
    running = subprocess.Popen(words, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})

    def wait_for(is_so):
        deadline = time.monotonic() + 60
        while not is_so():
            assert running.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)

    try:
        yield wait_for
        running.terminate()
        assert running.wait(30) == 0
    finally:
        running.kill()
        running.wait()


def test_a_failed_nginx_leaves_its_pod_ready(tmp_path):
    """Of a pod that is ready all containers run, and none has a probe that fails."""
    assert not [name for name in container("metrics") if name.endswith("Probe")]
    tried = tmp_path / "tried"
    with metrics_container(tmp_path, f'printf "%s\\n" "$*" >> {tried}\nexit 1') as wait_for:
        wait_for(lambda: tried.exists() and len(tried.read_text().splitlines()) >= 3)
    assert set(tried.read_text().splitlines()) == {"-c /etc/bulkhead/files/nginx.conf -e stderr"}


def test_the_end_of_a_pod_ends_its_nginx(tmp_path):
    with metrics_container(tmp_path, f"echo $$ > {tmp_path}/begun\nmv {tmp_path}/begun {tmp_path}/pid\nexec sleep 300") as wait_for:
        wait_for((tmp_path / "pid").exists)
        nginx = os.pidfd_open(int((tmp_path / "pid").read_text()))
    assert select.select([nginx], [], [], 60)[0], "it has ended"
    os.close(nginx)


def issue(folder, names):
    """An authority, and a certificate of it for these names, by the keys of cert-manager's Secrets."""
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=folder)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "1", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", *key, "-subj", "/", "-keyout", "tls.key", "-out", "tls.csr")
    (folder / "names").write_text("subjectAltName=" + ",".join(names))
    openssl("x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1",
            "-extfile", "names", "-out", "tls.crt")  # fmt: skip


def commands_of(job, folder, number, shards):
    """What the pod of one of so many shards runs, with this machine's paths."""
    (container,) = read(f"shard-jobs/{job}/job.yaml")["spec"]["template"]["spec"]["containers"]
    words = [*container["command"], *container["args"]]
    words = [word.replace("$(JOB_COMPLETION_INDEX)", str(number)).replace("$(SHARDS)", str(shards)) for word in words]
    assert words[0] == "/usr/local/bin/bulkhead"
    return [word.replace("/data", f"{folder}/data").replace("/var/cache", f"{folder}/cache") for word in words[1:]]


def test_shards_are_packed_and_indexed_and_the_fleet_finds_the_indexes(tmp_path, photos):
    shards = tmp_path / "data/shards"
    shards.mkdir(parents=True)
    images = sorted(photos.rglob("*.jpg"))[:30]
    for number in range(3):
        folder = tmp_path / f"shard-{number}"
        folder.mkdir()
        for place, image in enumerate(images[10 * number : 10 * number + 10]):
            shutil.copy(image, folder / f"{place:05}.jpg")
            (folder / f"{place:05}.cls").write_text(str(place % 5))
        subprocess.run(["tar", "cf", shards / f"shard-{number}.tar", "-C", folder, *sorted(p.name for p in folder.iterdir())], check=True)
    for job in ("pack", "index"):
        assert read(f"shard-jobs/{job}/job.yaml")["spec"]["completionMode"] == "Indexed"
        for number in range(3):
            tool(*commands_of(job, tmp_path, number, 3))
    cache = tmp_path / "cache/bulkhead/own"
    made = {path.name for path in cache.glob("*.index")}
    assert len(made) == 3
    # The pattern of the page.
    (pattern,) = re.findall(r"`files: /(data/packed/\S+)`", (ROOT / "docs/deploy.md").read_text())
    assert records_of(tmp_path / pattern.replace("of-16", "of-3"), cache) == 30
    assert {path.name for path in cache.glob("*.index")} == made
    # With fewer shards the same pattern reads none of those before.
    for number in range(2):
        tool(*commands_of("pack", tmp_path, number, 2))
    assert records_of(tmp_path / pattern.replace("of-16", "of-2"), cache) == 20


def records_of(files, cache):
    spec = {"source": {"tfrecord": {"files": str(files)}}, "features": {"label": {"int64": {}}}, "batch": {"size": 10}}
    with bulkhead.Loader(spec, cache_dir=str(cache), workers=1) as loader:
        return sum(batch.valid_count for batch in loader)


def kustomized(*words):
    done = subprocess.run(["kubectl", "kustomize", *words], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def shards_of(objects):
    """(completions, what the container takes for them) of the only Job."""
    (job,) = [each["spec"] for each in objects if each["kind"] == "Job"]
    (container,) = job["template"]["spec"]["containers"]
    return job["completions"], next(each["value"] for each in container["env"] if each["name"] == "SHARDS")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("job", ["pack", "index"])
def test_the_number_of_shards_is_that_of_completions(tmp_path, job):
    shutil.copytree(FOLDER / "shard-jobs", tmp_path / "shard-jobs")
    file = tmp_path / "shard-jobs" / job / "job.yaml"
    file.write_text(file.read_text().replace("completions: 16", "completions: 7"))
    assert shards_of(kustomized(file.parent)) == (7, "7")
    # And in an overlay as the page has it.
    section = (ROOT / "docs/deploy.md").read_text().partition("\n### Packing and indexing by Jobs\n")[2]
    overlay = section.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kustomization.yaml").write_text(overlay.replace("shard-jobs/pack", f"shard-jobs/{job}"))
    completions, shards = shards_of(kustomized(tmp_path / "mine"))
    assert shards == str(completions) and completions not in (7, 16)


def test_two_pods_never_write_the_same_shard():
    for job in ("pack", "index"):
        assert read(f"shard-jobs/{job}/job.yaml")["spec"]["podReplacementPolicy"] == "Failed"


def test_packing_gives_no_file_of_the_data_to_a_group():
    assert not [name for name in read("shard-jobs/pack/job.yaml")["spec"]["template"]["spec"]["securityContext"] if name.startswith("fsGroup")]


def rendered(folder, base, component):
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [os.path.relpath(FOLDER / base, folder.resolve())],
        "components": [os.path.relpath(FOLDER / component, folder.resolve())],
    }))  # fmt: skip
    return kustomized(folder)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(
    "base, component, kind, containers",
    [("sidecar", "python", "Job", "initContainers"), ("overlays/fleet", "fleet-python", "Deployment", "containers")],
)
def test_python_stages_are_in_each_service(tmp_path, base, component, kind, containers):
    objects = rendered(tmp_path, base, component)
    (pod,) = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == kind]
    (service,) = [each for each in pod[containers] if each["name"] == "bulkhead"]
    assert service["image"] == f"bulkhead:{bulkhead.__version__}-python"
    (place,) = [each["mountPath"] for each in service["volumeMounts"] if each["name"] == "bulkhead-stages"]
    assert service["args"][-1] == f"--python-path={place}"
    (stages,) = [each for each in objects if each["kind"] == "ConfigMap" and "stages.py" in each["data"]]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "bulkhead-stages"]
    assert volume["configMap"]["name"] == stages["metadata"]["name"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_page_shows_how_monitors_get_a_label(tmp_path):
    section = (ROOT / "docs/deploy.md").read_text().partition("\n### Metrics by the Prometheus operator\n")[2]
    patches = section.partition("```yaml\n")[2].partition("```")[0]
    fleet = os.path.relpath(FOLDER / "overlays/fleet", tmp_path.resolve())
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{fleet}]\n{patches}")
    (monitor,) = [each for each in kustomized(tmp_path) if each["kind"] == "PodMonitor"]
    assert monitor["metadata"]["labels"] == {"release": "kube-prometheus-stack"}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("component", ["python", "object-store", "cache-claim"])
def test_components_of_the_sidecar_are_refused_by_a_fleet(tmp_path, component):
    with pytest.raises(subprocess.CalledProcessError):
        rendered(tmp_path, "overlays/fleet", component)


def test_jobs_and_services_share_the_claim_the_user_and_the_place():
    job = read("shard-jobs/index/job.yaml")["spec"]["template"]["spec"]
    claims = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in job["volumes"] if "persistentVolumeClaim" in each}
    own = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in pod()["volumes"] if "persistentVolumeClaim" in each}
    assert claims == own
    assert claims["cache"] == read("overlays/fleet/index-claim.yaml")["metadata"]["name"]
    for name in ("runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy"):
        assert job["securityContext"][name] == pod()["securityContext"][name]
    assert given(job["containers"][0]["args"], {"JOB_COMPLETION_INDEX": "0", "SHARDS": "16"})["cache-dir"] == options()["cache-dir"]
    places = {each["name"]: each["mountPath"] for each in job["containers"][0]["volumeMounts"]}
    assert {each["name"]: each["mountPath"] for each in container("bulkhead")["volumeMounts"]}.items() >= {
        name: places[name] for name in claims
    }.items()


def test_images_are_those_of_this_version():
    for job in ("pack", "index"):
        (command,) = read(f"shard-jobs/{job}/job.yaml")["spec"]["template"]["spec"]["containers"]
        assert command["image"] == f"bulkhead:{bulkhead.__version__}"
    assert container("bulkhead")["image"] == f"bulkhead:{bulkhead.__version__}"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_puts_it_together():
    text = subprocess.run(
        ["kubectl", "kustomize", FOLDER / "overlays/fleet"], check=True, capture_output=True, text=True
    ).stdout
    kinds = sorted(each["kind"] for each in yaml.safe_load_all(text))
    assert kinds == sorted(
        ["Certificate"] * 4 + ["ConfigMap"] * 3 + ["Issuer"] * 2 + ["NetworkPolicy"] * 2
        + ["Deployment", "HorizontalPodAutoscaler", "Job", "PersistentVolumeClaim", "PodDisruptionBudget", "PodMonitor", "Service"]
    )  # fmt: skip
    (job,) = [each for each in yaml.safe_load_all(text) if each["kind"] == "Job"]
    (trainer,) = job["spec"]["template"]["spec"]["containers"]
    assert trainer["image"] == "registry.example/trainer:1"
    assert {mount["name"] for mount in trainer["volumeMounts"]} == {"data", "tmp", "bulkhead-tls", "bulkhead-target"}
    assert json.dumps(job).count("bulkhead-fleet-target-") == 1
