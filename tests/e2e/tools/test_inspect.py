"""What data hold, seen without a spec: `bulkhead inspect`."""

import json
import os
import shutil
import struct
import subprocess

import PIL.Image
import pytest
import yaml

import bulkhead
from conftest import BIN, write_spec
from tf_records import write_records


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


@pytest.fixture
def images(photos, folder):
    """A folder with a.jpg, b.jpg and "c d.jpg"."""
    for name, path in zip(("a", "b", "c d"), sorted((photos / "folder").rglob("*.jpg"))):
        shutil.copy(path, folder / f"{name}.jpg")
    return folder


def first_batch(text, name="label"):
    """The outputs' names, and those of one, of the first batch that a service makes of a spec's text."""
    spec = yaml.safe_load(text)
    spec["batch"]["size"], spec["order"] = 2, {"sequential": {}}
    with bulkhead.Loader(spec, timeout=60) as loader:
        batch = next(iter(loader))
        labels = batch[name].tolist() if name in batch else None
        return sorted(batch), [loader.classes[i] for i in labels] if loader.classes else labels


LISTS = {
    "integers": ("a.jpg 3\nb.jpg 4\n", [3, 4]),
    "fractions below an integer": ("a.jpg,1\nb.jpg,0.5\n", [1, 0.5]),
    "several values": ("a.jpg\t1\t0.5\nb.jpg\t2\t0.25\n", [1, 2]),
    "texts": ("a.jpg emu\nb.jpg cat\n", ["emu", "cat"]),
    "texts below titles": ("image,animal\na.jpg,emu\nb.jpg,cat\n", ["emu", "cat"]),
    "titles": ("image,age\na.jpg,7\nb.jpg,8\n", [7, 8]),
    "labels first": ("3,a.jpg\n4,b.jpg\n", [3, 4]),
    "texts first, below titles": ("label,path\nemu,c d.jpg\ncat,b.jpg\n", ["emu", "cat"]),
    "fractions on both sides": ("0.5\ta.jpg\t1\n0.25\tb.jpg\t2\n", [0.5, 0.25]),
    "no labels": ("a.jpg\nc d.jpg\n", None),
    "no labels below a title": ("image\na.jpg\nb.jpg\n", None),
}


@pytest.mark.parametrize("kind", LISTS)
def test_the_spec_of_a_list_streams(images, kind):
    text, labels = LISTS[kind]
    if kind == "no labels":  # spaces would separate
        text = text.replace("c d", "b")
    (images / "train.txt").write_text(text)
    outputs, delivered = first_batch(inspect(images / "train.txt")[0]["spec"])
    assert delivered == labels
    assert outputs[0] == "image"


def test_the_specs_of_folders_and_records_stream(photos, images):
    assert first_batch(inspect(photos / "folder")[0]["spec"])[0] == ["image", "label"]
    assert first_batch(inspect(photos / "*.tfrecord")[0]["spec"])[0] == ["image", "label"]
    assert first_batch(inspect(images)[0]["spec"])[0] == ["image"]


LABELS = {
    "float": ("float", [[0.5], [1.5]], [0.5, 1.5]),
    "values": ("float", [[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 5, 6]]),
    "some": ("int64", [[1], [2, 3]], [[1, 0, 0, 0], [2, 3, 0, 0]]),
    "text": ("bytes", [[b"emu"], [b"cat"]], [b"emu", b"cat"]),
}


@pytest.mark.parametrize("name", LABELS)
def test_the_spec_of_records_with_such_labels_streams(images, name):
    kind, records, delivered = LABELS[name]

    image = (images / "a.jpg").read_bytes()
    write_records(images / "x.tfrecord", ({"image": ("bytes", [image]), "label": (kind, values)} for values in records))
    assert first_batch(inspect(images / "x.tfrecord")[0]["spec"])[1] == delivered


def test_a_spec_shows_its_data_and_what_they_lack(photos, folder):
    found, _ = inspect(photos / "tfrecord.yaml")
    assert found["records_looked_at"] == 100 and found["spec"] == ""
    assert inspect(photos / "folder.yaml")[0]["files"] == 150
    spec = write_spec(folder / "spec.yaml", source={"tfrecord": {"files": str(photos / "*.tfrecord")}},
                      features={"image": {"key": "imag", "bytes": {}}, "label": {"int64": {}}},
                      stages=["decode_image", {"resize": {"size": 8}}], batch={"size": 2})
    _, said = inspect(spec, code=1)
    assert "features.image: no record that was looked at holds `imag`; did you mean `image`?" in said
    mixed = [{"weight": 1, "source": {"image_folder": {"path": name}}} for name in ("a", "b")]
    spec = write_spec(folder / "mixed.yaml", source={"mixture": {"sources": mixed}}, stages=["decode_image", {"resize": {"size": 8}}], batch={"size": 2})
    said = subprocess.run([BIN / "bulkhead", "inspect", spec], capture_output=True, text=True, check=False).stderr
    assert f"inspect the data of each source by itself: {folder}/a, {folder}/b" in said


def test_damage_is_named_by_its_offset(photos, folder):
    """Where the quarantine knows it."""
    [path, *_] = sorted(photos.glob("*.tfrecord"))
    data = path.read_bytes()
    second = 16 + struct.unpack_from("<Q", data)[0]
    (folder / "cut.tfrecord").write_bytes(data[: second + 40])
    _, said = inspect(folder / "cut.tfrecord", code=1)
    assert f"cut.tfrecord@{second}: the record is cut short" in said


def test_one_is_no_plural(images):
    for name in ("b.jpg", "c d.jpg"):
        (images / name).unlink()
    said = subprocess.run([BIN / "bulkhead", "inspect", images], capture_output=True, text=True, check=True).stdout
    assert said.startswith("1 image, ") and "images" not in said


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
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.suffix in (".jpg", ".JPG", ".jpeg", ".png"))
    found, said = inspect(folder, code=1)
    assert found["bytes"] == size - one.stat().st_size  # of the hidden one
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


def test_no_more_files_are_read_than_asked_for(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.npy").write_text("no image")
    (tmp_path / "train.txt").write_text("a.npy 1\nb.npy 2\nc.npy 3\n")
    _, said = inspect(tmp_path / "train.txt", "--count", "2", code=1)
    assert "a.npy" in said and "b.npy" in said and "c.npy" not in said


def shown(*data, code=0):
    """What it prints for people."""
    run = subprocess.run([BIN / "bulkhead", "inspect", *map(str, data)], capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stderr
    return run.stdout


def test_the_first_samples_are_shown(photos, images):
    [first, *_] = sorted(photos.glob("*.tfrecord"))
    rows = inspect(photos / "*.tfrecord")[0]["first_samples"]
    assert len(rows) == 3 and rows[0]["place"] == f"{first}@0"
    width, height = PIL.Image.open(images / "a.jpg").size
    assert rows[0]["values"]["image"].startswith("JPEG ") and rows[0]["values"]["image"].endswith(" x 3")
    assert rows[0]["values"]["boxes"].startswith("tensor float32 [")
    assert f"  {first}@0: boxes tensor float32 [" in shown(photos / "*.tfrecord")
    a = f"JPEG {width} x {height} x 3"
    assert f"first samples:\n  a.jpg: image {a}\n  b.jpg: " in shown(images)
    (images / "train.txt").write_text("a.jpg emu\ngone.jpg cat\n")
    assert f"train.txt:1: image a.jpg ({a}); label emu\n" in shown(images / "train.txt", code=1)
    assert "train.txt:2: image gone.jpg (no file); label cat\n" in shown(images / "train.txt", code=1)
    assert [row["values"]["label"] for row in inspect(images / "train.txt", code=1)[0]["first_samples"]] == ["emu", "cat"]


def test_gray_and_transparent_images_show_their_channels(tmp_path):
    for name, mode in (("gray.png", "L"), ("alpha.png", "RGBA"), ("palette.png", "P"), ("gray.jpg", "L"), ("p.pgm", "L")):
        PIL.Image.new(mode, (20, 10)).save(tmp_path / name)
    (tmp_path / "train.txt").write_text("gray.png\nalpha.png\npalette.png\n")
    said = shown(tmp_path / "train.txt")
    assert "PNG 20 x 10 x 1" in said and "PNG 20 x 10 x 4" in said and "PNG 20 x 10 x 3" in said
    (tmp_path / "train.txt").write_text("gray.jpg\np.pgm\n")
    assert "JPEG 20 x 10 x 1" in shown(tmp_path / "train.txt") and "PNM 20 x 10 x 1" in shown(tmp_path / "train.txt")


def test_the_spec_goes_into_a_file_that_streams(photos, images):
    said = shown(images, "--out", images / "train.yaml")
    assert first_batch((images / "train.yaml").read_text())[0] == ["image"] and "--out" not in said
    assert shown(images).endswith(f"`bulkhead inspect '{images}' --out train.yaml` writes it to a file.\n")
    run = subprocess.run([BIN / "bulkhead", "inspect", images, "--out", images / "train.yaml"], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "train.yaml: is there already; name another file" in run.stderr


def test_features_that_are_offered_can_be_read(photos):
    text = inspect(photos / "*.tfrecord")[0]["spec"]
    assert '  # boxes: {key: "boxes", tensor: {dtype: float32, shape: [-1, 4], max_count: ' in text
    lines = [line.replace("  # ", "  ", 1) if line.startswith("  # boxes") else line for line in text.split("\n")]
    assert first_batch("\n".join(lines).replace("outputs: [image, label]", "outputs: [image, boxes]"))[0] == ["boxes", "boxes_count", "image"]


def test_semicolons_separate(images):
    (images / "train.csv").write_text("path;kind\nc d.jpg;emu\nb.jpg;cat\n")
    found, _ = inspect(images / "train.csv")
    assert found["header"] and first_batch(found["spec"])[1] == ["emu", "cat"]


@pytest.mark.parametrize("title", ["", "Unnamed: 0"])
def test_the_index_that_pandas_writes_is_no_label(images, title):
    (images / "train.csv").write_text(f"{title},path,kind\n0,a.jpg,emu\n1,b.jpg,cat\n")
    found, _ = inspect(images / "train.csv")
    assert "labels: [label]\n" in found["spec"]
    assert first_batch(found["spec"])[1] == ["emu", "cat"]
    said = subprocess.run([BIN / "bulkhead", "inspect", images / "train.csv"], capture_output=True, text=True, check=True).stdout
    assert ": the index that pandas writes\n" in said


@pytest.mark.parametrize("lines, why", [
    ("a.jpg,emu,\nb.jpg,cat,\n", "column 3 is empty in 2 lines; every line needs a value there, and none ends with a comma"),
    ("a.jpg,emu\nb.jpg,\n", "column 2 is empty in 1 line; "),
    ("a.jpg,1.5\nb.jpg,nan\n", "column 2 has 1 number and 1 text"),
])  # fmt: skip
def test_no_spec_is_proposed_that_cannot_run(images, lines, why):
    (images / "train.csv").write_text(lines)
    run = subprocess.run([BIN / "bulkhead", "inspect", images / "train.csv", "--out", images / "t.yaml"], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and why in run.stderr and not (images / "t.yaml").exists(), run


def test_a_list_of_texts_shows_its_classes(images):
    (images / "train.txt").write_text("a.jpg emu\nb.jpg cat\na.jpg cat\n")
    found, _ = inspect(images / "train.txt")
    assert found["columns"][1]["classes"] == {"cat": 2, "emu": 1}
    said = subprocess.run([BIN / "bulkhead", "inspect", images / "train.txt"], capture_output=True, text=True, check=True).stdout
    assert "column 2: 2 classes: 2 cat, 1 emu\n" in said and "column 1: paths, first 'a.jpg'\n" in said


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
    assert run.returncode == 1 and part in run.stdout + run.stderr, run
    assert name in run.stderr or content is None
