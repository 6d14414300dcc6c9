"""One loader over several replicas of the service: the batches of one, whatever happens to a replica."""

import contextlib
import json
import logging
import signal
import subprocess
import sys
import time

import pytest

import bulkhead
from bulkhead import errors
from bulkhead._fleet.keepers import Keepers
from bulkhead._fleet.member import HERE
from conftest import AUGMENTED, BIN, CLIENTS, finish_digest, go_on, start_digest, wait_for_pause, write_spec
from replicas import Replica, history, history_of, range_spec, targets


@pytest.fixture
def replicas(folder):
    """replicas(number, *options): that many services; in the end those that still run are stopped."""
    with contextlib.ExitStack() as running:
        count = 0

        def start(number, *options):
            nonlocal count
            started = []
            for _ in range(number):
                count += 1
                started.append(Replica(folder / f"replica{count}", *options))
                running.callback(started[-1].end)
            return started

        start.also = lambda replica: running.callback(replica.end)
        yield start


@pytest.mark.parametrize("client", CLIENTS)
def test_photos_have_the_bytes_of_one_service(folder, photos, replicas, client):
    spec = write_spec(
        folder / "photos.yaml",
        source={"image_folder": {"path": str(photos)}},
        stages=AUGMENTED,
        batch={"size": 16},
        order={"global": {}},
        seed=5,
        epochs=2,
    )
    one, two, three = replicas(3, "--root", "/")
    expected = finish_digest(start_digest(client, spec, target=one.target))
    assert finish_digest(start_digest(client, spec, target=",".join(targets([one, two, three])))) == expected
    assert two.samples() > 0 and three.samples() > 0


@pytest.mark.parametrize("last", ["drop", "pad", "partial"])
@pytest.mark.parametrize("world_size", [1, 3])
def test_order_epochs_and_cursors_are_those_of_one_service(folder, replicas, last, world_size):
    spec = range_spec(folder, 173, batch={"size": 8, "last": last})
    fleet = replicas(3)
    for rank in range(world_size):
        ranks = {"rank": rank, "world_size": world_size}
        assert history(spec, targets(fleet), **ranks) == history(spec, fleet[0].target, **ranks)


def test_a_cursor_goes_from_one_service_to_several_and_back(folder, replicas):
    spec = range_spec(folder)
    fleet = replicas(3)
    expected = history(spec, fleet[0].target)
    cursor = None
    came = []
    for number in range(6):
        target = targets(fleet) if number % 2 else fleet[1].target
        with bulkhead.Loader(spec, target, cursor=cursor, timeout=60) as loader:
            for _ in range(11):
                came.append(loader.next_batch())
            cursor = loader.state_dict()
    assert [(batch.positions, batch.cursor) for batch in came] == [(each[3], each[5]) for each in expected[:66]]


def test_unordered_streams_come_in_order(folder, replicas):
    spec = range_spec(folder, deterministic=False)
    fleet = replicas(2)
    came = history(spec, targets(fleet))
    assert [each[2] for each in came] == list(range(100))
    assert not any("completed" in each[5] for each in came)


@pytest.mark.parametrize("after", [0, 1, 17, 49, 50, 98])
def test_a_killed_replica_costs_no_batch_and_changes_none(folder, replicas, after):
    spec = range_spec(folder)
    fleet = replicas(3)
    expected = history(spec, fleet[0].target)
    with bulkhead.Loader(spec, targets(fleet), timeout=60) as loader:
        came = [history_of(loader.next_batch()) for _ in range(after)]
        fleet[1].kill()
        came += [history_of(batch) for batch in loader.stream()]
        assert came == expected
        assert loader.reconnects == (1 if after < 98 else loader.reconnects)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stop", ["kill", "end"])
def test_both_clients_go_on_when_a_replica_is_lost_and_comes_back(folder, replicas, client, stop):
    spec = range_spec(folder, 8000)
    fleet = replicas(3)
    expected = finish_digest(start_digest(client, spec, target=fleet[0].target))
    running = start_digest(client, spec, target=",".join(targets(fleet)), pause_after=100)
    assert running.stdout.readline() == "paused\n"
    getattr(fleet[1], stop)()
    running.stdin.write("\n")
    running.stdin.flush()
    replicas.also(fleet[1].again())
    came = finish_digest(running)
    told = came.pop("notes")
    assert client == "python" or any("was lost, and others make its batches" in line for line in told)
    assert came.pop("reconnects", 1) == 1 and came == {key: expected[key] for key in came}


@pytest.mark.parametrize("client", CLIENTS)
def test_both_clients_say_which_replica_differs_and_leave_out_one_that_is_not_there(folder, replicas, client):
    fleet = replicas(2)
    spec = range_spec(folder)
    gone = "127.0.0.1:9"
    assert finish_digest(start_digest(client, spec, target=f"{gone},{fleet[0].target}"))["batches"] == 100
    said = start_digest(client, spec, target=f"{gone},127.0.0.1:19").communicate(timeout=60)[0]
    error = json.loads(said.splitlines()[-1])["error"]
    assert error["reason"] == "SERVICE_UNAVAILABLE" and "none of the 2 replicas can serve" in error["message"]
    said = start_digest(client, spec, target="dns:///no-such-host.invalid:7077").communicate(timeout=60)[0]
    error = json.loads(said.splitlines()[-1])["error"]
    assert "the name no-such-host.invalid resolves to nothing" in error["message"]


@pytest.mark.parametrize("client", CLIENTS)
def test_both_clients_unite_the_quarantines(folder, replicas, client):
    # Long enough for notes to be sent before the end: what a service says last may come when the fleet has closed.
    spec = range_spec(folder, 48_000, errors={"policy": "substitute", "max_fraction": 0.2})
    fleet = replicas(3)
    [reference] = replicas(1)
    for number, replica in zip((10, 11, 300), fleet):
        for each in (replica, reference):
            subprocess.run([BIN / "bulkhead", "quarantine", "add", f"range@{number}", "--target", each.target], check=True)
    expected, came = (
        finish_digest(start_digest(client, spec, target=target)) for target in (reference.target, ",".join(targets(fleet)))
    )
    assert expected.pop("notes") and came.pop("notes")  # each service sums up its own substitutions
    assert came == expected


def test_all_replicas_are_replaced_one_after_another_while_the_trainer_works(folder, replicas, caplog):
    spec = range_spec(folder, 1600, epochs=1)
    fleet = replicas(3)
    expected = history(spec, fleet[0].target)
    gaps = []
    with bulkhead.Loader(spec, targets(fleet), timeout=60) as loader:
        came = []
        for number in range(200):
            if number % 40 == 20 and number < 120:
                old = fleet[number // 40]
                if number // 40 == 1:
                    old.kill()
                else:
                    old.end()
                fleet[number // 40] = old.again()
                replicas.also(fleet[number // 40])
            began = time.monotonic()
            came.append(history_of(loader.next_batch()))
            gaps.append(time.monotonic() - began)
            time.sleep(0.02)
        assert loader.next_batch() is None
        assert loader.reconnects == 3
    assert came == expected
    assert max(gaps) < 2.0
    assert all(replica.samples() > 0 for replica in fleet), "those that came back make batches"


def test_when_the_last_replica_is_lost_the_loader_waits_for_one(folder, replicas):
    spec = range_spec(folder)
    fleet = replicas(2)
    expected = history(spec, fleet[0].target)
    with bulkhead.Loader(spec, targets(fleet), timeout=60) as loader:
        came = [history_of(loader.next_batch()) for _ in range(10)]
        for replica in fleet:
            replica.kill()
        replicas.also(fleet[1].again())
        came += [history_of(batch) for batch in loader.stream()]
    assert came == expected


def test_it_gives_up_when_none_comes_back(folder, replicas):
    fleet = replicas(2)
    with bulkhead.Loader(range_spec(folder), targets(fleet), timeout=60, reconnect_timeout=1.0) as loader:
        loader.next_batch()
        for replica in fleet:
            replica.kill()
        with pytest.raises(errors.ServiceUnavailable, match="tried to reconnect for"):
            for _ in loader.stream():
                pass


def test_a_replica_that_stands_still_does_not_hold_up_the_others(folder, replicas):
    spec = range_spec(folder, 1600, epochs=1)
    fleet = replicas(3)
    expected = history(spec, fleet[0].target)
    gaps = []
    with bulkhead.Loader(spec, targets(fleet), timeout=60) as loader:
        came = []
        for number in range(200):
            if number == 50:
                fleet[2].process.send_signal(signal.SIGSTOP)
            if number == 150:
                fleet[2].process.send_signal(signal.SIGCONT)
            began = time.monotonic()
            came.append(history_of(loader.next_batch()))
            gaps.append(time.monotonic() - began)
    assert came == expected
    assert max(gaps) < 3.0, "silence is noticed after 10 s only"


def target_file(folder, *named):
    """A file that names these, from now on."""
    file = folder / "replicas.yaml"
    file.write_text(f"target: {', '.join(named)}\n")
    return file


def test_replicas_join_and_leave_by_the_target_file(folder, replicas):
    spec = range_spec(folder, 4000, epochs=1)
    fleet = replicas(3)
    expected = history(spec, fleet[0].target)
    file = target_file(folder, fleet[0].target, fleet[1].target)
    with bulkhead.Loader(spec, str(file), timeout=60) as loader:
        came = [history_of(loader.next_batch()) for _ in range(50)]
        before = fleet[2].samples()
        target_file(folder, fleet[1].target, fleet[2].target)
        until = time.monotonic() + 30
        while fleet[2].samples() == before or fleet[0].target in loader._stream.shares():
            assert time.monotonic() < until
            if len(came) < 400:
                came.append(history_of(loader.next_batch()))
            time.sleep(0.05)
        left = fleet[0].samples()
        came += [history_of(batch) for batch in loader.stream()]
        assert fleet[0].samples() == left
    assert came == expected


def test_a_fleet_may_begin_with_one_replica(folder, replicas, caplog):
    caplog.set_level(logging.INFO, "bulkhead")
    spec = range_spec(folder, 4000, epochs=1)
    fleet = replicas(3)
    expected = history(spec, fleet[0].target)
    file = target_file(folder, fleet[0].target)
    with bulkhead.Loader(spec, str(file), timeout=60) as loader:
        came = [history_of(loader.next_batch()) for _ in range(20)]
        target_file(folder, fleet[1].target, fleet[2].target, "127.0.0.1:1")
        fleet[0].process.kill()
        came += [history_of(batch) for batch in loader.stream()]
        assert fleet[1].samples() and fleet[2].samples()
    assert came == expected
    [line] = [record.getMessage() for record in caplog.records if "left out for now" in record.getMessage()]
    assert line.startswith("the replica at 127.0.0.1:1 is left out for now: ")


def test_a_fleet_of_the_cpp_client_may_begin_with_one_replica(folder, replicas):
    spec = range_spec(folder, 4000, epochs=1)
    fleet = replicas(3)
    expected = finish_digest(start_digest("cpp", spec, target=fleet[0].target))["digest"]
    before = fleet[1].samples() + fleet[2].samples()
    client = start_digest("cpp", spec, target=target_file(folder, fleet[0].target), pause_after=20)
    wait_for_pause(client)
    target_file(folder, fleet[1].target, fleet[2].target)
    fleet[0].process.kill()
    go_on(client)
    assert finish_digest(client)["digest"] == expected
    assert fleet[1].samples() + fleet[2].samples() > before


def test_one_replica_of_a_target_file_is_asked(folder, replicas):
    fleet = replicas(2)
    file = target_file(folder, fleet[0].target, fleet[1].target, fleet[0].target)

    def status(target):
        return subprocess.run([BIN / "bulkhead", "status", "--json", "--target", target], capture_output=True, text=True, check=False)

    for replica in fleet:
        one = f"{file}#{replica.target}"
        assert int(json.loads(status(one).stdout)["pid"]) == replica.process.pid == bulkhead.service_status(one)["pid"]
        with bulkhead.Loader(range_spec(folder), one, timeout=60) as loader:
            assert len(list(loader.stream())) == 100
    assert f"names several services ({fleet[0].target}, " in status(file).stderr
    assert f"name it, as in {file}#{fleet[0].target}" in status(file).stderr
    assert f"{file} names no service 'h:1', but" in status(f"{file}#h:1").stderr


def test_the_quarantine_is_that_of_all_replicas(folder, replicas):
    spec = range_spec(folder, errors={"policy": "substitute", "max_fraction": 0.2})
    fleet = replicas(3)
    for replica, records in zip(fleet, (["range@10"], ["range@11", "range@300"], [])):
        for record in records:
            subprocess.run([BIN / "bulkhead", "quarantine", "add", record, "--target", replica.target], check=True)
    came = history(spec, targets(fleet))
    [reference] = replicas(1)
    for record in ("range@10", "range@11", "range@300"):
        subprocess.run([BIN / "bulkhead", "quarantine", "add", record, "--target", reference.target], check=True)
    assert came == history(spec, reference.target)
    assert came[-2][5]["quarantined"] == ["range@10", "range@11", "range@300"] and came[-2][5]["substitutions"] == 3


def test_max_fraction_counts_the_substitutions_of_all_replicas(folder, replicas):
    fleet = replicas(2)
    records = [f"range@{number}" for number in range(0, 400, 40)]  # 10 of 400
    for replica in fleet:
        subprocess.run([BIN / "bulkhead", "quarantine", "add", *records, "--target", replica.target], check=True)
    for fraction, enough in ((0.025, True), (0.02, False)):
        spec = range_spec(folder, errors={"policy": "substitute", "max_fraction": fraction})
        if enough:
            assert history(spec, targets(fleet)) == history(spec, fleet[0].target)
            continue
        for target in (targets(fleet), fleet[0].target):
            came = []
            with bulkhead.Loader(spec, target, timeout=60) as loader:
                with pytest.raises(errors.BulkheadError, match="needed 9 substitutions on this rank") as failure:
                    for batch in loader.stream():
                        came.append(batch.sequence)
            assert failure.value.reason == "TOO_MANY_SUBSTITUTIONS" and type(failure.value) is errors.DataError
            assert came == list(range(len(came)))


def test_a_record_that_ends_workers_is_left_out_by_all_from_one_batch_on(folder, replicas):
    spec = range_spec(
        folder,
        800,
        epochs=1,
        stages=[{"fault": {"crash": True, "records": [777]}}],
        errors={"policy": "substitute", "max_fraction": 0.2},
    )
    options = ("--allow-fault-stages",)
    fleet = replicas(3, *options)
    came = history(spec, targets(fleet))
    values = sorted(position for each in came for position in each[3])
    assert values == list(range(800))
    assert came[-1][5]["quarantined"] == ["range@777"]
    [reference] = replicas(1, *options)
    subprocess.run([BIN / "bulkhead", "quarantine", "add", "range@777", "--target", reference.target], check=True)
    assert [each[0] for each in came] == [each[0] for each in history(spec, reference.target)]


@pytest.fixture
def without_folder(monkeypatch):
    """Relative paths of a spec start from each service's own data root."""
    load = bulkhead._loader.load
    monkeypatch.setattr("bulkhead._loader.load", lambda spec: load(spec)._replace(base_dir=""))


def photo_spec(folder):
    return write_spec(
        folder / "photos.yaml",
        source={"image_folder": {"path": "photos"}},
        stages=AUGMENTED,
        batch={"size": 16},
        epochs=1,
    )


def test_a_replica_without_the_data_is_left_out_with_a_warning(folder, photos, replicas, caplog, without_folder):
    [good] = replicas(1, "--root", photos.parent)
    empty = folder / "empty"
    empty.mkdir()
    [bad] = replicas(1, "--root", empty)
    spec = photo_spec(folder)
    with caplog.at_level(logging.WARNING, "bulkhead"):
        came = history(spec, [bad.target, good.target])
    assert came == history(spec, good.target)
    [line] = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert bad.target in line and "photos" in line
    with pytest.raises(errors.BulkheadError, match=f"none of the 2 replicas can serve.*{bad.target}"):
        bulkhead.Loader(spec, [bad.target, "127.0.0.1:9"], timeout=60)


def test_replicas_of_other_data_are_an_error_that_says_which_and_what(folder, photos, replicas, without_folder):
    other = folder / "other" / "photos"
    other.mkdir(parents=True)
    for number, path in enumerate(sorted(photos.rglob("*.jpg"))[:40]):
        (other / path.parent.name).mkdir(exist_ok=True)
        (other / path.parent.name / path.name).write_bytes(path.read_bytes())
    [one] = replicas(1, "--root", photos.parent)
    [two] = replicas(1, "--root", other.parent)
    with pytest.raises(errors.CursorMismatch) as failure:
        bulkhead.Loader(photo_spec(folder), [one.target, two.target], timeout=60)
    message = str(failure.value)
    assert one.target in message and two.target in message
    assert "the data or its order" in message and "the number of samples" in message


def picky_spec(folder):
    stage = {"function": "picky:stage", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    return range_spec(folder, epochs=1, order={"sequential": {}}, stages=[{"python": stage}])


def test_replicas_of_other_code_are_an_error_that_says_which_and_what(folder, replicas):
    fleet = []
    for number in range(2):
        code = folder / f"code{number}"
        code.mkdir()
        (code / "picky.py").write_text(f"def stage(index):\n    return index + {number}\n")
        fleet += replicas(1, "--python-path", code, "--python", sys.executable)
    with pytest.raises(errors.CursorMismatch) as failure:
        bulkhead.Loader(picky_spec(folder), targets(fleet), timeout=60)
    message = str(failure.value)
    assert fleet[0].target in message and fleet[1].target in message and "different: the processing (" in message


def test_a_bad_record_is_the_error_of_one_service(folder, replicas):
    (folder / "picky.py").write_text(
        "def stage(index):\n    if index == 333:\n        raise ValueError('no 333')\n    return index\n"
    )
    spec = picky_spec(folder)
    fleet = replicas(2, "--python-path", folder, "--python", sys.executable)
    seen = {}
    for name, target in (("one", fleet[0].target), ("fleet", targets(fleet))):
        came = seen[name] = []
        with bulkhead.Loader(spec, target, timeout=60) as loader:
            with pytest.raises(errors.BulkheadError) as failure:
                for batch in loader.stream():
                    came.append(batch.sequence)
        came.append((type(failure.value), failure.value.reason, "no 333" in str(failure.value)))
    assert seen["one"] == seen["fleet"] and seen["one"][-2] == 40


def test_a_name_stands_for_all_its_addresses(folder, replicas):
    [replica] = replicas(1)
    spec = range_spec(folder)
    # `localhost` may have two addresses, of which the service listens at one.
    assert history(spec, f"dns:///localhost:{replica.port}") == history(spec, replica.target)


def test_a_name_that_resolves_to_nothing_is_an_error_that_says_so(folder):
    with pytest.raises(errors.ServiceUnavailable, match="the name no-such-host.invalid resolves to nothing"):
        bulkhead.Loader(range_spec(folder), "dns:///no-such-host.invalid:7077", timeout=60)


@pytest.mark.parametrize("late", [False, True])
def test_one_service_by_two_addresses_counts_once(folder, replicas, caplog, monkeypatch, late):
    """`late`: the stream by the second address takes the place of the first one's, which has just come."""
    [replica] = replicas(1)
    spec = range_spec(folder)
    twice = [replica.target, f"localhost:{replica.port}"]
    expected = history(spec, replica.target)
    if late:
        opens = Keepers._try

        def opens_when_the_first_is_here(keepers, member, request):
            first = keepers.members[next(iter(keepers.members))]
            while member is not first and first.state != HERE:
                time.sleep(0.01)
            opens(keepers, member, request)

        monkeypatch.setattr(Keepers, "_try", opens_when_the_first_is_here)
    with bulkhead.Loader(spec, twice, timeout=60) as loader:
        assert [history_of(batch) for batch in loader.stream()] == expected
        assert len(loader._stream.shares()) == 1
    assert "by another address" in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_one_service_by_two_addresses_gives_each_batch_once(folder, replicas, client):
    [replica] = replicas(1)
    spec = range_spec(folder)
    expected = finish_digest(start_digest(client, spec, target=replica.target))
    twice = f"{replica.target},localhost:{replica.port}"
    told = finish_digest(start_digest(client, spec, target=twice))
    # The first stream may be here already when the second one takes its place.
    assert {**told, "notes": [], "reconnects": 0} == {**expected, "notes": []}
    assert client == "python" or "by another address" in "".join(told["notes"])


def test_a_trainer_that_does_not_take_bounds_what_is_made(folder, replicas):
    fleet = replicas(2)
    with bulkhead.Loader(range_spec(folder, 8000), targets(fleet), credits=3, timeout=60) as loader:
        loader.next_batch()
        until = time.monotonic() + 20
        while sum(replica.samples() for replica in fleet) < 8 * (1 + 3 + 2 * 2):
            assert time.monotonic() < until
            time.sleep(0.02)
        time.sleep(0.3)
        assert sum(replica.samples() for replica in fleet) == 8 * (1 + 3 + 2 * 2)
        assert loader.stats.ready_batches == 3 + 2 * 2
