"""Images, lists and blocks that are damaged, missing, changed or may not be read, in an object store: read again, or named."""

import os
import subprocess

import bulkhead
import pytest
from object_images import FOLDER, error_of, images, result, spec_of, start  # noqa: F401  (images and start are fixtures)
from object_sets import PATIENCE, blocks_folder, replace


@pytest.mark.parametrize("ending, damage", [("data", "flip"), ("data", "cut"), ("data", "remove"), ("blocks", "cut"),
                                            ("blocks", "remove"), ("table", "flip"), ("table", "cut"), ("table", "remove")])
def test_what_is_damaged_is_fetched_again(folder, images, start, ending, damage):
    service = start()
    expected = result(folder, FOLDER, service)
    assert service.stop() == 0
    [path] = blocks_folder(folder / "cache").glob(f"*.{ending}")
    if damage == "remove":
        path.unlink()
    elif damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        content = bytearray(path.read_bytes())
        for offset in range(100, len(content), 4099 if ending == "data" else 211):
            content[offset] ^= 0x40
        path.write_bytes(content)
    assert result(folder, FOLDER, start()) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
@pytest.mark.parametrize("cache", ["64MiB", "0"])
def test_a_full_disk_names_the_object_and_the_cure(services, folder, images, start, cache):
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=500k,mode=700", "tmpfs", disk]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("may not mount")
    try:
        service = start("--cache-dir", disk, cache=cache)
        error = error_of(FOLDER, service, batch={"size": 50})
        assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "FILE_UNREADABLE")
        assert "s3://bucket/folder/" in str(error) and "--block-cache-bytes" in str(error)
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service)
        assert result(folder, FOLDER, service) == local, "with more disk it goes on"
        assert service.stop() == 0
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_an_object_that_is_replaced_during_a_stream_is_named(folder, images, start):
    service = start(cache="0")
    with bulkhead.Loader(spec_of(FOLDER, batch={"size": 2}, epochs=None), service.target, timeout=PATIENCE) as loader:
        batches = loader.stream()
        next(batches)
        path = sorted((images / "folder").rglob("*.jpg"))[5]
        (folder / "new").write_bytes(path.read_bytes()[::-1])  # of the same size
        os.replace(folder / "new", path)
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for _ in batches:
                pass
    assert (caught.value.code, caught.value.reason) == ("FAILED_PRECONDITION", "FILE_CHANGED")
    assert f"s3://bucket/{path.relative_to(images)}" in str(caught.value)


def test_an_object_that_is_removed_during_a_stream_is_named(images, start):
    service = start(cache="0")
    with bulkhead.Loader(spec_of(FOLDER, batch={"size": 2}, epochs=None), service.target, timeout=PATIENCE) as loader:
        batches = loader.stream()
        next(batches)
        path = sorted((images / "folder").rglob("*.jpg"))[5]
        path.unlink()
        with pytest.raises(bulkhead.BulkheadError) as caught:
            for _ in batches:
                pass
    assert (caught.value.code, caught.value.reason) == ("NOT_FOUND", "FILE_NOT_FOUND")
    assert f"s3://bucket/{path.relative_to(images)}" in str(caught.value)


def test_a_missing_object_of_a_list_is_named_with_its_line_or_substituted(folder, images, start):
    lines = (images / "list.txt").read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if i > 9 and line and line[0] != "#")
    (images / lines[number].split("\t")[0]).unlink()
    service = start()
    source = {"image_list": {"path": "s3://bucket/list.txt"}}
    error = error_of(source, service)
    assert (error.code, error.reason) == ("NOT_FOUND", "FILE_NOT_FOUND")
    assert f"list.txt:{number + 1}" in str(error) and "s3://bucket/folder/" in str(error) and "substitute" in str(error)
    errors = {"errors": {"policy": "substitute", "max_fraction": 0.5}}
    local = result(folder, {"image_list": {"path": str(images / "list.txt")}}, service, **errors)
    assert result(folder, source, service, **errors) == local


@pytest.mark.parametrize("source", [FOLDER, {"image_list": {"path": "s3://bucket/list.txt"}}])
def test_an_image_that_is_a_web_page_is_a_sample_error(folder, images, start, source):
    path = sorted((images / "folder").rglob("*.jpg"))[9]
    replace(path, b"<!DOCTYPE html><html><body>Sign in</body></html>")
    service = start()
    error = error_of(source, service)
    assert "web page" in str(error) and str(path.relative_to(images / "folder")) in str(error)
    errors = {"errors": {"policy": "substitute", "max_fraction": 0.5}}
    kind, options = next(iter(source.items()))
    local = result(folder, {kind: {"path": options["path"].replace("s3://bucket", str(images))}}, service, **errors)
    assert result(folder, source, service, **errors) == local


@pytest.mark.parametrize("source", ["folder", "list", "entries"])
def test_an_image_that_arrives_wrong_is_read_again(folder, images, own_store, start, source):
    service = start()
    names = sorted(path.relative_to(images / "folder") for path in (images / "folder").rglob("*.jpg"))
    at = {place: {"folder": {"image_folder": {"path": f"{place}/folder"}}, "list": {"image_list": {"path": f"{place}/list.txt"}}, "entries": {"image_list": {"entries": [f"{place}/folder/{name} 1" for name in names]}}}[source] for place in (images, "s3://bucket")}
    more = {"outputs": ["image", "label"]}
    local = result(folder, at[images], service, **more)
    own_store.wrong_bytes(1, key=names[3].name)
    found = result(folder, at["s3://bucket"], service, **more)
    assert (found["digest"], found["samples"]) == (local["digest"], local["samples"])
    assert own_store.count("GET", names[3].name) == 2
    # One that is wrong in the store is read twice, too.
    replace(images / "folder" / names[5], b"\xff\xd8 no image")
    before = own_store.count("GET", names[5].name)
    assert error_of(at["s3://bucket"], service).reason == "CORRUPT_IMAGE"
    assert own_store.count("GET", names[5].name) == before + 2


def test_an_empty_image_is_a_sample_error(folder, images, start):
    replace(sorted((images / "folder").rglob("*.jpg"))[9], b"")
    service = start()
    errors = {"errors": {"policy": "substitute", "max_fraction": 0.5}}
    local = result(folder, {"image_folder": {"path": str(images / "folder")}}, service, **errors)
    assert result(folder, FOLDER, service, **errors) == local


@pytest.mark.parametrize("source, reason, said", [
    ({"image_folder": {"path": "s3://bucket/nothing"}}, "FILE_NOT_FOUND", "s3://bucket/nothing/"),
    ({"image_folder": {"path": "s3://nowhere/photos"}}, "FILE_NOT_FOUND", "no such bucket"),
    ({"image_folder": {"path": "s3://bucket/folder", "extensions": ["bmp"]}}, "NO_SAMPLES", "extensions"),
    ({"image_folder": {"path": "http://127.0.0.1:1/photos"}}, "SPEC_INVALID", "image_list"),
    ({"image_folder": {"path": "s3://other/photos"}}, "PATH_NOT_ALLOWED", "--root"),
    ({"image_list": {"path": "s3://bucket/none.txt"}}, "FILE_NOT_FOUND", "s3://bucket/none.txt"),
    ({"image_list": {"path": "s3://bucket/*.txt"}}, "SPEC_INVALID", "wildcards"),
    ({"image_list": {"entries": ["s3://other/a.jpg 0"]}}, "PATH_NOT_ALLOWED", "s3://other/a.jpg"),
    ({"image_list": {"path": "s3://bucket/list.txt", "classes_file": "s3://bucket/none.txt"}}, "FILE_NOT_FOUND", "s3://bucket/none.txt"),
    ({"image_folder": {"path": "s3://bucket/folder", "classes_file": "s3://bucket/*.txt"}}, "SPEC_INVALID", "wildcards"),
    ({"image_folder": {"path": "s3://bucket/folder", "classes_file": "s3://other/c.txt"}}, "PATH_NOT_ALLOWED", "--root"),
])
def test_what_cannot_be_read_is_named(start, source, reason, said):
    error = error_of(source, start(roots=("s3://bucket", "s3://nowhere", "http://127.0.0.1:1")))
    assert error.reason == reason
    assert said in str(error)


def test_names_of_classes_whose_blocks_are_damaged_are_read_again(folder, images, own_store, start):
    names = sorted(path.name for path in (images / "folder").iterdir())
    (images / "classes.txt").write_text("".join(f"{name}\n" for name in names))
    source = {"image_folder": {"path": str(images / "folder"), "classes_file": "s3://bucket/classes.txt"}}
    service = start()
    local = result(folder, source, service)
    [data] = blocks_folder(folder / "cache").glob("*.data")
    data.write_bytes(b"x" * data.stat().st_size)
    assert result(folder, source, service) == local
    own_store.fail(4, 503, key="classes.txt")
    own_store.reset(1, key="classes.txt")
    data.unlink()
    assert result(folder, source, service) == local


@pytest.mark.parametrize("key", ["list.txt", "classes.txt"])
def test_a_list_that_arrives_wrong_is_read_again(folder, images, own_store, start, key):
    """Lists and names of classes have no checksum: what a wrong one says would stay in the block cache."""
    names = sorted(path.name for path in (images / "folder").iterdir())
    (images / "classes.txt").write_text("".join(f"{name}\n" for name in names))
    here = {"list.txt": {"image_list": {"path": str(images / "list.txt")}}, "classes.txt": {"image_folder": {"path": str(images / "folder"), "classes": names}}}
    stored = {"list.txt": {"image_list": {"path": "s3://bucket/list.txt"}}, "classes.txt": {"image_folder": {"path": "s3://bucket/folder", "classes_file": "s3://bucket/classes.txt"}}}
    service = start()
    own_store.wrong_bytes(1, key=key)
    assert result(folder, stored[key], service) == result(folder, here[key], service)
    assert own_store.count("GET", key) == 2


def test_no_right_to_list_is_named(own_store, start):
    own_store.fail(None, 403)
    error = error_of(FOLDER, start())
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "FILE_UNREADABLE")
    assert "s3://bucket/folder" in str(error) and "right to read" in str(error)
