"""Rates between two readings."""

from bulkhead import LoaderStats, Meter
from bulkhead import _meter


class Fake:
    rank = 0
    stats = None


def stats(samples, wait):
    return LoaderStats(samples // 8, samples, 100 * samples, wait, 1, 2, 3)


def test_rates_are_since_the_last_reading(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(_meter.time, "monotonic", lambda: clock[0])
    loader = Fake()
    meter = Meter(loader)
    loader.stats, clock[0] = stats(80, 1.0), 104.0
    assert meter.read() == {
        "loader/samples_per_second": 20.0,
        "loader/wait_share": 0.25,
        "loader/ready_batches": 2.0,
        "loader/held_slots": 3.0,
        "loader/reconnects": 1.0,
    }
    loader.stats, clock[0] = stats(240, 1.0), 106.0
    second = meter.read()
    assert (second["loader/samples_per_second"], second["loader/wait_share"]) == (80.0, 0.0)
    loader.stats, clock[0] = stats(16, 0.5), 107.0  # the loader of another epoch
    third = meter.read()
    assert (third["loader/samples_per_second"], third["loader/wait_share"]) == (16.0, 0.5)


def test_ranks_have_names_of_their_own():
    loader = Fake()
    loader.rank = 3
    assert "loader/rank3/wait_share" in Meter(loader).read()
    assert "loader/rank1/wait_share" in Meter(loader, rank=1).read()
