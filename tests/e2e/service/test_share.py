"""Several jobs, one decode: loaders with share=True get what each would get alone, whatever happens to the others."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import object_sets
import pytest

import bulkhead
from conftest import AUGMENTED, PYTHON_PACKAGE, Service, write_spec

JOBS = 4

# A trainer in a process of its own: prints the digest of each batch that it takes.
TRAINER = """
import hashlib, json, sys
import bulkhead

spec, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with bulkhead.Loader(spec, target, timeout=120, **options) as loader:
    for batch in loader.stream():
        print(hashlib.sha256(batch["image"].tobytes() + batch["label"].tobytes()).hexdigest(), flush=True)
        batch["image"][:] = 7  # what is the trainer's is the trainer's
        del batch
"""


def crops(photos, folder, **more):
    spec = {
        "source": {"image_folder": {"path": str(photos / "folder")}},
        "stages": AUGMENTED,
        "batch": {"size": 8},
        "order": "global",
        "seed": 3,
        "epochs": 4,
    }
    return write_spec(folder / "spec.json", **{**spec, **more})


def digest(batch):
    return hashlib.sha256(batch["image"].tobytes() + batch["label"].tobytes()).hexdigest()


def alone(spec, target, **options):
    with bulkhead.Loader(spec, target, **options) as loader:
        return [digest(batch) for batch in loader.stream()]


def shares(service):
    shares = [stream["share"] for stream in bulkhead.service_status(service.target)["streams"]]
    return [share for share in shares if share["members"] > 0]


def shared(service):
    return sum(int(share.get("batches_shared", 0)) for share in shares(service))


@pytest.fixture
def service(services, folder, photos):
    return services(folder / "service", "--root", photos, "--workers", 2)


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_jobs_side_by_side_get_what_each_would_get_alone(service, photos, folder, transport):
    spec = crops(photos, folder)
    expected = alone(spec, service.target)
    with contextlib.ExitStack() as open_ones:
        loaders = [
            open_ones.enter_context(bulkhead.Loader(spec, service.target, share=True, transport=transport, timeout=120))
            for _ in range(JOBS)
        ]
        streams = [loader.stream() for loader in loaders]
        got = [[] for _ in loaders]
        for number in range(len(expected)):
            for stream, digests in zip(streams, got):
                batch = next(stream)
                digests.append(digest(batch))
                if batch["image"].flags.writeable:
                    batch["image"][:] = 7  # it is this job's alone
                del batch
            if number == len(expected) - 10:
                status = shares(service)
        assert got == [expected] * JOBS
        assert [loader.state_dict() for loader in loaders] == [loaders[0].state_dict()] * JOBS
        assert [share["members"] for share in status] == [JOBS] * JOBS
        assert all(int(share["batches_shared"]) > len(expected) / 2 for share in status)


def test_one_that_is_slow_falls_out_and_goes_on_alone(service, photos, folder):
    spec = crops(photos, folder)
    expected = alone(spec, service.target)
    options = {"share": True, "timeout": 120}
    with bulkhead.Loader(spec, service.target, **options) as slow, bulkhead.Loader(spec, service.target, **options) as one, \
            bulkhead.Loader(spec, service.target, **options) as other:
        slowly = slow.stream()
        late = [digest(next(slowly)) for _ in range(2)]
        pairs = zip(one.stream(), other.stream())
        assert [digest(batch) for batch, _ in pairs] == expected  # nobody waited for the slow one
        late += [digest(batch) for batch in slowly]
        assert late == expected


def test_ranks_and_specs_of_their_own_share_nothing(service, photos, folder):
    spec = crops(photos, folder)
    other = write_spec(folder / "other.json", **{**json.loads(spec.read_text()), "seed": 4})
    with contextlib.ExitStack() as open_ones:
        loaders = [
            open_ones.enter_context(bulkhead.Loader(which, service.target, share=share, timeout=120, rank=rank, world_size=2))
            for which, rank, share in ((spec, 0, True), (spec, 1, True), (other, 0, True), (spec, 0, False))
        ]
        streams = [loader.stream() for loader in loaders]
        for _ in range(12):
            for stream in streams:
                next(stream)
        assert shared(service) == 0
        assert [share["members"] for share in shares(service)] == [1, 1, 1]


def start_trainer(spec, service, **options):
    command = [sys.executable, "-c", TRAINER, str(spec), service.target, json.dumps({"share": True, **options})]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)})


def finish(trainer):
    digests = trainer.stdout.read().split()  # to the end of the process
    assert trainer.wait(120) == 0
    return digests


@pytest.mark.parametrize("killed", ["worker", "trainer"])
def test_a_kill_changes_nothing_for_the_others(service, photos, folder, killed):
    spec = crops(photos, folder, epochs=8)
    expected = alone(spec, service.target)
    trainers = [start_trainer(spec, service) for _ in range(JOBS)]
    try:
        firsts = [[trainer.stdout.readline().strip() for _ in range(3)] for trainer in trainers]
        if killed == "trainer":
            os.kill(trainers[-1].pid, signal.SIGKILL)
            trainers[-1].communicate()
            del trainers[-1], firsts[-1]
        for _ in range(3 if killed == "worker" else 0):
            service.kill_worker(0)
            time.sleep(0.2)
        for trainer, first in zip(trainers, firsts):
            assert first + finish(trainer) == expected
    finally:
        for trainer in trainers:
            trainer.kill()
            trainer.wait()


def test_a_killed_service_is_taken_up_by_each_where_it_stands(photos, folder):
    spec = crops(photos, folder)
    options = ["--root", photos, "--workers", 2]
    (folder / "service").mkdir()
    service = Service(folder / "service", *options)
    expected = alone(spec, service.target)
    with contextlib.ExitStack() as open_ones:
        loaders = [
            open_ones.enter_context(bulkhead.Loader(spec, service.target, share=True, timeout=120)) for _ in range(JOBS)
        ]
        streams = [loader.stream() for loader in loaders]
        # Each stands elsewhere.
        got = [[digest(next(stream)) for _ in range(3 * number)] for number, stream in enumerate(streams)]
        service.process.kill()
        service.process.wait()
        service = Service(folder / "service", *options)
        try:
            for stream, digests in zip(streams, got):
                digests += [digest(batch) for batch in stream]
        finally:
            service.stop()
    assert got == [expected] * JOBS


def test_one_that_knows_of_more_bad_records_shares_nothing_with_the_others(services, folder):
    service = services(folder / "service", "--root", folder, "--workers", 2)
    spec = write_spec(
        folder / "spec.json",
        source={"range": {"size": 400}},
        batch={"size": 10},
        order="sequential",
        epochs=1,
        errors={"policy": "substitute", "max_fraction": 0.1},
    )
    with bulkhead.Loader(spec, service.target) as loader:
        cursor = {**loader.state_dict(), "quarantined": ["range@205"]}
    options = {"share": True, "timeout": 120}
    with bulkhead.Loader(spec, service.target, **options) as one, bulkhead.Loader(spec, service.target, **options) as other, \
            bulkhead.Loader(spec, service.target, cursor=cursor, **options) as knows:
        values = [[], [], []]
        for batches in zip(one.stream(), other.stream(), knows.stream()):
            for batch, own in zip(batches, values):
                own += batch["index"].tolist()
            if len(values[0]) == 300:
                members = sorted(share["members"] for share in shares(service))
        plain = list(range(400))
        assert values == [plain, plain, [206 if number == 205 else number for number in plain]]
        assert members == [1, 2, 2]


def test_the_status_tells_who_shares(services, photos, folder):
    service = services(folder / "service", "--root", photos, "--workers", 2, "--share-window", 3)
    spec = crops(photos, folder)
    with bulkhead.Loader(spec, service.target, share=True) as one, bulkhead.Loader(spec, service.target, share=True) as other:
        streams = one.stream(), other.stream()
        for _ in range(20):
            for stream in streams:
                next(stream)
        status = bulkhead.service_status(service.target)["streams"]
        for stream in status:
            share = stream["share"]
            assert (share["members"], share["near"], share["window"]) == (2, 1, 3)
            assert int(share["batches_shared"]) > 5
            assert int(share["window_bytes"]) == 4 * int(stream["arena"]["bytes"]) // stream["arena"]["slots"]
            assert share["reason"] == ""
        for _ in range(30):  # while the other stands still
            next(streams[0])
        apart = shares(service)
        assert [share["near"] for share in apart] == [0, 0]
        assert [share["reason"] for share in apart] == ["the others of its group are more than 3 batches from it"] * 2
        assert max(int(share["times_fallen_out"]) for share in apart) > 0
        assert max(int(share["batches_alone"]) for share in apart) > 5


def test_without_a_window_nothing_is_shared(services, photos, folder, caplog):
    service = services(folder / "service", "--root", photos, "--workers", 2, "--share-window", 0)
    spec = crops(photos, folder, epochs=1)
    with bulkhead.Loader(spec, service.target, share=True) as one, bulkhead.Loader(spec, service.target, share=True) as other:
        streams = one.stream(), other.stream()
        first = [digest(next(stream)) for stream in streams]
        reason = "this service lets streams share nothing (--share-window 0)"
        assert [stream["share"]["reason"] for stream in bulkhead.service_status(service.target)["streams"]] == [reason] * 2
        assert shares(service) == []
        assert first[0] == first[1]
        assert [digest(batch) for batch in streams[0]] == [digest(batch) for batch in streams[1]]
        assert shares(service) == []
        assert caplog.text.count(f"`share` has no effect: {reason}") == 2


def test_a_stream_at_several_replicas_is_told_that_it_shares_nothing(services, photos, folder, caplog):
    replicas = [services(folder / name, "--root", photos, "--workers", 1) for name in ("one", "two")]
    spec = crops(photos, folder, epochs=1)
    with bulkhead.Loader(spec, [replica.target for replica in replicas], share=True) as loader:
        assert [digest(batch) for batch in loader.stream()] == alone(spec, replicas[0].target)
    assert "`share` has no effect: several services make this stream's batches" in caplog.text


def test_batches_of_objects_are_shared_too(services, folder, stored, store):
    service = services(folder / "service", "--root", stored, "--root", "s3://bucket", "--workers", 2)
    specs = [
        write_spec(folder / f"{place}.json", **object_sets.spec_of("train", f"{root}/train/part-*.tfrecord", epochs=4))
        for place, root in (("store", "s3://bucket"), ("files", stored / "bucket"))
    ]
    with bulkhead.Loader(specs[0], service.target, share=True) as one, bulkhead.Loader(specs[0], service.target, share=True) as other:
        pairs = []
        for mine, others in zip(one.stream(), other.stream()):
            pairs.append((digest(mine), digest(others)))
            if len(pairs) == 50:
                assert shared(service) > 25
    assert [mine for mine, _ in pairs] == [others for _, others in pairs] == alone(specs[1], service.target)
