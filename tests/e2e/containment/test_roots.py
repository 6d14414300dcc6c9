"""What lies outside of a service's data roots stays there, however a spec names it."""

import os
import shutil

import bulkhead
import pytest
from conftest import Service, write_spec


@pytest.fixture
def tree(folder, photos):
    """data/ and more/ are roots, secret/ is none; each class folder holds a few photos."""
    images = sorted((photos / "folder").rglob("*.jpg"))[:4] if (photos / "folder").exists() else sorted(
        photos.rglob("*.jpg"))[:4]
    for place in ("data/c", "more/c", "secret/c"):
        (folder / place).mkdir(parents=True)
        for number, image in enumerate(images):
            shutil.copy(image, folder / place / f"{number}.jpg")
    records = sorted(photos.rglob("*.tfrecord"))[0]
    for place in ("data", "more", "secret"):
        shutil.copy(records, folder / place / "r.tfrecord")
    return folder


@pytest.fixture
def service(tree):
    service = Service(tree, "--root", tree / "data", "--root", tree / "more", "--workers", 1)
    yield service
    service.stop()


def read(tree, service, source, **more):
    """Samples of an epoch, or the reason of the error."""
    stages = ["decode_image", {"resize": {"size": 8}}]
    spec = write_spec(tree / "data/spec.json", source=source, stages=stages, batch={"size": 4}, epochs=1,
                      outputs=["image"], **more)
    try:
        with bulkhead.Loader(spec, service.target) as loader:
            return sum(len(batch["image"]) for batch in loader)
    except bulkhead.BulkheadError as error:
        if error.reason == "PATH_NOT_ALLOWED":
            assert error.code == "PERMISSION_DENIED"
        return error.reason


def records(files):
    return {"source": {"tfrecord": {"files": files}}, "features": {"image": {"key": "image", "bytes": {}}}}


def entries(*lines):
    return {"image_list": {"entries": list(lines), "unlabeled": True}}


def image_folder(path):
    return {"image_folder": {"path": str(path)}}


def test_spec_paths(tree, service):
    assert read(tree, service, image_folder("../data")) == 4
    assert read(tree, service, image_folder("../more")) == 4
    assert read(tree, service, image_folder("../secret")) == "PATH_NOT_ALLOWED"
    assert read(tree, service, image_folder(tree / "secret")) == "PATH_NOT_ALLOWED"
    for files in ("../secret/r.tfrecord", str(tree / "secret/*.tfrecord")):
        assert read(tree, service, {"tfrecord": {"files": files}},
                    features={"image": {"bytes": {}}}) == "PATH_NOT_ALLOWED"


def test_image_list_entries(tree, service):
    (tree / "data/link").symlink_to("../secret/c")
    (tree / "data/inner").symlink_to("../more/c")
    assert read(tree, service, entries("c/0.jpg", "../more/c/1.jpg", "inner/2.jpg", str(tree / "data/c/3.jpg"))) == 4
    for entry in ("../secret/c/0.jpg", str(tree / "secret/c/0.jpg"), "link/0.jpg", "c/../../secret/c/0.jpg"):
        assert read(tree, service, entries("c/0.jpg", entry)) == "PATH_NOT_ALLOWED"


def test_image_folders_with_links(tree, service):
    (tree / "data/linked").symlink_to("../more/c")
    assert read(tree, service, image_folder(tree / "data")) == 8
    (tree / "data/c/out.jpg").symlink_to("../../secret/c/0.jpg")
    assert read(tree, service, image_folder(tree / "data")) == "PATH_NOT_ALLOWED"
    (tree / "data/c/out.jpg").unlink()
    (tree / "data/out").symlink_to("../secret/c")
    assert read(tree, service, image_folder(tree / "data")) == "PATH_NOT_ALLOWED"


def test_a_file_that_is_swapped_for_a_link_behind_the_index(tree, service):
    """The index is kept; the worker opens what lies there now."""
    lines = entries("c/0.jpg", "c/1.jpg")
    assert read(tree, service, lines) == 2
    os.remove(tree / "data/c/1.jpg")
    (tree / "data/c/1.jpg").symlink_to("../../secret/c/1.jpg")
    assert read(tree, service, lines) == "PATH_NOT_ALLOWED"


@pytest.mark.parametrize("pattern", ["../secret/r*", "/etc/shad*", "../sec*/r.tfrecord"])
def test_a_pattern_outside_names_no_file_that_lies_there(tree, service, pattern):
    def refusal(pattern):
        spec = write_spec(tree / "data/spec.json", source={"tfrecord": {"files": pattern}},
                          features={"label": {"int64": {}}}, batch={"size": 4})
        with pytest.raises(bulkhead.BulkheadError) as caught:
            bulkhead.Loader(spec, service.target)
        assert caught.value.reason == "PATH_NOT_ALLOWED"
        assert "shadow" not in str(caught.value) and "r.tfrecord" not in str(caught.value).replace(pattern, "")
        return str(caught.value).replace(pattern, "")

    # Nor can it be told from one that matches nothing.
    assert refusal(pattern) == refusal(pattern.replace("*", "*none"))


def test_control_characters_of_names_reach_neither_message_nor_log(tree, service):
    name = "x\n2026-01-01T00:00:00.000 info forged\033[2J.jpg"
    (tree / "data" / name).write_bytes(b"no image")
    (tree / "data/list.txt").write_text("c/0.jpg\n")
    for source in (entries(name.replace("\n", "\t")), image_folder("."), entries("\033[2J.jpg")):
        spec = write_spec(tree / "data/spec.json", source=source if "image_list" in source else
                          {"image_folder": {**source["image_folder"], "unlabeled": True}},
                          stages=["decode_image", {"resize": {"size": 8}}], batch={"size": 4}, epochs=1,
                          outputs=["image"])
        with pytest.raises(bulkhead.BulkheadError) as caught:
            with bulkhead.Loader(spec, service.target, name="stream\n\033[2Jname") as loader:
                list(loader)
        assert "\033" not in str(caught.value) and "\n" not in str(caught.value)
    assert "\033[2J" not in (tree / "service.log").read_text()
