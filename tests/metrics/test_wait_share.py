"""The metric that a fleet on Kubernetes is scaled by: a real Prometheus answers the adapter's query about real services."""

import time

import yaml
from conftest import Service, folder, write_spec  # noqa: F401  (folder is a fixture)
from prometheus import RATE_INTERVAL, ROOT, Prometheus
from watched import Trainer, metrics_url, target_of, wait_until

(RULE,) = yaml.safe_load((ROOT / "deploy/kubernetes/overlays/fleet/adapter-rule.yaml").read_text())
TARGET = yaml.safe_load((ROOT / "deploy/kubernetes/overlays/fleet/autoscaler.yaml").read_text())["spec"]["metrics"][0]["pods"]["target"]
PODS = ("starved-1", "starved-2", "fed-1", "fed-2", "idle")


def query(matchers):
    """As the adapter fills in its template for pods, with a shorter interval: a test has no two minutes."""
    text = RULE["metricsQuery"].replace("<<.Series>>", RULE["seriesQuery"].partition("{")[0])
    text = text.replace("<<.LabelMatchers>>", matchers).replace("<<.GroupBy>>", "pod")
    assert "<<" not in text and "[2m]" in text
    return text.replace("[2m]", f"[{RATE_INTERVAL}]")


def services_of(folder):
    """By pod: a service with one worker, and metrics as the operator labels them."""
    services = {}
    for pod in PODS:
        (folder / pod).mkdir()
        services[pod] = Service(folder / pod, "--workers", "1", "--allow-fault-stages", "--metrics", "127.0.0.1:0")
    return services


def scraped(folder, pods):
    static = [
        {"targets": [target_of(metrics_url(folder / pod))], "labels": {"namespace": "default", "pod": pod}} for pod in pods
    ]
    return Prometheus(folder / "prometheus", [], jobs=[{"job_name": "bulkhead", "static_configs": static}])


def test_pods_whose_workers_are_behind_have_a_high_share_and_others_a_low_one(folder):
    services = services_of(folder)
    prometheus = scraped(folder, PODS)
    trainers = []
    slow = write_spec(
        folder / "slow.json", source={"range": {"size": 1_000_000}}, stages=[{"fault": {"slow": 0.05}}], batch={"size": 2}
    )
    quick = write_spec(folder / "quick.json", source={"range": {"size": 1_000_000}}, batch={"size": 2})

    def of(*names):
        return [services[name].target for name in names]

    def shares():
        found = prometheus.query(query('namespace="default",pod=~"' + "|".join(PODS) + '"'))
        return {entry["metric"]["pod"]: float(entry["value"][1]) for entry in found}

    try:
        # Each of two ranks reads from both replicas; the trainer of one fleet waits for workers, the other's workers for it.
        trainers += [Trainer(slow, of("starved-1", "starved-2"), f"rank-{rank}") for rank in range(2)]
        trainers += [Trainer(quick, of("fed-1", "fed-2"), f"rank-{rank}", step_seconds=0.2) for rank in range(2)]
        limit = float(TARGET["averageValue"].removesuffix("m")) / 1000

        def apart():
            told = shares()
            return (
                set(told) == set(PODS)
                and min(told["starved-1"], told["starved-2"]) > 1.5 * limit
                and max(told["fed-1"], told["fed-2"]) < 0.5 * limit
                and told["idle"] == 0
            )

        wait_until(apart, lambda: shares())
        # And it stays so: a whole interval later, of which no sample is from before, though a busy machine may hold up one
        # replica for a moment, and then its trainers wait for the other.
        time.sleep(float(RATE_INTERVAL.removesuffix("s")))
        wait_until(apart, lambda: shares())
        # The adapter finds the series by this, also of a pod that never had a stream.
        found = prometheus.query(RULE["seriesQuery"])
        assert {entry["metric"]["pod"] for entry in found} == set(PODS)
        assert all(each.error is None for each in trainers)
    finally:
        for trainer in trainers:
            trainer.stop()
        prometheus.stop()
        for service in services.values():
            service.stop()
