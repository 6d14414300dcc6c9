"""The manifests of a fleet, and of the Jobs over shards: do they hold together, and do their commands do what they are for?"""

import json
import os
import pathlib
import re
import shutil
import subprocess

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


def test_the_probe_asks_the_service_over_tls(tmp_path):
    """With the arguments and the target file of the manifests, and certificates as cert-manager's."""
    tls = tmp_path / "tls"
    tls.mkdir()
    issue(tls, [f"DNS:{name}" for name in certificates()["bulkhead-fleet"]["spec"]["dnsNames"]])
    flags = options()
    command = [BIN / "bulkheadd", "--cache-dir", tmp_path / "cache", "--listen", "127.0.0.1:0"]
    command += [f"--{name}={tls}/{pathlib.Path(flags[name]).name}" for name in ("tls-cert", "tls-key", "tls-client-ca")]
    command += rights()
    ready, child_end = os.pipe()
    service = subprocess.Popen([*map(str, command), "--ready-fd", str(child_end)], pass_fds=(child_end,))
    os.close(child_end)
    try:
        with os.fdopen(ready) as said:
            port = said.readline().strip().rpartition(":")[2]
        text = (FOLDER / "overlays/fleet/self.yaml").read_text()
        text = text.replace(":7077", f":{port}").replace("/etc/bulkhead/tls", str(tls))
        (tmp_path / "self.yaml").write_text(text)
        probe = container("bulkhead")["readinessProbe"]["exec"]["command"]
        words = [str(tmp_path / "self.yaml") if word.endswith("self.yaml") else word for word in probe[1:]]
        assert tool(*words)
        # A trainer's certificate is not the service's: an address that it does not name is refused.
        (tmp_path / "self.yaml").write_text(text.replace("localhost", "127.0.0.1"))
        assert "is not for 127.0.0.1" in tool(*words, code=1)
    finally:
        service.terminate()
        service.wait(30)


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


def commands_of(job, folder, number):
    """What the pod of a shard runs, with this machine's paths."""
    (container,) = read(f"shard-jobs/{job}/job.yaml")["spec"]["template"]["spec"]["containers"]
    words = [*container["command"], *container["args"]]
    words = [word.replace("$(JOB_COMPLETION_INDEX)", str(number)) for word in words]
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
            tool(*commands_of(job, tmp_path, number))
    cache = tmp_path / "cache/bulkhead/own"
    made = {path.name for path in cache.glob("*.index")}
    assert len(made) == 3
    spec = {
        "source": {"tfrecord": {"files": str(tmp_path / "data/packed/shard-*/part-*.tfrecord")}},
        "features": {"label": {"int64": {}}},
        "batch": {"size": 10},
    }
    with bulkhead.Loader(spec, cache_dir=str(cache), workers=1) as loader:
        assert sum(batch.valid_count for batch in loader) == 30
    assert {path.name for path in cache.glob("*.index")} == made


def test_jobs_and_services_share_the_claim_the_user_and_the_place():
    job = read("shard-jobs/index/job.yaml")["spec"]["template"]["spec"]
    claims = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in job["volumes"] if "persistentVolumeClaim" in each}
    own = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in pod()["volumes"] if "persistentVolumeClaim" in each}
    assert claims == own
    assert claims["cache"] == read("overlays/fleet/index-claim.yaml")["metadata"]["name"]
    for name in ("runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy"):
        assert job["securityContext"][name] == pod()["securityContext"][name]
    assert given(job["containers"][0]["args"], {"JOB_COMPLETION_INDEX": "0"})["cache-dir"] == options()["cache-dir"]
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
