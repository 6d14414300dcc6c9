"""Are counters right in a real Prometheus when what counts is killed or replaced? The client's count is the truth."""

import itertools
import time

import bulkhead
import pytest
from dashboards import DASHBOARDS, VALUES, substituted
from watched import Watched, spec_of, wait_until

BATCH = 8  # of spec_of
CREDITS = 4
DELIVERED = "bulkhead_samples_delivered_total"
BY_STREAM = " * on (pipeline) group_left (stream) bulkhead_stream_info"
RUNS = "sum by (pipeline, stage) (bulkhead_worker_stage_runs_total)" + BY_STREAM
SAMPLES = "sum by (pipeline) (bulkhead_worker_samples_total)" + BY_STREAM
MEMORY = DASHBOARDS["bulkhead-memory"]
LEAK = 1 << 20


def arrived(loader):
    """Samples that reached the client, in its hands or ready, once its credits are used up and no more can come."""
    wait_until(lambda: loader.stats.ready_batches == CREDITS, lambda: f"{CREDITS} batches are ready")
    return loader.stats.samples + CREDITS * BATCH


def take(loader, batches):
    for _ in range(batches):
        loader.next_batch()


def test_rates_are_right_when_the_service_is_killed(tmp_path):
    with Watched(tmp_path / "service", "--workers", "1") as one:
        prometheus = one.prometheus

        def wait_until_scraped(count):
            wait_until(lambda: prometheus.value(DELIVERED) == count, lambda: f"{DELIVERED} is {count}")

        spec = spec_of(one.folder, {"fault": {"slow": 0.001}})
        with bulkhead.Loader(spec, one.service.target, credits=CREDITS) as loader:
            take(loader, 250)
            before = arrived(loader)
            wait_until_scraped(before)
            one.restart()
            wait_until_scraped(0)
            take(loader, 100)
            truth = arrived(loader)
            wait_until_scraped(truth - before)
            assert loader.stats.reconnects == 1

        [series] = prometheus.query(f"{DELIVERED}[10m]")
        scrapes = [(at, float(value)) for at, value in series["values"]]
        rises = [
            (later - earlier, value if value < last else value - last)
            for (earlier, last), (later, value) in itertools.pairwise(scrapes)
        ]
        assert prometheus.value(f"resets({DELIVERED}[10m])") == 1
        assert scrapes[0][1] + sum(rise for _, rise in rises) == truth
        # Prometheus extrapolates to the ends of the window, by at most 1.1 scrapes at each.
        assert truth <= prometheus.value(f"increase({DELIVERED}[10m])") <= truth * (1 + 2.2 / len(rises))
        [rates] = prometheus.get(
            "query_range", query=f"rate({DELIVERED}[4s])", start=scrapes[0][0], end=time.time(), step="100ms"
        )["result"]
        rates = [float(rate) for _, rate in rates["values"]]
        assert 0 <= min(rates) and 0 < max(rates) <= max(rise / seconds for seconds, rise in rises) * 1.001


def test_stage_counts_are_right_when_workers_are_replaced_between_scrapes(tmp_path):
    with Watched(tmp_path / "service", "--workers", "1", "--worker-quota", "96MiB", scrape_interval="1s") as one:
        prometheus = one.prometheus

        def open_loader(name, stage):
            spec = {"source": {"range": {"size": 1_000_000}}, "stages": [{"fault": stage}], "batch": {"size": BATCH}}
            return bulkhead.Loader(spec, one.service.target, name=name, credits=CREDITS)

        def counts():
            """By stream: what reached the client, and the counters at a scrape after that."""
            truth = {name: arrived(loader) for name, loader in loaders.items()}
            wait_until(lambda: prometheus.value(DELIVERED) == sum(truth.values()), lambda: f"a scrape says {truth}")
            counters = {name: {} for name in truth}
            for series in prometheus.query(RUNS) + prometheus.query(SAMPLES):
                of = series["metric"]
                counters[of["stream"]][of.get("stage", "samples")] = float(series["value"][1])
            return truth, counters

        def samples_of_the_leaking_worker():
            arrived(leaking)
            status = bulkhead.service_status(one.service.target)
            [stream] = [stream for stream in status["streams"] if stream["name"] == "leaking"]
            return [
                worker["samples"]
                for worker in status["workers"]
                if worker["pipeline"] == stream["pipeline"] and not worker["standby"] and not worker["draining"]
            ]

        with open_loader("leaking", {"leak": "1MiB"}) as leaking, open_loader("steady", {"slow": 0.001}) as steady:
            loaders = {"leaking": leaking, "steady": steady}
            take(leaking, 20)
            take(steady, 20)
            truth, counters = counts()
            for _ in range(350):
                take(leaking, 1)
                take(steady, 1)
            # A warm-up leaks, too, with a sample that is not counted. Before 40 MiB the worker is not replaced.
            wait_until(
                lambda: take(leaking, 1) or any(16 <= samples < 40 for samples in samples_of_the_leaking_worker()),
                lambda: "a worker has done 16 samples",
            )
            later_truth, later_counters = counts()

            recycled = prometheus.query('bulkhead_worker_exits_total{cause="recycled"}[10m]')[0]["values"]
            ends = [int(value) for _, value in recycled]
            assert max(later - earlier for earlier, later in itertools.pairwise(ends)) >= 3  # between two scrapes
            for name in truth:
                assert counters[name].keys() == {"samples", "worker", "source", "stages[0] fault"}
                for counter, value in later_counters[name].items():
                    true = later_truth[name] - truth[name]
                    assert value - counters[name][counter] == pytest.approx(true, rel=0.05), (name, counter)

            expression = substituted(MEMORY.expression("Bytes kept a sample, by stage"), **VALUES)
            kept = {
                (series["metric"]["stream"], series["metric"]["stage"]): float(series["value"][1])
                for series in prometheus.query(f"({expression}){BY_STREAM}")
            }
            assert kept["leaking", "stages[0] fault"] == pytest.approx(LEAK, rel=0.1)
            assert kept["steady", "stages[0] fault"] == 0
