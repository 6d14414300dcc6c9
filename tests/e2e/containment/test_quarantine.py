"""Records in quarantine through the real service: an input of every batch, kept by service and cursor alike."""

import datetime
import json
import pathlib
import subprocess

import pytest

import bulkhead
from conftest import BIN, AUGMENTED, Service, digest_of, write_spec

SUBSTITUTE = {"policy": "substitute", "max_fraction": 0.2}


def start(folder, name, *options):
    """A service with a cache of its own."""
    (folder / name).mkdir()
    return Service(folder / name, "--root", folder, *options)


def tool(*arguments, check=True):
    command = [BIN / "bulkhead", "quarantine", *map(str, arguments)]
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=60)


def listed(service):
    return [line.split("  ")[0] for line in tool("list", "--target", service.target).stdout.splitlines()]


def add(service, *records):
    return tool("add", *records, "--target", service.target)


def range_spec(folder, name="spec.yaml", **more):
    spec = {"source": {"range": {"size": 40}}, "batch": {"size": 8}, "epochs": 1, "errors": SUBSTITUTE}
    return write_spec(folder / name, **{**spec, **more})


@pytest.fixture
def service(folder):
    running = start(folder, "service", "--workers", 2)
    yield running
    assert running.process.poll() is None, "the service died"
    running.stop()


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("transport", ["grpc", "shm"])
def test_a_record_added_by_hand_is_substituted_and_listed(folder, service, transport, deterministic):
    add(service, "range@10", "range@11", "range@39", "of other data@7")
    spec = range_spec(folder, deterministic=deterministic)
    with bulkhead.Loader(spec, service.target, transport=transport, timeout=60) as loader:
        batches = {batch.sequence: (batch["index"].tolist(), batch.cursor) for batch in loader}
        told = {event.position: event for event in loader.substitutions}
    values = [value for _, (values, _) in sorted(batches.items()) for value in values]
    expected = list(range(40))
    expected[10] = expected[11] = 12
    expected[39] = 0
    assert values == expected
    assert sorted(told) == [10, 11, 39]
    assert "range@11" in told[11].message and "quarantine" in told[11].message
    for _, cursor in batches.values():
        assert cursor["quarantined"] == ["of other data@7", "range@10", "range@11", "range@39"]


def test_as_json_each_has_its_moment_with_the_zone(service):
    before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    added = tool("add", "range@10", "--json", "--target", service.target)
    [record] = json.loads(added.stdout)["records"]
    moment = datetime.datetime.fromisoformat(record["time"])
    assert record["record"] == "range@10" and before <= moment <= datetime.datetime.now(datetime.timezone.utc)


@pytest.mark.parametrize("client", ["cpp", "python"])
def test_under_fail_it_is_an_error_that_names_it(folder, service, client):
    add(service, "range@10")
    spec = range_spec(folder, errors={"policy": "fail"})
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        assert loader.next_batch()["index"].tolist() == list(range(8))
        with pytest.raises(bulkhead.DataError) as error:
            loader.next_batch()
    assert error.value.reason == "QUARANTINED"
    assert error.value.metadata["record"] == "range@10"
    assert error.value.metadata["position"] == "10"


def test_equal_sets_give_equal_bytes_with_any_workers_and_clients(photos, folder):
    spec = write_spec(
        folder / "spec.yaml",
        source={"image_folder": {"path": str(photos / "folder")}},
        stages=AUGMENTED,
        batch={"size": 16},
        order="global",
        seed=5,
        epochs=2,
        errors=SUBSTITUTE,
    )
    some = sorted(pathlib.Path(photos / "folder").rglob("*.jpg"))[20:26]
    digests = {}
    for workers in (1, 4):
        (folder / str(workers)).mkdir()
        running = Service(
            folder / str(workers), "--root", folder, "--root", photos, "--workers", workers
        )
        before = digest_of("cpp", spec, target=running.target)
        add(running, *(path.relative_to(photos / "folder") for path in some))
        for client in ("cpp", "python"):
            digests[workers, client] = digest_of(client, spec, target=running.target)
        assert before != digests[workers, "cpp"]
        running.stop()
    assert len(set(digests.values())) == 1, digests


def frames(path):
    """Offsets of a TFRecord file's records."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        yield at
        at += 16 + int.from_bytes(data[at : at + 8], "little")


def test_a_tfrecord_goes_by_file_and_offset(folder, service):
    subprocess.run([BIN / "bulkhead", "synth", folder / "n", "--schema", "range"], check=True, stdout=subprocess.DEVNULL)
    second = sorted((folder / "n").glob("*.tfrecord"))[1]
    record = f"{second.name}@{list(frames(second))[3]}"  # of 2,000 a file
    spec = write_spec(
        folder / "spec.yaml",
        source={"tfrecord": {"files": "n/*.tfrecord"}},
        features={"var": "int64"},
        batch={"size": 16},
        epochs=1,
        skip=2000,
        take=16,
        errors=SUBSTITUTE,
    )
    add(service, record)
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        values = [int(value) for value in loader.next_batch()["var"]]
        assert record in loader.substitutions[0].message
    assert values == [2000, 2001, 2002, 2004, *range(2004, 2016)]


def test_two_folders_of_one_mixture_are_told_apart(photos, folder, service):
    images = sorted(pathlib.Path(photos / "folder").rglob("*.jpg"))
    for part, image in (("pos", images[0]), ("neg", images[1])):
        (folder / part / "c").mkdir(parents=True)
        for number in range(2):
            (folder / part / "c" / f"{number}.jpg").write_bytes(image.read_bytes())
    spec = write_spec(
        folder / "spec.yaml",
        source={
            "mixture": {
                "sources": [
                    {"weight": 0.5, "source": {"image_folder": {"path": part}}, "stages": ["decode_image", {"resize": {"size": [8, 8]}}]}
                    for part in ("pos", "neg")
                ]
            }
        },
        outputs=["path", "source_id"],
        batch={"size": 4},
        epochs=1,
        errors={**SUBSTITUTE, "max_fraction": 0.5},
    )  # fmt: skip
    add(service, "1:c/1.jpg", "c/0.jpg")
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        list(loader)
        assert len(loader.substitutions) == 1
        assert "1:c/1.jpg" in loader.substitutions[0].message


def test_a_restarted_service_keeps_its_set_and_a_damaged_file_is_forgotten(folder):
    running = start(folder, "service", "--workers", 1)
    add(running, "range@10", "range@11")
    assert listed(running) == ["range@10", "range@11"]
    running.process.kill()
    running.process.wait()
    running = Service(folder / "service", "--root", folder)
    assert listed(running) == ["range@10", "range@11"]
    tool("clear", "range@11", "--target", running.target)
    assert listed(running) == ["range@10"]
    running.stop()
    (stored,) = (folder / "service" / "cache").glob("quarantine*")
    stored.write_bytes(stored.read_bytes().replace(b"range@10", b"range@99") + b"\xff{{{")
    running = Service(folder / "service", "--root", folder)
    assert listed(running) == []
    running.stop()
    assert "damaged entries were dropped" in (folder / "service" / "service.log").read_text()


@pytest.mark.parametrize("client", ["cpp", "python"])
def test_a_cursor_brings_its_set_to_a_service_that_never_heard_of_it(folder, client):
    spec = range_spec(folder, order="global", seed=3, epochs=2)
    knows = start(folder, "knows", "--workers", 1)
    add(knows, *(f"range@{number}" for number in range(7)))
    with bulkhead.Loader(spec, knows.target, timeout=60) as loader:
        batches = [(batch["index"].tolist(), batch.cursor) for batch in loader.stream()]
    cursor = json.dumps(batches[2][1])
    rest = [values for values, _ in batches[3:]]
    digest = digest_of(client, spec, target=knows.target, cursor=cursor)
    knows.stop()
    stranger = start(folder, "stranger", "--workers", 4)
    assert listed(stranger) == []
    assert digest_of(client, spec, target=stranger.target, cursor=cursor) == digest
    with bulkhead.Loader(spec, stranger.target, cursor=json.loads(cursor), timeout=60) as loader:
        assert [batch["index"].tolist() for batch in loader.stream()] == rest
        assert loader.state_dict()["quarantined"] == [f"range@{number}" for number in range(7)]
    # Without it the bytes are others.
    forgetful = json.dumps({**json.loads(cursor), "quarantined": []})
    assert digest_of(client, spec, target=stranger.target, cursor=forgetful) != digest
    stranger.stop()


def test_the_tool_refuses_what_makes_no_sense(folder, service):
    assert tool("clear", "--target", service.target, check=False).returncode == 2
    assert tool("add", "--target", service.target, check=False).returncode == 2
    refused = tool("add", "", "--target", service.target, check=False)
    assert refused.returncode == 1 and "no name" in refused.stderr
    nobody = tool("list", "--target", f"unix:{folder}/nobody.sock", check=False)
    assert nobody.returncode == 1 and "nobody.sock" in nobody.stderr
    for start in (0, 250):
        add(service, *(f"x@{number}" for number in range(start, 250 + start // 50)))
    full = tool("add", "x@a", "x@b", "--target", service.target, check=False)
    assert full.returncode == 1 and "full" in full.stderr
    tool("clear", "--all", "--target", service.target)
    assert listed(service) == []


def test_a_cursor_with_more_than_256_records_is_refused(folder, service):
    spec = range_spec(folder)
    with bulkhead.Loader(spec, service.target, timeout=60) as loader:
        cursor = loader.next_batch().cursor
    cursor["quarantined"] = [f"x@{number}" for number in range(256)]
    with bulkhead.Loader(spec, service.target, cursor=cursor, timeout=60) as loader:
        assert loader.next_batch()["index"].tolist() == list(range(8, 16))
    add(service, "range@20")
    with pytest.raises(bulkhead.BulkheadError) as error:
        bulkhead.Loader(spec, service.target, cursor=cursor, timeout=60)
    assert error.value.reason == "QUARANTINE_FULL"


def test_status_counts_the_records(folder, service):
    add(service, "range@20", "range@21")
    assert int(bulkhead.service_status(service.target)["samples_quarantined"]) == 2
