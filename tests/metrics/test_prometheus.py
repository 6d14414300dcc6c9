"""Does a person see a leak? A real Prometheus scrapes a real service whose pipeline leaks."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import bulkhead
import grpc
import pytest
from conftest import BIN, Service, folder, write_spec  # noqa: F401  (folder is a fixture)
from dashboards import DASHBOARDS, VALUES, documented_metrics, metrics_in, substituted
from prometheus import RATE_INTERVAL, Prometheus, fetch, program
from watched import PATIENCE_SECONDS, Trainer, metrics_url, target_of, wait_until

QUOTA = 96 << 20


class Run:
    """A leaking pipeline, its trainer, and Prometheus watching."""

    def __init__(self, folder):
        self.spec = write_spec(
            folder / "leak.json",
            source={"range": {"size": 1000000}},
            # At most 12 MiB a second: a slot is renewed every few seconds, well before its quota is met.
            stages=[{"fault": {"leak": "64KiB"}}, {"fault": {"slow": 0.005}}],
            batch={"size": 8},
        )
        self.service = Service(
            folder, "--workers", "2", "--worker-quota", f"{QUOTA >> 20}MiB", "--allow-fault-stages",
            "--metrics", "127.0.0.1:0",
        )
        self.url = metrics_url(folder)
        self.target = target_of(self.url)
        self.prometheus = Prometheus(folder / "prometheus", [self.target])
        # Its first scrape comes seconds after its start; what leaks until then would be seen by nobody.
        self.trainer = None
        self.wait_for(lambda: "a first scrape", lambda: self.prometheus.value("up") == 1)
        with pytest.raises(bulkhead.SpecError):  # an opening that is refused
            bulkhead.Loader({**json.loads(self.spec.read_text()), "stages": ["decode_image"]}, self.service.target)
        self.trainer = Trainer(self.spec, self.service.target)

    def wait_for(self, what, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self.trainer is None or self.trainer.error is None, self.trainer.error
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what()}"
            time.sleep(0.1)

    def stop(self):
        if self.trainer is not None:
            self.trainer.stop()
        self.prometheus.stop()
        self.service.stop()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("run"))
    try:
        recycled = 'bulkhead_worker_exits_total{cause="recycled"}'
        run.wait_for(lambda: "two planned replacements", lambda: (run.prometheus.value(recycled) or 0) >= 2)
        yield run
    finally:
        run.stop()


def test_every_expression_of_the_dashboards_gives_data(run):
    every = {expression for dashboard in DASHBOARDS.values() for _, expression in dashboard.expressions()}
    empty = {substituted(expression, **VALUES, __rate_interval=RATE_INTERVAL) for expression in every}

    def all_give_data():
        for expression in list(empty):
            if run.prometheus.query(expression):
                empty.remove(expression)
        return not empty

    run.wait_for(lambda: f"no data for {sorted(empty)}", all_give_data)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_variables_of_a_dashboard_offer_what_is_scraped(run, name):
    [pipeline] = run.prometheus.query("bulkhead_pipeline_info")
    scraped = {
        "job": "bulkhead",
        "instance": run.target,
        "pipeline": pipeline["metric"]["pipeline"],
        "stream": "trainer",
    }
    for variable, (series, label) in DASHBOARDS[name].label_queries().items():
        matching = run.prometheus.get("series", **{"match[]": substituted(series, **scraped)})
        assert {entry[label] for entry in matching} == {scraped[variable]}


def test_dashboards_tell_services_of_one_pipeline_apart(folder):
    services = {}
    for name in ("alive", "dead"):
        (folder / name).mkdir()
        service = Service(folder / name, "--workers", "1", "--metrics", "127.0.0.1:0")
        services[target_of(metrics_url(folder / name))] = service
    (alive, one), (dead, other) = services.items()
    prometheus = Prometheus(folder / "prometheus", [alive, dead])

    def shown(title):
        series = prometheus.query(substituted(DASHBOARDS["bulkhead-fleet"].expression(title), **VALUES))
        return {entry["metric"].get("instance", "all"): float(entry["value"][1]) for entry in series}

    try:
        spec = {"source": {"range": {"size": 1000}}, "batch": {"size": 8}}
        with bulkhead.Loader(spec, one.target) as first, bulkhead.Loader(spec, other.target) as second:
            assert first.next_batch() and second.next_batch()
            wait_until(lambda: shown("Streams of each service") == {alive: 1, dead: 1}, lambda: "both are scraped")
            for expression in {expression for board in DASHBOARDS.values() for _, expression in board.expressions()}:
                prometheus.query(substituted(expression, **VALUES, __rate_interval=RATE_INTERVAL))
            assert (shown("Up"), shown("Down")) == ({"all": 2}, {"all": 0})
            other.process.kill()
            wait_until(lambda: shown("Reached") == {alive: 1, dead: 0}, lambda: "one is lost")
        assert (shown("Up"), shown("Down")) == ({"all": 1}, {"all": 1})
    finally:
        prometheus.stop()
        for service in services.values():
            service.stop()


def test_bytes_kept_a_sample_are_those_of_each_service(run, folder):
    with contextlib.ExitStack() as ends:
        sound = Service(folder, "--workers", "1", "--metrics", "127.0.0.1:0", "--allow-fault-stages")
        ends.callback(sound.stop)
        sound_target = target_of(metrics_url(folder))
        prometheus = Prometheus(folder / "prometheus", [run.target, sound_target])
        ends.callback(prometheus.stop)
        # The same pipeline as the one that leaks, but for what its stage does.
        spec = {**json.loads(run.spec.read_text()), "stages": [{"fault": {"leak": "1B"}}, {"fault": {"slow": 0.005}}]}
        trainer = Trainer(write_spec(folder / "leak.json", **spec), sound.target)
        ends.callback(trainer.stop)

        def kept():
            expression = DASHBOARDS["bulkhead-memory"].expression("Bytes kept a sample, by stage")
            series = prometheus.query(substituted(expression, **VALUES))
            of_stage = [entry for entry in series if entry["metric"]["stage"] == "stages[0] fault"]
            return {entry["metric"]["instance"]: float(entry["value"][1]) for entry in of_stage}

        wait_until(lambda: kept().keys() == {run.target, sound_target}, lambda: f"both are seen: {kept()}")
        assert kept()[run.target] > 60_000 and kept()[sound_target] < 6_000


def test_the_leak_is_seen_and_stays_below_the_quota(run):
    assert run.prometheus.value("max(bulkhead_worker_quota_bytes)") == QUOTA
    assert run.prometheus.value("max(bulkhead_worker_generation)") >= 2
    peak = run.prometheus.value("max(max_over_time(bulkhead_worker_memory_bytes[10m]))")
    assert QUOTA / 2 < peak <= QUOTA
    # A sawtooth: in the same series, much less after the replacement than before.
    fall = run.prometheus.value(
        "max(max_over_time(bulkhead_worker_memory_bytes[10m]) - min_over_time(bulkhead_worker_memory_bytes[10m]))"
    )
    assert fall > QUOTA / 4
    # And the supervisor does not take part in it.
    assert run.prometheus.value("max_over_time(bulkhead_supervisor_memory_bytes[10m])") < 48 << 20


def test_the_leaking_stage_is_the_one_that_holds_memory(run):
    largest = run.prometheus.query("topk(1, sum by (stage) (bulkhead_worker_stage_live_bytes))")
    assert largest[0]["metric"]["stage"] == "stages[0] fault"


def test_every_documented_metric_is_exposed_and_no_other(run, folder):
    text = fetch(run.url).decode()
    assert set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)) == documented_metrics()
    # All of them with a series, in a run that had everything happen.
    series = re.sub("^#.*$", "", text, flags=re.MULTILINE)
    only_with_auto = {"bulkhead_pipeline_workers_wanted", "bulkhead_pipeline_tuning"}
    assert metrics_in(series) == documented_metrics() - only_with_auto
    service = Service(folder, "--workers", "auto", "--metrics", "127.0.0.1:0")
    try:
        with bulkhead.Loader({"source": {"range": {"size": 1000}}, "batch": {"size": 8}}, service.target) as loader:
            loader.next_batch()
            text = fetch(metrics_url(folder)).decode()
    finally:
        service.stop()
    assert only_with_auto <= metrics_in(re.sub("^#.*$", "", text, flags=re.MULTILINE))


def test_promtool_has_nothing_to_complain_of(run):
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=fetch(run.url), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_health_says_whether_streams_are_taken(folder):
    service = Service(folder, "--metrics", "127.0.0.1:0")
    health = metrics_url(folder).replace("/metrics", "/healthz")
    with grpc.insecure_channel(service.target) as channel:
        assert fetch(health) == b"serving\n"
        # A call that does not end by itself keeps the service draining.
        ended = threading.Event()
        silent = channel.stream_stream("/bulkhead.v1.Loader/Describe")(iter(ended.wait, True))
        check = channel.unary_unary("/grpc.health.v1.Health/Check")  # on the same connection, so behind that call
        assert check(b"", timeout=60) == b"\x08\x01"  # SERVING
        service.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        while (said := status_of(health)) == 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert said == 503
        silent.cancel()
        ended.set()
    assert service.stop() == 0
    with pytest.raises(urllib.error.URLError):
        fetch(health)


def status_of(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_the_status_is_told_on_this_host_only(folder):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        own = probe.getsockname()[0]
    if own.startswith("127."):
        pytest.skip("this host has no other address")
    service = Service(folder, "--metrics", "0.0.0.0:0", "--insecure-metrics")
    try:
        port = metrics_url(folder).removesuffix("/metrics").rpartition(":")[2]
        for path in ("", "status.json"):
            assert urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}").status == 200
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{own}:{port}/{path}")
            assert refused.value.code == 403 and b"told to this host only" in refused.value.read()
        assert urllib.request.urlopen(f"http://{own}:{port}/metrics").status == 200
    finally:
        service.stop()


def test_nothing_listens_unless_asked(folder):
    service = Service(folder)
    try:
        assert "metrics on" not in (folder / "service.log").read_text()
    finally:
        service.stop()


@pytest.mark.parametrize("address", ["9464", "localhost:9464", "127.0.0.1:99999", "192.0.2.1:0"])
def test_a_bad_address_is_refused_at_the_start(folder, address):
    done = subprocess.run(
        [BIN / "bulkheadd", "--listen", f"unix:{folder}/s.sock", "--cache-dir", folder / "c",
         "--metrics", address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"--metrics {address}: " in done.stderr
