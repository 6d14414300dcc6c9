"""Tools that make samples or look at data in their own process: of an object store they say what they say of the same files."""

import json
import os
import re
import shutil
import subprocess
import time

import pytest

from conftest import BIN, HERE, PYTHON, tool, write_spec
from object_faults import Fault, Request
from object_sets import PATIENCE, SAMPLES, blocks_folder, processes_below, put_photos, spares, spec_of

PYTHON_STAGE = {"python": {"function": "batch_functions:pure", "inputs": ["label"], "outputs": [{"name": "index", "dtype": "int64"}]}}


@pytest.fixture
def bucket(photos, folder, own_store):
    """Beside the shards: bucket/folder/CLASS/NAME.jpg, and lists of these images."""
    bucket = folder / "store/bucket"
    put_photos(photos, bucket)
    (bucket / "folder/notes.txt").write_text("no image")
    names = sorted(str(path.relative_to(bucket)) for path in (bucket / "folder").rglob("*.jpg"))
    (bucket / "second.csv").write_text("kind,path\n" + "".join(f"{i % 3},{name}\n" for i, name in enumerate(names[:20])))
    own_store.page_size = 7
    return bucket


def of_both(bucket, run):
    """What `run` gives of the bucket and of its folder."""
    return run("s3://bucket"), run(bucket)


KINDS = ["train", "gzip", "tar", "folder", "list", "mixture"]


def spec_at(place, kind, **more):
    if kind in ("folder", "list"):
        source = {"image_folder": {"path": f"{place}/folder"}} if kind == "folder" else {"image_list": {"path": f"{place}/list.txt"}}
        return {**spec_of("train", "", **more), "source": source, "features": None}
    if kind != "mixture":
        return spec_of(kind, f"{place}/{kind}/part-*", **more)
    parts = [(3, spec_of("train", f"{place}/train/part-*")), (1, spec_of("tar", f"{place}/tar/part-*"))]
    sources = [{"weight": weight, **{key: part[key] for key in ("source", "features", "order")}} for weight, part in parts]
    return {**spec_of("train", "", **more), "source": {"mixture": {"sources": sources}}, "features": None, "order": None}


def write(folder, place, kind, **more):
    name = "stored" if str(place).startswith("s3:") else "local"
    return write_spec(folder / f"{name}.json", **{key: value for key, value in spec_at(place, kind, **more).items() if value is not None})


def alike(text, bucket):
    return re.sub(r"\b(stored|local)\.json", "SPEC", text.replace(str(bucket), "s3://bucket"))


# order --feature


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_of_a_feature_is_that_of_the_files(kind, bucket, folder):
    def plot(place):
        tool("order", write(folder, place, kind, seed=6).rename(folder / "spec.json"), "--feature", "label", "--png", folder / "plot.png")
        return (folder / "plot.png").read_bytes()

    stored, local = of_both(bucket, plot)
    assert stored == local and stored != plot_of_another_seed(folder, bucket, kind)
    assert not spares(folder / "cache/bulkhead")


def plot_of_another_seed(folder, bucket, kind):
    spec = write(folder, bucket, kind, seed=7).rename(folder / "spec.json")
    tool("order", spec, "--feature", "label", "--png", folder / "other.png")
    return (folder / "other.png").read_bytes()


# bench run --in-process


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_in_the_process_has_the_bytes_of_the_files(kind, threads, bucket, folder):
    def run(place):
        found = json.loads(tool("bench", "run", write(folder, place, kind), "--in-process", "--threads", threads, "--json"))
        return found["digest"], found["samples"]

    stored, local = of_both(bucket, run)
    assert stored == local and stored[1] > SAMPLES
    assert not spares(folder / "cache/bulkhead")


def published(folder, own_store, monkeypatch):
    """From now on the indexes of bucket/train need not be made, and no fault is theirs."""
    tool("index", write(folder, "s3://bucket", "train"), "--publish")
    shutil.rmtree(folder / "cache")
    take = own_store.take_fault
    monkeypatch.setattr(own_store, "take_fault", lambda request, delays=False: Fault("", 0) if request.key.endswith("-index") else take(request, delays))


def made(name, folder, bucket, place):
    """What is made of the records at `place`, in their order."""
    spec = write(folder, place, "train", epochs=1, order="sequential")
    if name == "bench":
        return json.loads(tool("bench", "run", spec, "--in-process", "--json"))["digest"]
    if name == "purity":
        return alike(tool("validate", "--purity", SAMPLES, spec), bucket)
    tool("order", spec.rename(folder / "spec.json"), "--feature", "label", "--png", folder / "plot.png")
    return (folder / "plot.png").read_bytes()


@pytest.mark.parametrize("name", ["bench", "purity", "order"])
def test_bytes_that_come_wrong_are_fetched_again(name, bucket, folder, own_store, monkeypatch):
    published(folder, own_store, monkeypatch)
    own_store.wrong_bytes(1, key="part-1")
    own_store.wrong_bytes(1, key="part-2")
    assert made(name, folder, bucket, "s3://bucket") == made(name, folder, bucket, bucket)
    assert own_store.take_fault(Request("GET", "bucket", "train/part-2.tfrecord", {}, 0)).kind == "", "the bytes were wrong"


@pytest.mark.parametrize("name", ["bench", "purity", "order"])
def test_a_record_that_is_damaged_in_the_bucket_is_told_as_in_a_file(name, bucket, folder):
    data = bytearray((bucket / "train/part-1.tfrecord").read_bytes())
    data[1000] ^= 1
    (bucket / "train/part-1.tfrecord").write_bytes(data)

    def say(place):
        spec = write(folder, place, "train", epochs=1, order="sequential")
        words = {"bench": ["bench", "run", spec, "--in-process"], "purity": ["validate", "--purity", SAMPLES, spec]}
        words = words.get(name, ["order", spec, "--feature", "label", "--png", folder / "plot.png"])
        run = subprocess.run([BIN / "bulkhead", *map(str, words)], capture_output=True, text=True, timeout=120)
        return alike(run.stdout + run.stderr, bucket)

    stored, local = of_both(bucket, say)
    assert stored == local and "part-1.tfrecord@0" in stored and "checksum" in stored


@pytest.mark.parametrize("name", ["bench", "purity", "order"])
def test_damaged_blocks_are_fetched_again(name, bucket, folder, own_store, monkeypatch):
    published(folder, own_store, monkeypatch)
    found = made(name, folder, bucket, "s3://bucket")
    for path in blocks_folder(folder / "cache/bulkhead").glob("*.data"):
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    seen = len(own_store.requests)
    assert made(name, folder, bucket, "s3://bucket") == found
    assert [request for request in own_store.requests[seen:] if request.method == "GET" and request.key.endswith(".tfrecord")]


def test_samples_are_fetched_ahead(bucket, folder, own_store):
    spec = write(folder, "s3://bucket", "folder", epochs=1, batch={"size": 1})
    own_store.delay(2, 8, method="GET", key="folder/")
    tool("bench", "run", spec, "--in-process")
    asked = [request.time for request in own_store.requests if request.method == "GET" and request.key.startswith("folder/")]
    assert len(asked) >= SAMPLES  # those that are late may be asked for twice
    assert asked[7] - asked[0] < 2, "of eight images, none was asked for before the one before had come"


# validate --purity


@pytest.mark.parametrize("kind", KINDS)
def test_purity_of_objects_is_that_of_the_files(kind, bucket, folder, own_store):
    stages = ["decode_image", {"random_resized_crop": {"size": [32, 32]}}, PYTHON_STAGE]
    more = ("--python", PYTHON, "--python-path", HERE)

    def check(place):
        return alike(tool("validate", "--purity", 24, *more, write(folder, place, kind, stages=stages)), bucket)

    stored, local = of_both(bucket, check)
    assert stored == local and "pure: 24 samples" in stored
    assert not spares(folder / "cache/bulkhead")


def test_partners_of_samples_are_fetched_too(bucket, folder):
    stages = ["decode_image", {"mosaic": {"size": [32, 32]}}]
    stored, local = of_both(bucket, lambda place: alike(tool("validate", "--purity", 12, write(folder, place, "folder", stages=stages)), bucket))
    assert stored == local and "pure: 12 samples" in stored


def test_an_impure_stage_over_objects_is_named(bucket, folder):
    stage = {**PYTHON_STAGE["python"], "function": "batch_functions:by_clock"}
    spec = write(folder, "s3://bucket", "train", stages=["decode_image", {"resize": {"size": [8, 8]}}, {"python": stage}])
    run = subprocess.run([BIN / "bulkhead", "validate", "--purity", "6", "--python", PYTHON, "--python-path", HERE, spec],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 1 and "stages[2] python is impure" in run.stdout, run.stdout + run.stderr


def test_the_process_of_user_code_has_no_network_and_no_credentials(bucket, folder, own_store):
    host, port = own_store.url.removeprefix("http://").split(":")
    (folder / "code").mkdir()
    (folder / "code/snoop.py").write_text(
        "import os, socket\n"
        "def look(label):\n"
        "    assert not [name for name in os.environ if name.startswith(('AWS_', 'GS_'))], 'credentials'\n"
        "    try:\n"
        f"        socket.create_connection(({host!r}, {port}), 5)\n"
        "    except OSError:\n"
        "        return label\n"
        "    raise ValueError('a network')\n"
    )
    stage = {"python": {"function": "snoop:look", "inputs": ["label"], "outputs": [{"name": "seen", "dtype": "int64"}]}}
    spec = write(folder, "s3://bucket", "train", stages=["decode_image", {"resize": {"size": [8, 8]}}, stage])
    assert "pure: 6 samples" in tool("validate", "--purity", 6, "--python", PYTHON, "--python-path", folder / "code", spec)


# explain, and validate --data of a cache


def test_explain_measures_stages_of_objects(bucket, folder):
    spec = write(folder, "s3://bucket", "folder")
    found = json.loads(tool("explain", spec, "--samples", 20, "--json"))
    assert found["measured_samples"] == 20 and found["fused_seconds"] > 0 and found["again_seconds"] > 0
    assert {each["order"] for each in found["object_reads"]} > {"global"}


def test_what_a_cache_stage_keeps_of_objects_is_measured(bucket, folder):
    stages = ["decode_image", {"resize": {"size": [16, 16]}}, {"cache": {}}]
    looks = of_both(bucket, lambda place: json.loads(tool("validate", "--data", "--json", write(folder, place, "train", stages=stages)))[0]["caches"])
    assert looks[0] == looks[1] and looks[0][0]["samples_measured"] > 0


# inspect

LOOKS = {
    "tfrecord": ["{}/train/part-*.tfrecord"],
    "one tfrecord": ["{}/train/part-1.tfrecord"],
    "all records": ["{}/train/part-0.tfrecord", "--count", "1000"],
    "gzip": ["{}/gzip/part-*.tfrecord.gz"],
    "tar": ["{}/tar/*.tar"],
    "several": ["{}/train/part-0.tfrecord", "{}/train/part-1.tfrecord"],
    "folder": ["{}/folder"],
    "folder with a slash": ["{}/folder/"],
    "list": ["{}/list.txt"],
    "list with paths behind": ["{}/second.csv"],
}


def inspect(place, words, *more, code=0):
    run = subprocess.run([BIN / "bulkhead", "inspect", *(word.format(place) for word in words), *more], capture_output=True, text=True, timeout=120)
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout, run.stderr


@pytest.mark.parametrize("kind", LOOKS)
def test_objects_look_as_the_files_do(kind, bucket, folder):
    for more in ((), ("--json",)):
        stored, local = of_both(bucket, lambda place: alike(inspect(place, LOOKS[kind], *more)[0], bucket))
        assert stored == local and "first" in stored
    assert not spares(folder / "cache/bulkhead")


def test_a_proposed_spec_of_objects_streams(bucket, folder):
    for kind in ("tfrecord", "tar", "folder", "list"):
        inspect("s3://bucket", LOOKS[kind], "--out", str(folder / f"{kind}.yaml"))
        tool("stream", folder / f"{kind}.yaml", "--batches", "1")
    tool("stream", "s3://bucket/train/part-*.tfrecord", "--batches", "1")


def test_the_data_of_a_spec_may_be_objects(bucket, folder):
    def look(place, kind):
        return alike(tool("inspect", write(folder, place, kind)), bucket)

    for kind in ("train", "tar", "folder", "list"):
        stored, local = of_both(bucket, lambda place, kind=kind: look(place, kind))
        assert stored == local


def test_a_list_of_this_host_may_name_objects(bucket, folder):
    names = [str(path.relative_to(bucket)) for path in sorted((bucket / "folder").rglob("*.jpg"))]
    (folder / "urls.txt").write_text("".join(f"s3://bucket/{name} {i % 2}\n" for i, name in enumerate(names)) + "s3://bucket/none.jpg 1\n")
    found, said = inspect(folder, ["{}/urls.txt"], "--json", code=1)
    found = json.loads(found)
    assert (found["missing_files"], found["looked_at"]["images"]) == (1, 100)
    assert f"urls.txt:{len(names) + 1}: s3://bucket/none.jpg: there is no such object" in said


def test_little_is_fetched_of_a_large_object(bucket, folder, own_store):
    record = next(iter(sorted((bucket / "train").iterdir()))).read_bytes()
    with open(bucket / "train/large.tfrecord", "wb") as file:
        for _ in range(64 * 2**20 // len(record)):
            file.write(record)
    inspect("s3://bucket", ["{}/train/large.tfrecord"], "--count", "3")
    sent = sum(request.bytes_sent for request in own_store.requests if request.method == "GET")
    assert 0 < sent <= 4 * 2**20, sent
    assert not list((folder / "tmp").glob("bulkhead-tool-*")) if (folder / "tmp").exists() else True


# Errors, of all of them


def runs(folder, place, kind="train"):
    """The command lines of the tools, of one spec at `place`."""
    spec = write(folder, place, kind, order="sequential")
    return {
        "order": ["order", spec, "--feature", "label", "--png", folder / "p.png"],
        "bench": ["bench", "run", spec, "--in-process"],
        "purity": ["validate", "--purity", "4", spec],
        "inspect spec": ["inspect", spec],
        "inspect": ["inspect", f"{place}/train/part-0.tfrecord"],
        "inspect folder": ["inspect", f"{place}/folder"],
    }


ALL = ["order", "bench", "purity", "inspect spec", "inspect", "inspect folder"]


@pytest.mark.parametrize("name", ALL)
def test_a_missing_bucket_is_told(name, bucket, folder):
    said = tool(*runs(folder, "s3://nowhere")[name], code=1)
    assert "s3://nowhere" in said and "there is no such bucket" in said


@pytest.mark.parametrize("name", ALL)
def test_no_right_is_told(name, bucket, folder, monkeypatch):
    words = runs(folder, "s3://bucket")[name]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    said = tool(*words, code=1)
    assert "s3://bucket/" in said and "SignatureDoesNotMatch" in said


def test_names_that_are_no_data_are_told(bucket, folder):
    assert "s3://bucket/fodler: there is no such object; as a folder: " in tool("inspect", "s3://bucket/fodler", code=1)
    assert "no object matches s3://bucket/train/*.tar" in tool("inspect", "s3://bucket/train/*.tar", code=1)
    assert "az" in tool("inspect", "az://bucket/folder", code=1)
    assert "holds no images; for records name their objects, such as 's3://bucket/train/*.tfrecord'" in tool("stream", "s3://bucket/train/", code=1)
    assert "name one folder" in tool("inspect", "s3://bucket/folder", "s3://bucket/list.txt", code=1)
    (bucket / "train/none.tfrecord").write_bytes(b"")
    assert "s3://bucket/train/none.tfrecord: is empty" in tool("inspect", "s3://bucket/train/none.tfrecord", code=1)
    (bucket / "train/bad.tfrecord").write_bytes(b"\0" * 100)
    assert "s3://bucket/train/bad.tfrecord@0: does not begin as a TFRecord does" in tool("inspect", "s3://bucket/train/bad.tfrecord", code=1)


@pytest.mark.parametrize("name", ["order", "bench", "purity", "inspect folder", "inspect spec"])
def test_an_object_that_changes_meanwhile_is_told(name, bucket, folder, own_store):
    """Between its finding and its reading, another object takes its place."""
    words = runs(folder, "s3://bucket", "folder")[name]
    image = sorted((bucket / "folder").rglob("*.jpg"))[0]
    own_store.fail(None, 503, method="GET", key=f"bucket/{image.relative_to(bucket)}")
    key = str(image.relative_to(bucket))
    process = subprocess.Popen([BIN / "bulkhead", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + PATIENCE
    while not [request for request in own_store.requests if request.method == "GET" and request.key == key]:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    (folder / "new").write_bytes(image.read_bytes()[::-1])  # of the same size
    os.replace(folder / "new", image)
    own_store.heal()
    out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and f"s3://bucket/{key}" in said and "changed" in said, out + said


@pytest.mark.parametrize("name", ["bench", "purity", "inspect"])
def test_an_interrupted_tool_leaves_nothing(name, bucket, folder, own_store, monkeypatch):
    (folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    own_store.delay(1, None, method="GET")
    process = subprocess.Popen([BIN / "bulkhead", *map(str, runs(folder, "s3://bucket")[name])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while own_store.count("GET", "part-0") == 0:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    fetching = processes_below(process.pid, "bulkhead-fetch")
    assert fetching
    process.terminate()
    process.wait(timeout=PATIENCE)
    while any(os.path.exists(f"/proc/{pid}") for pid in fetching):
        assert time.monotonic() < end
        time.sleep(0.01)
    own_store.heal()
    # The next one takes away what that left.
    tool(*runs(folder, "s3://bucket")[name])
    assert not spares(folder / "cache/bulkhead")
