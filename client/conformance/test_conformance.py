"""What both clients must do alike against the same service."""

import hashlib
import json
import socket
import struct
import subprocess
import time

import pytest
from conftest import BIN, CLIENTS
from data import range_spec, tfrecord_spec, write_runs, write_spec, write_tfrecord


def digest_of(values):
    return hashlib.sha256(struct.pack(f"<{len(values)}q", *values)).hexdigest()


# Batches.


def test_a_range_arrives_whole_and_in_order(client, service, folder):
    result = client.ok(range_spec(folder / "s.yaml", size=100), service.target)
    assert result["digest"] == digest_of(range(100))
    assert (result["batches"], result["samples"]) == (13, 100)
    assert result["cursor"]["epoch"] == 1 and result["cursor"]["consumed"] == 0


@pytest.mark.parametrize(
    "last,batches,samples,valid",
    [("partial", 3, 20, 20), ("drop", 2, 16, 16), ("pad", 3, 24, 20)],
)
def test_the_last_batch(client, service, folder, last, batches, samples, valid):
    spec = range_spec(folder / "s.yaml", batch={"size": 8, "last": last})
    result = client.ok(spec, service.target)
    values = [*range(20), *range(4)][:samples]
    assert result["digest"] == digest_of(values)
    assert (result["batches"], result["samples"], result["valid"]) == (batches, samples, valid)


def test_what_was_handed_out_is_counted(client, service, folder):
    spec = range_spec(folder / "s.yaml", batch={"size": 8, "last": "pad"}, epochs=2)
    result = client.ok(spec, service.target)
    assert result["stats"] == [6, 40, 8 * 48]  # batches, genuine samples, bytes


@pytest.mark.parametrize("transport", ["shm", "grpc"])
@pytest.mark.parametrize("at", ["worker", "trainer"])
def test_both_normalize_as_workers_do(client, service, folder, transport, at):
    stages = [
        {"one_hot": {"input": "index", "classes": 20}}, {"cast": {"input": "index", "dtype": "uint8"}},
        {"normalize": {"input": "index", "mean": 0.1, "std": 0.3, "at": at}}, {"cast": {"input": "index", "dtype": "float16"}},
    ]
    result = client.ok(range_spec(folder / "s.yaml", stages=stages), service.target, transport=transport)
    # (0 − 0.1) / 0.3 and (1 − 0.1) / 0.3 in float32, rounded to float16.
    zero, one = (struct.pack("<e", value) for value in (-0.33333334, 2.9999998))
    rows = b"".join(one if i == k else zero for i in range(20) for k in range(20))
    assert result["digest"] == hashlib.sha256(rows).hexdigest()
    assert result["stats"][2] == 400 * (2 if at == "worker" else 1)


def test_epochs_follow_each_other(client, service, folder):
    result = client.ok(range_spec(folder / "s.yaml", size=10, batch=4, epochs=3), service.target)
    assert result["digest"] == digest_of([*range(10)] * 3)
    assert result["epochs_ended"] == 3


def test_a_stream_may_stop_early(client, service, folder):
    result = client.ok(range_spec(folder / "s.yaml", size=10**6), service.target, batches=5)
    assert result["digest"] == digest_of(range(40))


def test_one_batch_of_credit_is_enough(client, service, folder):
    spec = range_spec(folder / "s.yaml", size=200)
    result = client.ok(spec, service.target, credit_batches=1)
    assert result["digest"] == digest_of(range(200))


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_both_share_what_is_made_once(own_service, folder, transport):
    spec = range_spec(folder / "s.yaml", size=4000)
    options = {"share": True, "pause_after": 3, "transport": transport}
    running = {name: client.pausing(spec, own_service.target, **options) for name, client in CLIENTS.items()}
    for process in running.values():
        process.stdin.write("\n")
        process.stdin.flush()
    for name, client in CLIENTS.items():
        assert client.finish(running[name])["digest"] == digest_of(range(4000))
    assert "2 streams share batches" in (own_service.folder / "log").read_text()


def test_ranks_share_the_data(client, service, folder):
    spec = range_spec(folder / "s.yaml", size=32)
    for rank in range(2):
        result = client.ok(spec, service.target, rank=rank, world_size=2)
        mine = [value for value in range(32) if value // 8 % 2 == rank]
        assert result["digest"] == digest_of(mine)


@pytest.mark.parametrize("last", ["partial", "pad"])
def test_packed_rows_and_their_offsets(client, service, folder, last):
    write_runs(folder / "runs.tfrecord", range(10))
    spec = write_spec(
        folder / "s.yaml",
        source={"tfrecord": {"files": "runs.tfrecord"}},
        features={"runs": {"int64": {"shape": [-1], "max_count": 5}}},
        batch={"size": 4, "last": last},
        batch_stages=["pack_rows"],
        epochs=1,
    )
    result = client.ok(spec, service.target)
    values = []
    for batch in [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9] if last == "partial" else [8, 9, 0, 1]]:
        counts = [i % 4 for i in batch]
        values += [i for i in batch for _ in range(i % 4)]
        values += [sum(counts[:i]) for i in range(len(counts) + 1)] + counts
    assert result["digest"] == digest_of(values)


def test_records_and_a_shuffle_give_both_clients_the_same_bytes(service, folder):
    write_tfrecord(folder / "a.tfrecord", range(30))
    write_tfrecord(folder / "b.tfrecord", range(30, 50))
    spec = tfrecord_spec(
        folder / "s.yaml", "*.tfrecord", order={"global": {}}, seed=7, epochs=2, batch={"size": 16}
    )
    results = {name: one.ok(spec, service.target) for name, one in CLIENTS.items()}
    assert results["cpp"] == results["python"]
    assert results["cpp"]["samples"] == 100 and results["cpp"]["last_samples"] == 2


def test_record_bytes_are_those_written(client, service, folder):
    write_tfrecord(folder / "a.tfrecord", range(3))
    result = client.ok(tfrecord_spec(folder / "s.yaml", "a.tfrecord"), service.target)
    # Sorted by name: label, label_count … only what the spec asks for; text is padded to 8 bytes.
    spec = tfrecord_spec(folder / "t.yaml", "a.tfrecord", outputs=["label", "text"])
    result = client.ok(spec, service.target)
    expected = struct.pack("<3q", 0, 1, 2) + b"".join(b"t%d" % i + bytes(6) for i in range(3))
    assert result["digest"] == hashlib.sha256(expected).hexdigest()


def test_one_clients_cursor_is_the_others(service, folder):
    spec = range_spec(folder / "s.yaml", size=100, order={"global": {}}, seed=3)
    whole = CLIENTS["cpp"].ok(spec, service.target)
    rests = []
    for first, second in (("cpp", "python"), ("python", "cpp")):
        begun = CLIENTS[first].ok(spec, service.target, batches=5)
        assert begun["cursor"]["consumed"] == 40
        rests.append(CLIENTS[second].ok(spec, service.target, cursor=begun["cursor"]))
    assert rests[0] == rests[1]
    assert rests[0]["samples"] == 60
    assert rests[0]["cursor"] == whole["cursor"]


# Credits over gRPC: what arrives ahead of a program that takes nothing.

BATCH_BYTES = 2 << 20
CREDIT_BATCHES = 6


def sent_to_a_program_that_stands_still(service, at_least):
    """How many batches were sent when all that are ready wait for credit; `at_least` were."""
    command = [BIN / "bulkhead", "status", "--target", service.target, "--json"]
    until = time.monotonic() + 30
    while True:
        answer = subprocess.run(command, check=True, capture_output=True, timeout=60)
        [stream] = json.loads(answer.stdout)["streams"]
        # Over gRPC the service lets go of a slot when it is sent.
        sent = int(stream.get("batches_released", 0))
        arena = stream["arena"]
        if sent >= at_least and "slots_sending" in arena and "slots_filling" not in arena:
            return sent
        assert time.monotonic() < until, stream


@pytest.mark.parametrize(
    "credit_bytes,ahead",
    [
        (1, 1),  # one batch always goes
        (2 * BATCH_BYTES - 1, 1),
        (3 * BATCH_BYTES, 3),
        (100 * BATCH_BYTES, CREDIT_BATCHES),
    ],
)
def test_credit_in_bytes_bounds_what_arrives_ahead(
    client, own_service, folder, credit_bytes, ahead
):
    size = BATCH_BYTES // 8
    spec = range_spec(folder / "s.yaml", size=14 * size, batch=size)
    process = client.pausing(
        spec, own_service.target, pause_after=1, transport="grpc",
        credit_batches=CREDIT_BATCHES, credit_bytes=credit_bytes,
    )
    taken = 1
    try:
        sent = sent_to_a_program_that_stands_still(own_service, taken + ahead)
        assert sent - taken == ahead
        process.stdin.write("\n")
    except BaseException:
        process.kill()
        raise
    result = client.finish(process)
    # A client takes a service for broken that ever sends more than its credit.
    assert "error" not in result, result["error"]
    assert result["batches"] == 14


# Quarantine.


def quarantine(service, action, *records):
    command = [BIN / "bulkhead", "quarantine", action, *records, "--target", service.target]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("transport", ["grpc", "shm"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_what_is_quarantined_is_left_out_and_stays_in_the_cursor(
    own_service, folder, transport, deterministic
):
    errors = {"policy": "substitute", "max_fraction": 0.2}
    spec = range_spec(folder / "s.yaml", size=40, errors=errors, deterministic=deterministic)
    quarantine(own_service, "add", "range@7", "of other data@1")
    results = {
        name: one.ok(spec, own_service.target, transport=transport) for name, one in CLIENTS.items()
    }
    for result in results.values():
        assert result["samples"] == 40
        assert result["cursor"]["quarantined"] == ["of other data@1", "range@7"]
        if deterministic:  # else the batches may come in another order
            assert result["digest"] == digest_of([*range(7), 8, *range(8, 40)])


def test_a_cursors_quarantine_is_in_force_at_a_service_that_knows_nothing_of_it(
    client, own_service, folder
):
    errors = {"policy": "substitute", "max_fraction": 0.2}
    spec = range_spec(folder / "s.yaml", size=40, errors=errors)
    quarantine(own_service, "add", "range@17")
    begun = client.ok(spec, own_service.target, batches=1)
    quarantine(own_service, "clear", "--all")
    for one in CLIENTS.values():
        rest = one.ok(spec, own_service.target, cursor=begun["cursor"])
        assert rest["digest"] == digest_of([*range(8, 17), 18, *range(18, 40)])
        assert rest["cursor"]["quarantined"] == ["range@17"]
    again = client.ok(spec, own_service.target)
    assert again["digest"] == digest_of(range(40))
    assert again["cursor"]["quarantined"] == []


def test_a_quarantined_record_is_an_error_under_fail(own_service, folder):
    spec = range_spec(folder / "s.yaml", size=40)
    quarantine(own_service, "add", "range@17")
    error = same_error(own_service.target, spec, "QUARANTINED")
    assert error["metadata"]["record"] == "range@17"
    assert error["metadata"]["position"] == "17"


# Errors of the service: both clients give the same, and it is the one expected.


def same_error(target, spec, reason, **options):
    errors = [one.error(spec, target, **options) for one in CLIENTS.values()]
    assert errors[0] == errors[1]
    assert errors[0]["reason"] == reason, errors[0]
    return errors[0]


def test_an_unknown_field(service, folder):
    spec = folder / "s.yaml"
    spec.write_text("source: {range: {size: 10}}\nbatch: {size: 2}\nepoch: 1\n")
    error = same_error(service.target, spec, "SPEC_INVALID")
    assert error["code"] == "INVALID_ARGUMENT"
    assert f"{spec}:3:1" in error["message"]


def test_a_spec_that_is_no_yaml(service, folder):
    spec = folder / "s.yaml"
    spec.write_text("source: [}\n")
    same_error(service.target, spec, "SPEC_INVALID")


def test_an_empty_spec(service, folder):
    spec = folder / "s.yaml"
    spec.write_text("")
    same_error(service.target, spec, "SPEC_INVALID")


def test_a_missing_spec_file(service, folder):
    error = same_error(service.target, folder / "no.yaml", "FILE_NOT_FOUND")
    assert error["metadata"] == {"file": str(folder / "no.yaml")}


def test_a_glob_that_matches_nothing(service, folder):
    spec = tfrecord_spec(folder / "s.yaml", "no-*.tfrecord")
    assert "no-*.tfrecord" in same_error(service.target, spec, "FILE_NOT_FOUND")["message"]


def test_an_empty_file(service, folder):
    (folder / "a.tfrecord").write_bytes(b"")
    same_error(service.target, tfrecord_spec(folder / "s.yaml", "a.tfrecord"), "FILE_EMPTY")


def test_a_truncated_record(service, folder):
    write_tfrecord(folder / "a.tfrecord", range(4))
    data = (folder / "a.tfrecord").read_bytes()
    (folder / "a.tfrecord").write_bytes(data[:-3])
    spec = tfrecord_spec(folder / "s.yaml", "a.tfrecord")
    error = same_error(service.target, spec, "TRUNCATED_RECORD")
    assert error["metadata"]["file"].endswith("a.tfrecord")
    assert error["metadata"]["offset"] == str(len(data) // 4 * 3)


def test_a_wrong_checksum(service, folder):
    write_tfrecord(folder / "a.tfrecord", range(4))
    data = bytearray((folder / "a.tfrecord").read_bytes())
    data[len(data) // 2 + 20] ^= 1
    (folder / "a.tfrecord").write_bytes(data)
    spec = tfrecord_spec(folder / "s.yaml", "a.tfrecord")
    error = same_error(service.target, spec, "CORRUPT_RECORD")
    assert error["metadata"]["offset"] == str(len(data) // 2)


def test_a_missing_feature(service, folder):
    write_tfrecord(folder / "a.tfrecord", range(4))
    spec = write_spec(
        folder / "s.yaml",
        source={"tfrecord": {"files": "a.tfrecord"}},
        features={"weight": {"float": {}}},
        batch={"size": 2},
    )
    error = same_error(service.target, spec, "MISSING_FEATURE")
    assert error["metadata"]["file"].endswith("a.tfrecord")


def test_a_cursor_of_other_data(service, folder):
    made = CLIENTS["cpp"].ok(range_spec(folder / "s.yaml", size=50), service.target, batches=1)
    other = range_spec(folder / "t.yaml", size=60)
    same_error(service.target, other, "CURSOR_MISMATCH", cursor=made["cursor"])


def test_a_path_outside_the_roots(service, folder, tmp_path):
    write_tfrecord(tmp_path / "a.tfrecord", range(4))
    spec = tfrecord_spec(folder / "s.yaml", str(tmp_path / "a.tfrecord"))
    same_error(service.target, spec, "PATH_NOT_ALLOWED")


# Errors of the connection.


def test_no_socket_at_the_target(client, folder):
    spec = range_spec(folder / "s.yaml")
    error = client.error(spec, f"unix:{folder}/no.sock")
    assert (error["code"], error["reason"]) == ("UNAVAILABLE", "SERVICE_UNAVAILABLE")
    assert error["metadata"] == {"target": f"unix:{folder}/no.sock"}


def test_no_listener_at_the_port(client, folder):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{unused.getsockname()[1]}"
    error = client.error(range_spec(folder / "s.yaml"), target)
    assert error["reason"] == "SERVICE_UNAVAILABLE"


def test_a_target_that_does_not_answer(client, folder):
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        target = f"127.0.0.1:{mute.getsockname()[1]}"
        error = client.error(range_spec(folder / "s.yaml"), target, timeout=1)
    assert (error["code"], error["reason"]) == ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
    assert error["metadata"] == {"target": target}


def test_a_service_killed_in_mid_stream(client, own_service, folder):
    spec = range_spec(folder / "s.yaml", size=10**9)
    process = client.start(
        spec, own_service.target, pause_after=2, timeout=30, reconnect_deadline=1
    )
    assert process.stdout.readline() == "paused\n"
    own_service.kill()
    started = time.monotonic()
    process.stdin.write("\n")
    process.stdin.flush()
    result = client.finish(process)
    assert result["error"]["reason"] == "SERVICE_UNAVAILABLE"
    assert "tried to reconnect for 1" in result["error"]["message"]
    assert time.monotonic() - started < 30
    values = range(result["batches"] * 8)
    assert result["digest"] == digest_of(values), "what came before the end is whole"
    assert result["cursor"]["consumed"] == len(values)


# The embedded service.


def test_without_a_target_a_service_is_started_and_ended(client, folder, tmp_path):
    spec = range_spec(folder / "s.yaml", size=100)
    environment = {"XDG_RUNTIME_DIR": tmp_path, "XDG_CACHE_HOME": tmp_path}
    result = client.ok(spec, environment=environment, workers=1, threads=2)
    assert result["digest"] == digest_of(range(100))
    assert not list(tmp_path.glob("bulkhead-*")), "its folder is removed"


def test_an_embedded_service_that_cannot_start_says_why(client, folder, tmp_path):
    (tmp_path / "file").write_text("")
    error = client.error(range_spec(folder / "s.yaml"), cache_dir=tmp_path / "file" / "cache")
    assert error["reason"] == "SERVICE_START_FAILED"
    assert "cache" in error["message"]


def test_no_service_program(client, folder, tmp_path):
    environment = {"BULKHEAD_SERVER": tmp_path / "none"}
    error = client.error(range_spec(folder / "s.yaml"), environment=environment)
    assert (error["code"], error["reason"]) == ("NOT_FOUND", "SERVICE_NOT_FOUND")
    assert error["metadata"] == {"program": str(tmp_path / "none")}


def test_a_clients_own_mistakes(client, folder):
    error = client.error(range_spec(folder / "s.yaml"), "unix:/x", rank=2, world_size=2)
    assert (error["code"], error["reason"]) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")


def test_a_cursor_that_is_none(client, service, folder):
    spec = range_spec(folder / "s.yaml")
    error = client.error(spec, service.target, cursor={"epoch": "yesterday"})
    assert error["reason"] == "INVALID_ARGUMENT"
    assert json.dumps(error["metadata"]) == "{}"


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_help_names_the_options(name):
    done = subprocess.run([*CLIENTS[name].command, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ") and "--spec" in done.stdout and "--credential" in done.stdout


@pytest.mark.parametrize("order", [{"sequential": {}}, {"global": {}}])
def test_a_cursor_behind_which_no_whole_batch_is_left_ends_the_stream(client, service, folder, order):
    spec = range_spec(folder / "s.yaml", size=44, batch={"size": 4, "last": "drop"}, epochs=1, order=order)
    begun = client.ok(spec, service.target, batches=10)  # 40 of 44 samples
    rest = range_spec(folder / "rest.yaml", size=44, batch={"size": 5, "last": "drop"}, epochs=1, order=order)
    assert client.ok(rest, service.target, cursor=begun["cursor"])["batches"] == 0
