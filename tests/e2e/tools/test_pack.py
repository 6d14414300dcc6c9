"""`bulkhead pack`: images, lists, tars and specs become TFRecords that hold the same, also when a run is ended in between."""

import fcntl
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest
import yaml

import bulkhead
from conftest import BIN, digest_of, tool, write_spec
from tars import npy, write_tar
from tf_records import read_examples, write_records

SMALL = ["decode_image", {"resize": {"size": 16}}]


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def columns(spec):
    with bulkhead.Loader(spec, timeout=60) as loader:
        [batch] = loader
        return {name: np.array(batch[name]) for name in batch}


def test_a_list_is_packed_with_labels_paths_and_names_of_classes(photos, folder):
    names = sorted(path.relative_to(photos) for path in (photos / "folder").rglob("*.jpg"))[:30]
    kinds = ["cat", "dog", "emu"]
    (photos / "animals.csv").write_text("".join(f"{path},{kinds[i % 3]}\n" for i, path in enumerate(names)))
    assert tool("pack", photos / "animals.csv", folder / "packed", "--records", 7).startswith("30 records in 5 files")
    spec = folder / "packed/packed.yaml"
    assert "valid" in tool("validate", spec)
    with bulkhead.Loader(spec, timeout=60) as loader:
        assert loader.classes == ("cat", "dog", "emu")
    told = {**yaml.safe_load(spec.read_text()), "stages": SMALL, "batch": {"size": 30}, "order": "sequential", "epochs": 1, "outputs": ["image", "label", "path"]}
    packed = columns(write_spec(folder / "packed/all.json", **told))
    plain = columns(write_spec(folder / "plain.json", **{**told, "source": {"image_list": {"path": str(photos / "animals.csv")}}, "features": {}}))
    for name in ("image", "label", "path"):
        np.testing.assert_array_equal(packed[name], plain[name])


@pytest.fixture
def tar_spec(folder):
    members = []
    for i in range(23):
        boxes = [[i, 0.5, 1, 2]] * (i % 3)
        members += [(f"{i:02}.cls", b"%d" % i), (f"{i:02}.txt", b"t" * i), (f"{i:02}.json", json.dumps({"score": i / 4, "boxes": boxes}).encode()),
                    (f"{i:02}.npy", npy(np.arange(i % 4 * 2, dtype=np.uint8).reshape(-1, 2)))]
    write_tar(folder / "x.tar", members)
    features = {"label": {"key": "cls", "int64": {}}, "text": {"key": "txt", "bytes": {"max_bytes": 40}}, "score": {"key": "json:score", "float": {}},
                "boxes": {"key": "json:boxes", "float": {"shape": [-1, 4], "max_count": 3}}, "key": {"key": "__key__", "bytes": {"max_bytes": 9}},
                "pairs": {"key": "npy", "tensor": {"dtype": "uint8", "shape": [-1, 2], "max_count": 4}}}
    spec = {"source": {"tar": {"files": "x.tar"}}, "features": features, "batch": {"size": 23}, "epochs": 1,
            "filter": [{"feature": "label", "min": 1}], "skip": 1}
    return write_spec(folder / "tar.yaml", **spec)


def test_a_spec_is_packed_with_all_its_features_and_what_it_selects(tar_spec, folder):
    assert tool("pack", tar_spec, folder / "packed", "--records", 5, "--threads", 3).startswith("21 records in 5 files")
    before, after = columns(tar_spec), columns(folder / "packed/packed.yaml")
    assert list(before) == list(after) and len(before["label"]) == 21
    for name in before:
        assert before[name].dtype == after[name].dtype
        np.testing.assert_array_equal(before[name], after[name])


def test_the_spec_of_packed_tfrecords_reads_these_alone(photos, folder):
    spec = write_spec(folder / "spec.yaml", source={"tfrecord": {"files": str(photos / "records-*.tfrecord")}}, features={"label": "int64"}, batch={"size": 9}, take=20)
    tool("pack", spec, folder / "packed")
    assert yaml.safe_load((folder / "packed/packed.yaml").read_text())["source"] == {"tfrecord": {"files": ["part-*.tfrecord"]}}


def test_tars_are_packed_without_a_spec(photos, folder):
    images = sorted((photos / "folder").rglob("*.jpg"))[:12]
    write_tar(folder / "a.tar", [(f"{i}.{ending}", data) for i, image in enumerate(images)
                                 for ending, data in (("jpg", image.read_bytes()), ("cls", b"%d" % i))])
    found = json.loads(tool("pack", folder / "*.tar", folder / "packed", "--json"))
    assert (found["records"], found["files"], found["kept_files"], found["left_out"]) == (12, 1, 0, 0)
    told = {"stages": SMALL, "outputs": ["image", "label"], "batch": {"size": 4}, "epochs": 1}
    packed = write_spec(folder / "packed/s.json", source={"tfrecord": {"files": "part-*.tfrecord"}}, features={"image": {"bytes": {}}, "label": "int64"}, **told)
    assert digest_of("cpp", packed) == digest_of("cpp", write_spec(folder / "s.json", source={"tar": {"files": "a.tar"}}, **told))


def test_a_run_that_was_killed_goes_on_and_gives_the_same_bytes(photos, folder):
    tool("pack", photos / "folder", folder / "whole", "--records", 3)
    command = [BIN / "bulkhead", "pack", photos / "folder", folder / "packed", "--records", "3", "--threads", "1"]
    # Ended as soon as it has some files, whole and other: a pipe that nobody reads would not stop it.
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((folder / "packed").glob("part-*.tfrecord"))) < 3:
        assert time.monotonic() < deadline
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # On a busy machine it may have come to the last file before it was ended.
    (folder / "packed/part-049.tfrecord").unlink(missing_ok=True)
    (folder / "packed/part-049.tfrecord.unfinished").write_bytes(b"half a record")
    kept = {name: data for name, data in bytes_of(folder / "packed").items() if name.endswith(".tfrecord")}
    assert kept.items() <= bytes_of(folder / "whole").items()
    damaged = sorted(kept)[1]
    os.truncate(folder / "packed" / damaged, 1000)  # as a disk that lost power may leave it
    assert "holds an unfinished packing with other options: --records was 3 and is 4 now; give the earlier ones to go on" in tool("pack", photos / "folder", folder / "packed", "--records", 4, code=1)
    found = json.loads(tool("pack", *command[2:], "--json"))
    assert found["kept_files"] == len(kept) - 1 and found["files"] == 50
    assert bytes_of(folder / "packed") == bytes_of(folder / "whole")
    assert tool("pack", *command[2:]).startswith("already packed: 150 records in 50 files, which all read as they were written")
    os.truncate(folder / "packed/part-007.tfrecord", 1000)
    found = json.loads(tool("pack", *command[2:], "--json"))
    assert (found["kept_files"], found["was_whole"]) == (49, False) and bytes_of(folder / "packed") == bytes_of(folder / "whole")
    assert json.loads(tool("pack", *command[2:], "--json"))["was_whole"]
    assert "holds a finished packing with other options: --records was 3 and is 4 now" in tool("pack", *command[2:4], "--records", 4, code=1)
    # A path has many spellings.
    relative = os.path.relpath(photos / "folder")
    assert tool("pack", f"./{relative}/", *command[3:]).startswith("already packed")
    (folder / "link").symlink_to(photos / "folder")
    assert tool("pack", folder / "link", *command[3:]).startswith("already packed")
    error = tool("pack", folder / "whole/packed.yaml", *command[3:], code=1)
    assert f"holds a finished packing of {photos / 'folder'}, not of {folder / 'whole/packed.yaml'}, and with other options" in error


def test_a_folder_to_which_another_run_writes_is_left_alone(photos, folder):
    (folder / "packed").mkdir()
    other = os.open(folder / "packed", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    assert "another `bulkhead pack` writes to this folder" in tool("pack", photos / "folder", folder / "packed", code=1)
    os.close(other)
    tool("pack", photos / "folder", folder / "packed")
    assert "is no folder that can be written to: Not a directory" in tool("pack", photos / "folder", folder / "packed/packed.yaml", code=1)


def test_what_cannot_be_written_leaves_nothing_that_stands_in_the_way(photos, folder):
    tool("pack", photos / "folder", folder / "whole")
    limited = ["prlimit", "--fsize=0", str(BIN / "bulkhead"), "pack", str(photos / "folder"), str(folder / "packed")]
    refused = subprocess.run(limited, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
    assert refused.returncode == 1 and ".packing: cannot be written: File too large" in refused.stderr
    assert not bytes_of(folder / "packed")
    tool("pack", photos / "folder", folder / "packed")
    assert bytes_of(folder / "packed") == bytes_of(folder / "whole")


def test_a_bad_record_is_named_and_nothing_is_lost(folder):
    write_tar(folder / "x.tar", [("a.cls", b"1"), ("b.cls", b"x"), ("c.cls", b"3")])
    spec = write_spec(folder / "spec.yaml", source={"tar": {"files": "x.tar"}}, features={"label": {"key": "cls", "int64": {}}}, batch={"size": 1})
    assert "x.tar@1024: feature `label`" in tool("pack", spec, folder / "packed", "--records", 1, code=1)
    write_tar(folder / "x.tar", [("a.cls", b"1"), ("b.cls", b"2"), ("c.cls", b"3")])
    tool("pack", spec, folder / "packed", "--records", 1)
    assert columns(write_spec(folder / "packed/all.json", source={"tfrecord": {"files": "*.tfrecord"}}, features={"label": "int64"}, batch={"size": 3}, epochs=1))["label"].tolist() == [1, 2, 3]


def test_it_goes_on_after_a_record_was_mended(photos, folder):
    names = sorted((photos / "folder").rglob("*.jpg"))[:9]
    for number, path in enumerate(names):
        (folder / f"{number}.jpg").write_bytes(path.read_bytes())
    (folder / "list.txt").write_text("".join(f"{number}.jpg {number}\n" for number in range(9)))
    (folder / "8.jpg").write_bytes(names[8].read_bytes()[:300])
    words = [folder / "list.txt", folder / "packed", "--records", 2, "--longer-side", 64, "--threads", 1]
    error = tool("pack", *words, code=1)
    assert "8.jpg" in error
    (folder / "8.jpg").write_bytes(names[8].read_bytes())
    (folder / "3.jpg").write_bytes(names[4].read_bytes())  # one that was packed
    (folder / "list.txt").write_text("".join(f"{number}.jpg {number + (number == 5)}\n" for number in range(9)))
    said = tool("pack", *words)
    assert "2 files of the earlier run written anew, whose data have changed since" in said
    tool("pack", words[0], folder / "whole", *words[2:])
    assert bytes_of(folder / "packed") == bytes_of(folder / "whole")
    # What is finished stays, as somebody may train with it.
    (folder / "3.jpg").write_bytes(names[3].read_bytes())
    error = tool("pack", *words, code=1)
    assert "holds a finished packing of these data, which have changed since: 1 file from part-001.tfrecord on would have other records" in error
    assert bytes_of(folder / "packed") == bytes_of(folder / "whole")


def test_files_of_tars_that_have_not_changed_are_kept(folder):
    write_tar(folder / "x.tar", [("a.cls", b"1"), ("b.cls", b"2")])
    write_tar(folder / "y.tar", [("c.cls", b"x")])
    spec = write_spec(folder / "spec.yaml", source={"tar": {"files": "*.tar"}}, features={"label": {"key": "cls", "int64": {}}}, batch={"size": 1})
    words = [spec, folder / "packed", "--records", 1, "--threads", 1]
    assert "y.tar@0" in tool("pack", *words, code=1)
    write_tar(folder / "y.tar", [("c.cls", b"3")])
    # By a spec with other records to deliver, of which most are the same.
    good = write_spec(folder / "good.yaml", source={"tar": {"files": "*.tar"}}, features={"label": {"key": "cls", "int64": {}}}, batch={"size": 1}, take=3)
    found = json.loads(tool("pack", good, *words[1:], "--json"))
    assert (found["kept_files"], found["stale_files"]) == (2, 0)
    os.utime(folder / "x.tar", ns=(1, 1))
    assert "which have changed since: 2 files from part-000.tfrecord on would have other records" in tool("pack", *words, code=1)


def test_advice_about_a_bad_record_is_about_packing(folder):
    write_records(folder / "a.tfrecord", [{"label": ("int64", [number])} for number in range(3)])
    data = bytearray((folder / "a.tfrecord").read_bytes())
    data[14] ^= 1
    (folder / "a.tfrecord").write_bytes(data)
    spec = write_spec(folder / "spec.yaml", source={"tfrecord": {"files": "a.tfrecord"}}, features={"label": "int64"}, batch={"size": 1})
    error = tool("pack", spec, folder / "out", code=1)
    assert "a.tfrecord@0" in error and "errors.policy" not in error
    assert "leave such records out: `bulkhead scan SPEC --write-spec good.yaml` writes a spec that `pack` takes" in error
    tool("scan", spec, "--write-spec", folder / "good.yaml", code=1)
    assert tool("pack", folder / "good.yaml", folder / "out").startswith("2 records in 1 file")
    (folder / "list.txt").write_text("nowhere.jpg 1\n")
    error = tool("pack", folder / "list.txt", folder / "out2", code=1)
    assert "list.txt:1" in error and "policy" not in error and "bulkhead scan SPEC --write-spec" in error


def test_a_stray_file_beside_the_classes_takes_no_labels_away(photos, folder):
    for kind in ("cat", "dog"):
        (folder / "photos" / kind).mkdir(parents=True)
        (folder / "photos" / kind / "1.jpg").write_bytes(next((photos / "folder").rglob("*.jpg")).read_bytes())
    (folder / "photos/.cache").mkdir()
    for stray in ("README.md", ".DS_Store", "dog/notes.txt", ".cache/1.jpg"):
        (folder / "photos" / stray).write_text("stray")
    said = tool("pack", folder / "photos", folder / "packed")
    assert said.startswith("2 records in 1 file, 3 other files left out") and "left out: .DS_Store, README.md, dog/notes.txt" in said
    assert [example["label"] for example in read_examples(folder / "packed/part-000.tfrecord")] == [[0], [1]]
    assert yaml.safe_load((folder / "packed/packed.yaml").read_text())["features"]["label"]["int64"]["classes"] == ["cat", "dog"]
    # An image there belongs to no class.
    (folder / "photos/cover.jpg").write_bytes((folder / "photos/cat/1.jpg").read_bytes())
    said = tool("pack", folder / "photos", folder / "unlabeled", code=1)
    assert f"{folder / 'photos/cover.jpg'}: lies beside sub-folders with images, which are classes; move it into one" in said
    [source] = re.findall("`source: (.*?)`", said)
    write_spec(folder / "unlabeled.yaml", source=yaml.safe_load(source), stages=["decode_image", {"resize": {"size": 8}}],
               batch={"size": 1})
    tool("pack", folder / "unlabeled.yaml", folder / "unlabeled")
    assert "label" not in next(read_examples(folder / "unlabeled/part-000.tfrecord"))
    for kind in ("cat", "dog"):
        (folder / "photos" / kind / "1.jpg").unlink()
    assert "no labels" not in tool("pack", folder / "photos", folder / "flat"), "nobody could expect any"


def test_a_folder_of_records_is_told_what_to_write(photos, folder):
    (folder / "tf").mkdir()
    write_records(folder / "tf/a.tfrecord", [{"label": ("int64", [1])}])
    assert f"tf: holds no images; for TFRecords write '{folder / 'tf/*.tfrec*'}'" in tool("pack", folder / "tf", folder / "out", code=1)
    (folder / "tf/packed.yaml").write_text("")
    assert f"for the records that `pack` wrote there write {folder / 'tf/packed.yaml'}" in tool("pack", folder / "tf", folder / "out", code=1)
    (folder / "tars").mkdir()
    write_tar(folder / "tars/x.tar", [("a.cls", b"1")])
    assert f"for tars write '{folder / 'tars/*.tar'}'" in tool("pack", folder / "tars", folder / "out", code=1)
    assert not (folder / "out").exists()


def test_keys_are_given_one_by_one_or_together(photos, folder):
    tool("pack", photos / "folder", folder / "packed", "--key", "image=img,label=cls")
    assert sorted(next(read_examples(folder / "packed/part-000.tfrecord"))) == ["cls", "img"]
    assert tool("pack", photos / "folder", folder / "packed", "--key", "label=cls", "--key", "image=img").startswith("already packed")
    error = tool("pack", photos / "folder", folder / "out", "--key", "image=img,label", code=1)
    assert "--key image=img,label: `label` is no FEATURE=KEY; write image=img_raw, or several as image=img_raw,boxes=bbox" in error


def test_tfrecords_are_packed_byte_for_byte(photos, folder):
    image = next((photos / "folder").rglob("*.jpg")).read_bytes()
    write_records(folder / "a.tfrecord", [
        {"image/encoded": ("bytes", [image]), "image/class/label": ("int64", [number]), "boxes": ("float", [0.5] * 4 * number),
         "names": ("bytes", [b"a", b"bc"][: number % 3])}
        for number in range(5)
    ])
    said = tool("pack", folder / "*.tfrecord", folder / "packed", "--records", 2)
    assert "5 records in 3 files" in said and "the records have all their features" in said
    assert b"".join(path.read_bytes() for path in sorted((folder / "packed").glob("part-*"))) == (folder / "a.tfrecord").read_bytes()
    told = yaml.safe_load((folder / "packed/packed.yaml").read_text())
    assert "epochs" not in told, "a training goes on"
    with bulkhead.Loader(folder / "packed/packed.yaml", timeout=60) as loader:
        assert len(next(iter(loader))["label"]) == 5
    again = tool("pack", folder / "packed/part-*.tfrecord", folder / "again", "--key", "image=img")
    assert "packed.yaml lies beside the data: pack it instead" in again
    assert sorted(next(read_examples(folder / "again/part-000.tfrecord"))) == ["boxes", "image/class/label", "img", "names"]
    assert "the records hold `boxes`, which is neither image nor label and would not follow a smaller image: write a spec that declares all" in tool("pack", folder / "a.tfrecord", folder / "small", "--longer-side", 9, code=1)
    assert not (folder / "small").exists()


def test_what_cannot_be_packed_is_said(photos, folder):
    ranges = [{"weight": 1, "source": {"range": {"size": 3}}}] * 2
    mixture = write_spec(folder / "mixture.yaml", source={"mixture": {"sources": ranges}}, batch={"size": 1})
    assert "source.mixture: pack each of its sources by itself" in tool("pack", mixture, folder / "out", code=1)
    lists = write_spec(folder / "lists.yaml", source={"tfrecord": {"files": str(photos / "*.tfrecord")}}, batch={"size": 1}, outputs=["label"],
                       features={"label": "int64", "names": {"bytes": {"shape": [-1], "max_count": 2, "max_bytes": 4}}})
    assert "features.names: a list of byte strings is not packed" in tool("pack", lists, folder / "out", code=1)
    assert not (folder / "out").exists()
    assert "there is no such file or folder" in tool("pack", folder / "nowhere", folder / "out", code=1)
