"""A lost service is a longer wait and nothing else, with both clients."""

import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import CLIENTS, go_on
from data import range_spec, shuffled_records, tfrecord_spec, write_tfrecord
from test_conformance import digest_of


def children_of(pid):
    """Processes whose parent is `pid`, the dead ones left out."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def the_same_but_for_reconnects(result, undisturbed):
    return {**result, "reconnects": 0} == {**undisturbed, "reconnects": 0}


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_a_restarted_service_goes_on_where_the_killed_one_was(client, own_service, folder, transport):
    spec = shuffled_records(folder)
    undisturbed = client.ok(spec, own_service.target, transport="grpc")
    assert undisturbed["samples"] == 900 and undisturbed["reconnects"] == 0
    process = client.pausing(spec, own_service.target, pause_after=20, timeout=30, transport=transport)
    own_service.restart()
    go_on(process)
    result = client.finish(process)
    assert the_same_but_for_reconnects(result, undisturbed)
    assert result["reconnects"] == 1


@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_several_kills_at_any_time(client, own_service, folder, transport):
    spec = range_spec(folder / "s.yaml", size=20_000, epochs=2, order={"global": {}}, seed=2)
    undisturbed = client.ok(spec, own_service.target, transport="grpc")
    process = client.pausing(spec, own_service.target, pause_after=1, timeout=30, transport=transport)
    own_service.restart()
    go_on(process)
    kills = 1
    while process.poll() is None and kills < 5:
        try:  # the kills fall where they fall; the digest does not depend on it
            process.wait(0.15)
        except subprocess.TimeoutExpired:
            own_service.restart()
            kills += 1
    result = client.finish(process)
    assert the_same_but_for_reconnects(result, undisturbed)
    assert 1 <= result["reconnects"] <= kills


def test_a_stopped_service_may_be_followed_by_another(client, own_service, folder):
    spec = shuffled_records(folder)
    undisturbed = client.ok(spec, own_service.target)
    process = client.pausing(spec, own_service.target, pause_after=20, timeout=30)
    own_service.stop()  # SIGTERM: SHUTTING_DOWN
    own_service.start()
    go_on(process)
    result = client.finish(process)
    assert the_same_but_for_reconnects(result, undisturbed)
    assert result["reconnects"] == 1


def test_a_service_killed_behind_the_last_batch(client, own_service, folder):
    spec = range_spec(folder / "s.yaml", size=20)
    process = client.pausing(spec, own_service.target, pause_after=3, timeout=30)
    own_service.restart()
    go_on(process)
    result = client.finish(process)
    assert "error" not in result and result["digest"] == digest_of(range(20))


def test_while_it_reconnects_next_keeps_its_own_deadline(client, own_service, folder):
    spec = range_spec(folder / "s.yaml", size=10**9)
    process = client.pausing(spec, own_service.target, pause_after=2, timeout=1)
    own_service.kill()
    started = time.monotonic()
    go_on(process)
    result = client.finish(process)
    assert result["error"]["reason"] == "DEADLINE_EXCEEDED"
    assert "is being reconnected" in result["error"]["message"]
    assert time.monotonic() - started < 30  # far below the deadline of reconnecting, 120 s


def test_without_a_reconnect_deadline_the_first_loss_is_an_error(client, own_service, folder):
    spec = range_spec(folder / "s.yaml", size=10**9)
    process = client.pausing(
        spec, own_service.target, pause_after=2, timeout=30, reconnect_deadline=0
    )
    own_service.restart()
    go_on(process)
    result = client.finish(process)
    assert result["error"]["reason"] == "SERVICE_UNAVAILABLE"
    assert result["reconnects"] == 0


def test_data_that_changed_meanwhile_is_refused(client, own_service, folder):
    spec = shuffled_records(folder)
    process = client.pausing(spec, own_service.target, pause_after=2, timeout=30)
    own_service.kill()
    write_tfrecord(folder / "a.tfrecord", range(1, 101))
    own_service.start()
    go_on(process)
    result = client.finish(process)
    assert result["error"]["reason"] == "CURSOR_MISMATCH"


def test_a_superseded_client_does_not_come_back(client, own_service, folder):
    spec = range_spec(folder / "s.yaml", size=10**9)
    older = client.pausing(spec, own_service.target, name="train", pause_after=1, timeout=30)
    newer = client.pausing(spec, own_service.target, name="train", pause_after=1, timeout=30)
    go_on(older)
    result = client.finish(older)
    assert result["error"]["reason"] == "SUPERSEDED"
    assert result["reconnects"] == 0
    assert newer.poll() is None
    newer.kill()
    newer.communicate()


def test_a_killed_embedded_service_is_started_again(client, folder, tmp_path):
    environment = {"XDG_RUNTIME_DIR": tmp_path, "XDG_CACHE_HOME": tmp_path}
    options = {"environment": environment, "workers": 1, "threads": 1, "timeout": 30}
    spec = shuffled_records(folder)
    undisturbed = client.ok(spec, **options)
    process = client.pausing(spec, pause_after=20, **options)
    [service] = children_of(process.pid)
    os.kill(service, signal.SIGKILL)
    go_on(process)
    result = client.finish(process)
    assert the_same_but_for_reconnects(result, undisturbed)
    assert result["reconnects"] == 1
    assert not list(tmp_path.glob("bulkhead-*")), "neither folder is left"


def many_files(folder, count=250):
    """Files of a record each: a service that knows none of them prepares for a while."""
    for number in range(count):
        write_tfrecord(folder / f"{number}.tfrecord", [number % 100])
    return tfrecord_spec(
        folder / "s.yaml", "*.tfrecord", order={"global": {}}, seed=5, batch={"size": 50}
    )


@pytest.mark.parametrize("transport", ["auto", "shm", "grpc"])
def test_a_service_killed_while_it_prepares(client, own_service, folder, transport):
    spec = many_files(folder)
    undisturbed = client.ok(spec, own_service.target, transport=transport)
    own_service.kill()
    shutil.rmtree(own_service.folder / "cache")
    own_service.start()
    process = client.pausing(
        spec, own_service.target, transport=transport, pause_in_opening=True, timeout=30
    )
    own_service.restart()
    go_on(process)
    result = client.finish(process)
    assert the_same_but_for_reconnects(result, undisturbed)
    assert result["reconnects"] == 1


def test_a_service_stopped_while_it_prepares(client, own_service, folder):
    spec = many_files(folder)
    process = client.pausing(spec, own_service.target, pause_in_opening=True, timeout=30)
    own_service.stop()  # SIGTERM: SHUTTING_DOWN
    go_on(process)
    time.sleep(0.2)  # so that it also meets that nobody listens
    own_service.start()
    result = client.finish(process)
    assert result["samples"] == 250 and result["reconnects"] == 1, result


def test_an_embedded_service_killed_while_it_prepares(client, folder, tmp_path):
    spec = many_files(folder)
    environment = {"XDG_RUNTIME_DIR": tmp_path, "XDG_CACHE_HOME": tmp_path}
    options = {"environment": environment, "workers": 1, "threads": 1, "timeout": 30}
    process = client.pausing(spec, pause_in_opening=True, **options)
    [service] = children_of(process.pid)
    os.kill(service, signal.SIGKILL)
    go_on(process)
    result = client.finish(process)
    assert result["samples"] == 250 and result["reconnects"] == 1, result
    assert the_same_but_for_reconnects(client.ok(spec, **options), result)
    assert not list(tmp_path.glob("bulkhead-*")), "neither folder is left"


def test_a_service_that_does_not_come_back_while_it_prepared(client, own_service, folder):
    spec = many_files(folder)
    process = client.pausing(
        spec, own_service.target, pause_in_opening=True, timeout=30, reconnect_deadline=0.5
    )
    own_service.kill()
    go_on(process)
    error = client.finish(process)["error"]
    assert error["reason"] == "SERVICE_UNAVAILABLE" and "tried to reconnect for" in error["message"]


def test_without_a_reconnect_deadline_a_loss_while_it_prepares_is_an_error(
    client, own_service, folder
):
    spec = many_files(folder)
    process = client.pausing(
        spec, own_service.target, pause_in_opening=True, timeout=30, reconnect_deadline=0
    )
    own_service.restart()
    go_on(process)
    error = client.finish(process)["error"]
    assert error["reason"] == "SERVICE_UNAVAILABLE" and "tried" not in error["message"]


class CutsAfter:
    """Passes connections on to a Unix socket, and ends each one once so many bytes have come from there."""

    def __init__(self, path, behind, count):
        self.target, self.connections = f"unix:{path}", 0
        self._behind, self._count = behind, count
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            near, _ = self._listener.accept()
            self.connections += 1
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._behind)
            threading.Thread(target=self._forward, args=(near, far), daemon=True).start()

    def _forward(self, near, far):
        left = self._count
        with near, far:
            while left > 0:
                for each in select.select([near, far], [], [])[0]:
                    data = each.recv(1 << 16)
                    if not data:
                        return
                    if each is far:
                        data = data[:left]
                        left -= len(data)
                    (near if each is far else far).sendall(data)


def test_a_service_that_opens_streams_and_loses_them_is_asked_less_and_less(client, own_service, tmp_path, folder):
    # Enough for what a stream opens with, too little for its first batch of 8 MB.
    proxy = CutsAfter(tmp_path / "proxy.sock", own_service.target.removeprefix("unix:"), 1 << 20)
    spec = range_spec(folder / "s.yaml", size=10**9, batch={"size": 1 << 20})
    error = client.error(spec, proxy.target, transport="grpc", reconnect_deadline=12)
    assert error["reason"] == "SERVICE_UNAVAILABLE" and "tried to reconnect for" in error["message"]
    # After 0, 0.05, 0.1, 0.2, 0.4, 0.8, 1, 1 … s, or less often where a busy machine opens slowly; and each client may look
    # at the service once more by itself.
    assert 3 <= proxy.connections <= 36


def test_where_no_service_ever_answered_nothing_is_tried_again(client, tmp_path, folder):
    started = time.monotonic()
    error = client.error(range_spec(folder / "s.yaml"), f"unix:{tmp_path}/nobody.sock")
    assert error["reason"] == "SERVICE_UNAVAILABLE" and "tried" not in error["message"]
    assert time.monotonic() - started < 60  # far below the deadline of reconnecting, 120 s


def test_both_clients_agree_after_a_kill(own_service, folder):
    spec = shuffled_records(folder)
    results = []
    for one in CLIENTS.values():
        process = one.pausing(spec, own_service.target, pause_after=7, timeout=30)
        own_service.restart()
        go_on(process)
        results.append(one.finish(process))
    assert results[0] == results[1]
