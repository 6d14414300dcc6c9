"""One set of photos as shards of three kinds, for tests that read them from an object store and from files."""

import contextlib
import gzip
import os
import pathlib
import re
import shutil
import signal
import tarfile
import threading

import tf_records
from tars import write_tar

SHARDS = 3
SAMPLES = 150  # of `bulkhead synth`, as the fixture `photos` has it
STAGES = ["decode_image", {"random_resized_crop": {"size": [32, 32]}}, "random_horizontal_flip"]
NAMES = {"train": "part-{}.tfrecord", "gzip": "part-{}.tfrecord.gz", "tar": "part-{}.tar"}
PATIENCE = 60  # seconds that nothing takes, not even on a busy machine


def frames(data):
    """The records of a TFRecord file, each with its checksums."""
    at = 0
    while at < len(data):
        size = 16 + int.from_bytes(data[at : at + 8], "little")
        yield data[at : at + size]
        at += size


def write_shards(photos, bucket):
    for kind in NAMES:
        (bucket / kind).mkdir(parents=True)
    [whole] = sorted(photos.glob("records-*.tfrecord"))
    records = list(frames(whole.read_bytes()))
    samples = list(tf_records.read_examples(whole))
    assert len(records) == len(samples) == SAMPLES
    for shard in range(SHARDS):
        part = slice(shard * SAMPLES // SHARDS, (shard + 1) * SAMPLES // SHARDS)
        plain = b"".join(records[part])
        paths = {kind: bucket / kind / name.format(shard) for kind, name in NAMES.items()}
        paths["train"].write_bytes(plain)
        paths["gzip"].write_bytes(gzip.compress(plain, 1, mtime=0))
        members = []
        for number, sample in enumerate(samples[part]):
            members.append((f"{number:04}.jpg", bytes(sample["image"][0])))
            members.append((f"{number:04}.cls", str(sample["label"][0]).encode()))
        write_tar(paths["tar"], members)


def put_photos(photos, bucket):
    """BUCKET/folder/CLASS/NAME.jpg and BUCKET/list.txt. The images are links, since a hundred tests ask for them: a test
    that changes one replaces it."""
    shutil.copytree(photos / "folder", bucket / "folder", copy_function=os.link)
    shutil.copy(photos / "list.txt", bucket / "list.txt")


def replace(path, content):
    """Other content under this name; what else links to the file keeps it."""
    path.unlink()
    path.write_bytes(content)


def lead_to(server, folder, monkeypatch):
    """Services that start from now on ask this server, and find no credentials but its own."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GS_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


def spec_of(kind, files, **more):
    """A spec of the shards `kind` at `files`, which is a pattern or a list of them."""
    source = "tar" if kind == "tar" else "tfrecord"
    keys = {"image": "jpg", "label": "cls"} if kind == "tar" else {"image": "image", "label": "label"}
    spec = {
        "source": {source: {"files": files if isinstance(files, list) else str(files)}},
        "features": {"image": {"key": keys["image"], "bytes": {}}, "label": {"key": keys["label"], "int64": {}}},
        "stages": STAGES,
        "batch": {"size": 10},
        "order": "global",
        "seed": 5,
        "epochs": 2,
    }
    if kind == "gzip" and isinstance(more.get("order", "global"), str) and more.get("order", "global") == "global":
        spec["order"] = "sequential"
    return {key: value for key, value in {**spec, **more}.items() if value is not None}


def size_of(stored, kind):
    return sum(path.stat().st_size for path in (stored / "bucket" / kind).iterdir())


def disk_use(folder):
    """The bytes on disk of all files below, which may vanish meanwhile."""
    total = 0
    for path in pathlib.Path(folder).rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_blocks * 512
    return total


def blocks_folder(cache):
    return pathlib.Path(cache) / "objects/blocks"


def spares(cache):
    return list((pathlib.Path(cache) / "objects").glob("spare-*"))


def processes_below(pid, program):
    """The living processes `program` among the descendants of `pid`."""
    from conftest import children_of, program_of

    found = []
    for child in children_of(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if program_of(child) == program:
                found.append(child)
        found += processes_below(child, program)
    return found


def kill_all(pid, program, how=signal.SIGKILL):
    """Signals each of them; gives how many there were."""
    count = 0
    for found in processes_below(pid, program):
        with contextlib.suppress(ProcessLookupError):
            os.kill(found, how)
            count += 1
    return count


@contextlib.contextmanager
def again_and_again(action, seconds):
    """Calls `action` every so many seconds, on a thread. Gives the list of its results."""
    results, end = [], threading.Event()

    def repeat():
        while not end.wait(seconds):
            results.append(action())

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield results
    finally:
        end.set()
        thread.join()


def secrets_in(text, environment):
    """The values of secret variables that occur in `text`."""
    secret = re.compile("SECRET|TOKEN|ACCESS_KEY_ID")
    return [name for name, value in environment.items() if secret.search(name) and value in text]


def photo_of(shard):
    """The first photo of a tar."""
    with tarfile.open(shard) as tar:
        return next(tar.extractfile(info).read() for info in tar if info.name.endswith(".jpg"))
