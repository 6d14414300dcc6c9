"""What data hold, seen without a spec: `bulkhead inspect`."""

import json
import os
import shutil
import subprocess

import pytest
import yaml
from conftest import BIN


def inspect(*data, code=0):
    """What it prints as JSON, and what it says on stderr."""
    run = subprocess.run([BIN / "bulkhead", "inspect", *map(str, data), "--json"], capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stderr
    return json.loads(run.stdout), run.stderr


def test_records_show_their_features(photos):
    found, _ = inspect(photos / "*.tfrecord", "--count", "30")
    assert found["records_looked_at"] == 30 and not found["compressed"]
    image, label = found["features"]["image"], found["features"]["label"]
    assert image["type"] == "bytes" and image["images"]["formats"] == {"JPEG": 30}
    assert (label["type"], label["least_values"], label["most_values"]) == ("int64", 1, 1)
    assert yaml.safe_load(found["spec"])["features"]["label"] == {"key": "label", "int64": {}}


def test_the_spec_that_it_prints_streams(photos, tmp_path):
    spec = tmp_path / "spec.yaml"
    for data in (photos / "folder", photos / "*.tfrecord"):
        spec.write_text(inspect(data)[0]["spec"])
        subprocess.run([BIN / "bulkhead", "validate", spec], check=True, stdout=subprocess.DEVNULL)


def test_a_folder_shows_its_classes_and_what_is_no_image(photos, tmp_path):
    folder = tmp_path / "photos"
    [one, *_] = sorted((photos / "folder").rglob("*.jpg"))
    for name in ("cats/a.jpg", "cats/b.JPG", "dogs/c.jpeg", ".git/d.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(one, folder / name)
    (folder / "README.txt").write_text("photos")
    (folder / "dogs/torn.jpg").write_bytes(one.read_bytes()[:200])
    (folder / "dogs/text.png").write_text("no image")
    (folder / "empty").mkdir()
    os.mkfifo(folder / "dogs/pipe.jpg")
    found, said = inspect(folder, code=1)
    assert found["classes"] == {"cats": 2, "dogs": 4, "empty": 0}
    assert (found["files"], found["other_files"]) == (6, 1)
    assert found["extensions"] == {"jpeg": 1, "jpg": 4, "png": 1}
    assert all(name in said for name in ("dogs/torn.jpg", "dogs/text.png", "dogs/pipe.jpg")) and said.count("\n") == 3


def test_a_list_shows_its_columns_and_missing_files(photos, tmp_path):
    [one, *_] = sorted((photos / "folder").rglob("*.jpg"))
    shutil.copy(one, tmp_path / "a.jpg")
    listed = tmp_path / "train.txt"
    listed.write_text("# made by hand\nfile\tclass\na.jpg\t3\ngone.jpg\t7\n")
    found, said = inspect(listed, code=1)
    assert found["header"] and [column["name"] for column in found["columns"]] == ["file", "class"]
    assert (found["columns"][1]["lowest"], found["columns"][1]["highest"]) == (3, 7)
    assert (found["rows"], found["missing_files"]) == (2, 1)
    assert f"{listed}:4: " in said and "gone.jpg" in said


def test_hostile_lists_and_paths_are_refused(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long.txt").write_text("x" * 100_000 + "\n")
    (tmp_path / "name.txt").write_text("a" * 400 + " 1\n")
    for name in ("loop", "pipe", "long.txt", "name.txt"):
        run = subprocess.run([BIN / "bulkhead", "inspect", tmp_path / name], capture_output=True, text=True, check=False, timeout=60)
        assert run.returncode == 1 and name in run.stderr, run


@pytest.mark.parametrize(("name", "content", "part"), [
    ("empty.tfrecord", b"", "holds no record"),
    ("junk.tfrecord", b"junk" * 100, "does not begin as a TFRecord does"),
    ("folder", None, "no images"),
])
def test_data_that_cannot_be_read_are_named(tmp_path, name, content, part):
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    run = subprocess.run([BIN / "bulkhead", "inspect", path], capture_output=True, text=True, check=False)
    assert part in run.stdout + run.stderr and "Traceback" not in run.stderr
    assert name in run.stderr or content is None
