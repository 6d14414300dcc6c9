"""Are counters right in a real Prometheus when what counts is killed or replaced? The client's count is the truth."""

import itertools
import time

import bulkhead
from watched import Watched, spec_of, wait_until

BATCH = 8  # of spec_of
CREDITS = 4
DELIVERED = "bulkhead_samples_delivered_total"


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
