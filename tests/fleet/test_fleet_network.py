"""Three replicas on hosts of their own, over mutual TLS: the batches of one service, whatever the network does."""

import contextlib
import threading
import time

import pytest
from conftest import AUGMENTED, CLIENTS, finish_digest, folder, photos, start_digest, write_spec  # noqa: F401 (fixtures)
from hosts import Host, clock, enter_a_network_of_its_own, mutual_tls
from replicas import Replica, history, history_of, range_spec, targets

import bulkhead
from bulkhead._stream import silence

HOSTS = 3


@pytest.fixture(scope="module")
def hosts():
    with contextlib.ExitStack() as end:
        try:
            enter_a_network_of_its_own()
        except OSError as refused:
            pytest.skip(f"only root makes networks: {refused}")
        yield [end.enter_context(contextlib.closing(Host(number))) for number in range(1, HOSTS + 1)]


@pytest.fixture(scope="module")
def access(hosts, tmp_path_factory):
    """The options of a service that the trainer may stream from; the trainer's certificate is in the environment."""
    options, environment = mutual_tls(hosts, tmp_path_factory.mktemp("certificates"))
    with pytest.MonkeyPatch.context() as patch:
        for name, path in environment.items():
            patch.setenv(name, path)
        yield options


@pytest.fixture
def fleet(folder, hosts, access):  # noqa: F811
    """fleet(clocks) starts a replica on each host; in the end those that still run are stopped."""
    with contextlib.ExitStack() as running:

        def start(clocks=((),) * HOSTS):
            replicas = []
            for host, words in zip(hosts, clocks):
                replicas.append(Replica(folder / host.address, "--root", "/", address=host.address, access=access,
                                        command=[*host.command, *words]))
                running.callback(replicas[-1].end)
            return replicas

        start.also = lambda replica: running.callback(replica.end)
        yield start


@pytest.fixture
def photo_spec(folder, photos):  # noqa: F811
    return write_spec(
        folder / "photos.yaml",
        source={"image_folder": {"path": str(photos)}},
        stages=AUGMENTED,
        batch={"size": 16},
        order={"global": {}},
        seed=5,
        epochs=4,
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_both_clients_get_the_bytes_of_one_replica(fleet, photo_spec, client):
    replicas = fleet()
    expected = finish_digest(start_digest(client, photo_spec, target=replicas[0].target))
    assert finish_digest(start_digest(client, photo_spec, target=",".join(targets(replicas)))) == expected
    assert all(replica.samples() > 0 for replica in replicas[1:])


def test_a_rolling_restart_under_load_loses_and_repeats_nothing(fleet, photo_spec):
    replicas = fleet()
    expected = history(photo_spec, replicas[0].target)
    with bulkhead.Loader(photo_spec, targets(replicas), timeout=60) as loader:
        came = []
        for number, old in enumerate(replicas):
            came += [history_of(loader.next_batch()) for _ in range(8)]
            old.end()
            replicas[number] = old.again()
            fleet.also(replicas[number])
        came += [history_of(batch) for batch in loader.stream()]
        assert loader.reconnects == HOSTS
    assert came == expected


@pytest.fixture
def short_silence(monkeypatch):
    """What a client takes for the loss of its replica: 1 s of silence instead of 10 s."""
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 1.0)


def test_a_partition_that_heals_is_not_noticed_by_the_trainer(fleet, folder, hosts, short_silence):  # noqa: F811
    replicas = fleet()
    spec = range_spec(folder, 16000, epochs=1)
    expected = history(spec, replicas[0].target)
    with bulkhead.Loader(spec, targets(replicas), timeout=60) as loader:
        came = [history_of(loader.next_batch()) for _ in range(50)]

        def take_until(true):
            deadline = time.monotonic() + 60
            while not true():
                assert time.monotonic() < deadline
                for _ in range(20):
                    came.append(history_of(loader.next_batch()))
                    time.sleep(0.01)

        hosts[1].cut()
        try:
            healed = time.monotonic() + 3.0
            take_until(lambda: time.monotonic() > healed)
        finally:
            hosts[1].heal()
        before = replicas[1].samples()
        take_until(lambda: replicas[1].samples() > before + 80)
        came += [history_of(batch) for batch in loader.stream()]
    assert came == expected


def test_a_trainer_that_reaches_nobody_waits_and_goes_on(fleet, folder, hosts, short_silence):  # noqa: F811
    replicas = fleet()
    spec = range_spec(folder, 1600, epochs=1)
    expected = history(spec, replicas[0].target)
    with bulkhead.Loader(spec, targets(replicas), timeout=60) as loader:
        came = [history_of(loader.next_batch()) for _ in range(20)]
        for host in hosts:
            host.cut()
        heal = threading.Timer(3.0, lambda: [host.heal() for host in hosts])
        heal.start()
        came += [history_of(batch) for batch in loader.stream()]
        heal.join()
        assert loader.reconnects == HOSTS
    assert came == expected


def test_a_slow_link_gets_a_small_share(fleet, photo_spec, hosts):
    replicas = fleet()
    expected = history(photo_spec, replicas[0].target)
    hosts[2].limit("16mbit")
    try:
        before = [replica.samples() for replica in replicas]
        assert history(photo_spec, targets(replicas)) == expected
        shares = [replica.samples() - samples for replica, samples in zip(replicas, before)]
    finally:
        hosts[2].limit(None)
    assert shares[2] < min(shares[:2])


def test_clocks_an_hour_apart_change_nothing(fleet, photo_spec):
    replicas = fleet((clock("+1h"), clock("-1h"), ()))
    expected = history(photo_spec, replicas[2].target)
    assert history(photo_spec, targets(replicas)) == expected
    assert all(replica.samples() > 0 for replica in replicas[:2])
