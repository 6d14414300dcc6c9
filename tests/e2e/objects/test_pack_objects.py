"""`bulkhead pack` of data in an object store: the bytes of a packing of the same files, errors, and runs that go on."""

import json
import os
import shutil
import subprocess
import time

import cv2
import pytest

from conftest import BIN, tool, write_spec
from object_sets import PATIENCE, put_photos, spares
from tf_records import read_examples

MARK = (".packed", ".packing")


def packed(folder):
    """What a packing holds; its mark names the data, and their times."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in MARK}


@pytest.fixture
def bucket(photos, folder, own_store):
    """Beside the shards: bucket/folder/CLASS/NAME.jpg, lists, COCO JSON and tables of boxes of these images."""
    bucket = folder / "store/bucket"
    put_photos(photos, bucket)
    (bucket / "folder/notes.txt").write_text("no image")
    names = sorted(str(path.relative_to(bucket / "folder")) for path in (bucket / "folder").rglob("*.jpg"))[:20]
    (bucket / "second.csv").write_text("kind,path\n" + "".join(f"{i % 3},folder/{name}\n" for i, name in enumerate(names)))
    (bucket / "boxes.csv").write_text("path,label,xmin,ymin,xmax,ymax\n" + "".join(f"{name},b,1,2,{i + 3},9\n" for i, name in enumerate(names)))
    images = []
    for i, name in enumerate(names):
        height, width, _ = cv2.imread(str(bucket / "folder" / name)).shape
        images.append({"id": i, "file_name": name, "height": height, "width": width})
    boxes = [{"id": i, "image_id": i, "category_id": 7, "bbox": [1, 2, 5.5, i + 1], "iscrowd": 0} for i in range(0, 20, 2)]
    (bucket / "instances.json").write_text(json.dumps({"images": images, "annotations": boxes, "categories": [{"id": 7, "name": "a"}]}))
    (bucket / "classes.txt").write_text("a\nb\n")
    own_store.page_size = 7
    return bucket


# DATA and its options; {} is the bucket.
KINDS = {
    "folder": ["{}/folder"],
    "folder with a slash": ["{}/folder/"],
    "list": ["{}/list.txt"],
    "tfrecord": ["{}/train/part-*.tfrecord"],
    "one tfrecord": ["{}/train/part-1.tfrecord"],
    "gzip": ["{}/gzip/part-*.tfrecord.gz"],
    "tar": ["{}/tar/*.tar"],
    "coco": ["{}/instances.json", "--images", "{}/folder"],
    "boxes": ["{}/boxes.csv", "--images", "{}/folder", "--classes", "{}/classes.txt", "--negatives", "apart"],
    "smaller": ["{}/boxes.csv", "--images", "{}/folder", "--longer-side", "64"],
}


def pack(folder, words, place, name, *more):
    out = folder / name
    shutil.rmtree(out, ignore_errors=True)
    text = tool("pack", *[str(word).format(place) for word in [words[0], out, *words[1:]]], "--records", "13", *more)
    return packed(out), text.replace(name, "OUT")


@pytest.mark.parametrize("kind", KINDS)
def test_a_packing_of_objects_is_that_of_the_files(kind, bucket, folder):
    local, told = pack(folder, KINDS[kind], bucket, "local")
    assert len(local) > 2
    assert pack(folder, KINDS[kind], "s3://bucket", "stored") == (local, told)
    assert pack(folder, KINDS[kind], "gs://bucket", "google", "--threads", "1") == (local, told)
    assert not spares(folder / "cache/bulkhead")


@pytest.mark.parametrize("kind", ["list", "one tfrecord", "coco", "boxes"])
def test_a_web_server_has_them_too(kind, bucket, folder, own_store):
    own_store.check = None
    local, _ = pack(folder, KINDS[kind], bucket, "local")
    assert pack(folder, KINDS[kind], f"{own_store.url}/bucket", "stored")[0] == local


def test_images_may_lie_elsewhere_than_what_lists_them(bucket, folder):
    local, _ = pack(folder, KINDS["coco"], bucket, "local")
    assert pack(folder, [f"{bucket}/instances.json", "--images", "{}/folder"], "s3://bucket", "stored")[0] == local
    beside = folder / "here"
    shutil.copytree(bucket / "folder", beside)
    assert pack(folder, ["{}/instances.json", "--images", str(beside)], "s3://bucket", "other")[0] == local
    # Without --images paths start from the folder of DATA.
    shutil.copy(bucket / "instances.json", bucket / "folder/instances.json")
    assert pack(folder, ["{}/folder/instances.json"], "s3://bucket", "third")[0] == local


def features(out):
    """Of all records, without their paths: those are URLs where a list has URLs."""
    return [{key: value for key, value in record.items() if key != "path"} for path in sorted(out.glob("*.tfrecord")) for record in read_examples(path)]


def test_paths_of_a_list_may_stand_in_its_second_column(bucket, folder):
    for place, name in ((bucket, "a"), ("s3://bucket", "b")):
        tool("pack", f"{place}/second.csv", folder / name)
    assert len(features(folder / "a")) == 20
    assert features(folder / "a") == features(folder / "b")


@pytest.mark.parametrize("source", ["folder", "mixed list", "list here", "tar", "entries"])
def test_a_spec_of_objects_is_packed_as_one_of_files(source, bucket, folder):
    names = sorted(path.relative_to(bucket) for path in (bucket / "folder").rglob("*.jpg"))[:20]

    def spec_at(place, name):
        sources = {
            "folder": {"image_folder": {"path": f"{place}/folder"}},
            "list here": {"image_list": {"path": str(folder / f"{name}.txt")}},
            "mixed list": {"image_list": {"path": str(folder / f"{name}.txt")}},
            "entries": {"image_list": {"entries": [f"{place}/{path} {i}" for i, path in enumerate(names)]}},
            "tar": {"tar": {"files": f"{place}/tar/*.tar"}},
        }
        places = [place if source == "list here" or i % 2 else bucket for i in range(20)]
        (folder / f"{name}.txt").write_text("".join(f"{at}/{path} {i}\n" for i, (at, path) in enumerate(zip(places, names))))
        spec = {"source": sources[source], "skip": 3, "take": 14, "stages": ["decode_image", {"resize": {"size": 16}}], "batch": {"size": 4}}
        if source == "tar":
            spec["features"] = {"image": {"key": "jpg", "bytes": {}}, "label": {"key": "cls", "int64": {}}}
        return write_spec(folder / f"{name}.json", **spec)

    tool("pack", spec_at(bucket, "local"), folder / "a", "--records", 5)
    tool("pack", spec_at("s3://bucket", "stored"), folder / "b", "--records", 5)
    assert len(features(folder / "a")) == 14
    assert features(folder / "a") == features(folder / "b")
    if source in ("folder", "tar"):
        assert packed(folder / "a") == packed(folder / "b")


def test_a_run_goes_on_and_a_finished_one_is_checked(bucket, folder, own_store):
    out = folder / "out"
    words = ["pack", "s3://bucket/folder", out, "--records", "20"]
    tool(*words)
    whole = packed(out)
    assert "already packed" in tool(*words)
    assert "already packed" in tool("pack", "s3://bucket/folder/", *words[2:])
    # As a run leaves it that ended in between.
    (out / ".packed").rename(out / ".packing")
    lost = sorted(out.glob("*.tfrecord"))[1:3]
    for path in lost:
        path.unlink()
    found = json.loads(tool(*words, "--json"))
    assert found["kept_files"] == found["files"] - 2 and packed(out) == whole
    # The same size and time, and another ETag.
    image = sorted((bucket / "folder").rglob("*.jpg"))[0]
    state = image.stat()
    (folder / "new").write_bytes(image.read_bytes()[::-1])
    os.utime(folder / "new", ns=(state.st_atime_ns, state.st_mtime_ns))
    os.replace(folder / "new", image)
    message = tool(*words, code=1)
    assert "which have changed since: 1 file from part-000.tfrecord" in message


@pytest.mark.parametrize("kind", ["folder", "tfrecord", "list", "tar", "boxes"])
def test_what_a_host_without_a_block_cache_keeps_goes_again(kind, bucket, folder, monkeypatch):
    local, _ = pack(folder, KINDS[kind], bucket, "local")
    disk = folder / "disk"
    disk.mkdir()
    # Of so little disk no block cache takes a part.
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "pack", disk], capture_output=True).returncode != 0:
        pytest.skip("may not mount")
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        assert pack(folder, KINDS[kind], "s3://bucket", "stored", "--threads", "1")[0] == local
        assert not sum(path.stat().st_blocks for path in disk.rglob("*.data")) and not spares(disk / "bulkhead")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def error_of(*words):
    message = tool("pack", *words, code=1)
    print(message)
    return message


def test_what_is_not_there_is_told(bucket, folder, own_store):
    out = folder / "out"
    assert "there is no such bucket" in error_of("s3://nowhere/folder", out)
    assert "s3://bucket/fodler: there is no such object; as a folder: s3://bucket/fodler/: there is no object whose name begins so" in error_of("s3://bucket/fodler", out)
    assert "no object matches s3://bucket/train/*.tar" in error_of("s3://bucket/train/*.tar", out)
    assert "s3://bucket/train: holds no images" in error_of("s3://bucket/train", out)
    assert "az" in error_of("az://bucket/folder", out)
    message = error_of("s3://bucket/boxes.csv", out, "--images", "s3://bucket/tar")
    assert "s3://bucket/boxes.csv:2: s3://bucket/tar/" in message or "s3://bucket/boxes.csv:2" in message
    assert "there is no such object; --images names" in message
    assert "s3://bucket/boxes.csv:2" in error_of("s3://bucket/boxes.csv", out, "--images", "s3://bucket/folder/deeper")
    assert "a spec is read from this host only" in error_of("s3://bucket/train.yaml", out)
    assert "pack to a folder" in error_of("s3://bucket/folder", "s3://bucket/packed")
    (bucket / "stray.csv").write_text("path,label,xmin,ymin,xmax,ymax\n../x.jpg,b,1,2,3,9\n")
    assert "leads out of s3://bucket/folder" in error_of("s3://bucket/stray.csv", out, "--images", "s3://bucket/folder")
    (bucket / "bad.csv").write_text("path,label,xmin,ymin,xmax,ymax\na.jpg,b,1,2,x,9\n")
    assert error_of("s3://bucket/bad.csv", out).startswith("bulkhead pack: s3://bucket/bad.csv:2")
    (bucket / "twice.txt").write_text("a\na\n")
    assert "s3://bucket/twice.txt" in error_of("s3://bucket/boxes.csv", out, "--classes", "s3://bucket/twice.txt")
    assert not list(folder.glob("out/*.tfrecord"))


def test_no_right_is_told(bucket, folder, own_store, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert "s3://bucket/folder" in error_of("s3://bucket/folder", folder / "out")


def test_an_object_that_changes_while_it_is_packed_ends_the_run(bucket, folder, own_store):
    image = sorted((bucket / "folder").rglob("*.jpg"))[30]
    own_store.fail(None, 503, method="GET", key=image.name)
    process = subprocess.Popen([BIN / "bulkhead", "pack", "s3://bucket/folder", folder / "out"], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + PATIENCE
    while own_store.count("GET", image.name) == 0:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    (folder / "new").write_bytes(image.read_bytes()[::-1])  # of the same size
    os.replace(folder / "new", image)
    own_store.heal()
    _, message = process.communicate(timeout=PATIENCE)
    print(message)
    assert process.returncode == 1
    assert f"s3://bucket/{image.relative_to(bucket)}" in message and "changed" in message and "run the same command again" in message
    assert "150 records" in tool("pack", "s3://bucket/folder", folder / "out")


@pytest.mark.parametrize("kind", ["folder", "tfrecord", "coco"])
def test_a_store_that_fails_now_and_then_costs_time_only(kind, bucket, folder, own_store):
    local, _ = pack(folder, KINDS[kind], bucket, "local")
    own_store.fail(5, 503)
    own_store.reset(3, method="GET")
    own_store.reset(3, middle=True, method="GET")
    own_store.wrong_bytes(1, key=".tfrecord" if kind == "tfrecord" else ".jpg")  # of one object, it is read once more
    assert pack(folder, KINDS[kind], "s3://bucket", "stored")[0] == local


@pytest.mark.parametrize("kind, key", [("list", "list.txt"), ("one tfrecord", "part-1"), ("tar", ".tar"), ("coco", "instances.json"), ("boxes", "boxes.csv")])
def test_what_arrives_wrong_once_is_read_again(kind, key, bucket, folder, own_store):
    local, _ = pack(folder, KINDS[kind], bucket, "local")
    own_store.wrong_bytes(1, key=key)
    assert pack(folder, KINDS[kind], "s3://bucket", "stored")[0] == local


def test_names_of_classes_are_read_anew_by_each_run(bucket, folder, own_store):
    local, _ = pack(folder, KINDS["boxes"], bucket, "local")
    own_store.wrong_bytes(1, key="classes.txt")
    words = [word.format("s3://bucket") for word in KINDS["boxes"]]
    assert "classes.txt:1" in error_of(words[0], folder / "stored", *words[1:])
    assert pack(folder, KINDS["boxes"], "s3://bucket", "stored")[0] == local


def test_a_text_too_large_for_a_copy_is_not_fetched(bucket, folder, own_store):
    (bucket / "classes.txt").write_text("a\n" * (9 << 20))
    message = error_of("s3://bucket/boxes.csv", folder / "out", "--classes", "s3://bucket/classes.txt")
    assert "s3://bucket/classes.txt: has 18.0 MiB" in message and "at most 16.0 MiB" in message
    assert own_store.bytes_sent("classes.txt") < 4 << 20


def test_a_copy_for_which_there_is_no_room_is_told_before_it_is_fetched(bucket, folder, own_store, monkeypatch):
    (bucket / "long.txt").write_text("folder/a.jpg 1\n" * (1 << 20))
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "pack", disk], capture_output=True).returncode != 0:
        pytest.skip("may not mount")
    try:
        monkeypatch.setenv("TMPDIR", str(disk))
        message = error_of("s3://bucket/long.txt", folder / "out")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert "s3://bucket/long.txt: its copy takes 15.0 MiB" in message and "set TMPDIR to a folder with more room" in message
    assert own_store.bytes_sent("long.txt") < 4 << 20


def test_a_run_that_waits_for_its_data_says_so(bucket, folder, own_store):
    image = sorted((bucket / "folder").rglob("*.jpg"))[30]
    own_store.fail(None, 503, method="GET", key=image.name)
    process = subprocess.Popen([BIN / "bulkhead", "pack", "s3://bucket/folder", folder / "out"], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "waits for the data" in line:
            own_store.heal()
    assert process.wait(timeout=PATIENCE) == 0  # else the store would have been given up
