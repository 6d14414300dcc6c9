"""Labels that are names of classes, from lists and folders to batches."""

import json
import shutil

import pytest

import bulkhead
from conftest import tool, write_spec

DECODE = ["decode_image", {"resize": {"size": 8}}]


@pytest.fixture
def images(photos, folder):
    for i, path in enumerate(sorted((photos / "folder").rglob("*.jpg"))[:4]):
        shutil.copy(path, folder / f"{i}.jpg")
    return folder


def loader(folder, source, **more):
    return bulkhead.Loader(write_spec(folder / "spec.yaml", source=source, **{"stages": DECODE, "batch": {"size": 4}, "epochs": 1, **more}))


def test_names_of_a_list_reach_the_batch(images):
    (images / "train.csv").write_text("file,animal\n0.jpg,emu\n1.jpg,cat\n2.jpg,emu\n3.jpg,größe\n")
    with loader(images, {"image_list": {"path": "train.csv", "header": True}}) as stream:
        assert stream.classes == ("cat", "emu", "größe")
        [batch] = stream
        assert batch["label"].tolist() == [1, 0, 1, 2]
        assert [batch.class_names["label"][i] for i in batch["label"]] == ["emu", "cat", "emu", "größe"]


def test_names_of_folders_stay_with_packed_records(images):
    for name, kind in (("0", "größe"), ("1", "a: b"), ("2", "emu")):
        (images / "set" / kind).mkdir(parents=True)
        shutil.copy(images / f"{name}.jpg", images / "set" / kind)
    tool("pack", images / "set", images / "packed")
    with bulkhead.Loader(images / "packed/packed.yaml", timeout=60) as stream:
        assert stream.classes == ("a: b", "emu", "größe")
        names = {"1": "a: b", "2": "emu", "0": "größe"}
        batch = next(iter(stream))
        assert sorted(batch.class_names["label"][i] for i in batch["label"]) == sorted(names.values())


def test_validate_counts_the_classes(images):
    def reports(source, name):
        spec = write_spec(images / name, source=source, stages=DECODE, batch={"size": 2}, order="global")
        return tool("validate", "--data", spec), json.loads(tool("validate", "--data", "--json", spec))[0]["classes"]

    (images / "train.csv").write_text("0.jpg,Cat,a\n1.jpg,Cat,b\n2.jpg,Cat 1,a\n3.jpg,Dog,a\n")
    said, counts = reports({"image_list": {"path": "train.csv", "labels": ["kind", "more"]}}, "list.yaml")
    assert "\n  classes of kind: 3 (2 Cat, 1 Cat 1, 1 Dog)\n  classes of more: 2 (3 a, 1 b)\n" in said
    assert counts == {"kind": {"Cat": 2, "Cat 1": 1, "Dog": 1}, "more": {"a": 3, "b": 1}}
    for name, kind in (("0", "emu"), ("1", "emu"), ("2", "cat")):
        (images / "set" / kind).mkdir(parents=True, exist_ok=True)
        shutil.copy(images / f"{name}.jpg", images / "set" / kind)
    said, counts = reports({"image_folder": {"path": "set"}}, "folder.yaml")
    assert "  classes of label: 2 (1 cat, 2 emu)\n" in said and counts == {"label": {"cat": 1, "emu": 2}}


def test_names_that_are_no_text_are_escaped(images):
    (images / "train.txt").write_bytes(b"0.jpg \xe9mu\n1.jpg cat\n")
    with loader(images, {"image_list": {"path": "train.txt"}}) as stream:
        assert stream.classes == ("cat", r"\xe9mu")
    long = b"".join(b"0.jpg " + bytes([i]) * 60_000 + b"\n" for i in range(0x80, 0x90))  # 0.9 MiB, and four times that
    (images / "train.txt").write_bytes(long)
    with loader(images, {"image_list": {"path": "train.txt"}}) as stream:
        assert stream.classes == () and len(stream) == 4


def test_given_classes_and_one_hot(images):
    (images / "train.txt").write_text("0.jpg emu\n1.jpg cat\n")
    source = {"image_list": {"path": "train.txt", "labels": "animal", "classes": ["emu", "dog", "cat"]}}
    stages = [*DECODE, {"one_hot": {"input": "animal", "classes": 3}}]
    with loader(images, source, stages=stages) as stream:
        assert stream.class_names == {"animal": ("emu", "dog", "cat")}
        [batch] = stream
        assert batch["animal"].argmax(1).tolist() == [0, 2]


def test_quoted_names_of_a_csv_file_are_names(images):
    (images / "train.csv").write_bytes(b'\xef\xbb\xbf"file","animal"\r\n"0.jpg","dog, big"\r\n1.jpg,"say ""cat"""\r\n2.jpg,emu\r\n')
    with loader(images, {"image_list": {"path": "train.csv", "header": True}}) as stream:
        assert stream.classes == ("dog, big", "emu", 'say "cat"')
        [batch] = stream
        assert batch["label"].tolist() == [0, 2, 1]
    with loader(images, {"image_list": {"entries": ['"0.jpg","dog, big"', '1.jpg,emu']}}) as stream:
        assert stream.classes == ("dog, big", "emu")


def test_classes_of_a_file_are_those_of_the_spec(images):
    """Cursors of one fit the other; a cursor of other names does not."""
    (images / "train.txt").write_text("".join(f"{i % 4}.jpg {('emu', 'cat')[i % 2]}\n" for i in range(8)))
    (images / "names.txt").write_text("emu\ndog\ncat\n")
    named = {"image_list": {"path": "train.txt", "classes_file": "names.txt"}}
    with loader(images, named) as stream:
        assert stream.classes == ("emu", "dog", "cat")
        first, second = stream
        assert first["label"].tolist() == second["label"].tolist() == [0, 2, 0, 2]
    with loader(images, named) as stream:
        next(iter(stream))
        cursor = stream.state_dict()

    def rest(source):
        with bulkhead.Loader(write_spec(images / "spec.yaml", source=source, stages=DECODE, batch={"size": 4}, epochs=1), cursor=cursor) as stream:
            return [batch["label"].tolist() for batch in stream]

    assert rest({"image_list": {"path": "train.txt", "classes": ["emu", "dog", "cat"]}}) == rest(named) == [[0, 2, 0, 2]]
    (images / "names.txt").write_text("emu\ncat\ndog\n")
    with pytest.raises(bulkhead.errors.CursorMismatch):
        rest(named)
    (images / "names.txt").write_text("emu\nemu\n")
    with pytest.raises(bulkhead.errors.BulkheadError, match="names.txt:2: names `emu` again"):
        rest(named)


def test_sub_folders_are_classes(images):
    for name, i in (("b", 0), ("a", 1)):
        (images / "set" / name).mkdir(parents=True)
        shutil.copy(images / f"{i}.jpg", images / "set" / name)
    with loader(images, {"image_folder": {"path": "set"}}) as stream:
        assert stream.classes == ("a", "b")
        assert stream.schema[1].class_names == ("a", "b")
    with loader(images, {"image_folder": {"path": "set", "unlabeled": True}}) as stream:
        assert stream.classes == () and stream.class_names == {}


def test_a_label_that_a_stage_has_changed_has_no_names(images):
    (images / "train.txt").write_text("0.jpg emu\n1.jpg cat\n")
    stages = [*DECODE, {"cast": {"input": "label", "dtype": "float32"}}]
    with loader(images, {"image_list": {"path": "train.txt"}}, stages=stages) as stream:
        assert stream.classes == ()


def test_renamed_labels_keep_their_names(images):
    (images / "train.txt").write_text("0.jpg emu\n1.jpg cat\n")
    spec = write_spec(images / "spec.yaml", source={"image_list": {"path": "train.txt"}}, stages=DECODE, batch={"size": 2}, epochs=1)
    with bulkhead.Loader(spec, rename={"label": "y"}) as stream:
        assert stream.class_names == {"y": ("cat", "emu")}
        assert next(iter(stream)).class_names == {"y": ("cat", "emu")}


def test_several_labels_with_classes_have_no_classes_in_common(images):
    (images / "train.txt").write_text("0.jpg emu red\n1.jpg cat blue\n")
    with loader(images, {"image_list": {"path": "train.txt", "labels": ["animal", "colour"]}}) as stream:
        with pytest.raises(bulkhead.InvalidArgument, match="animal, colour"):
            stream.classes


def test_lists_of_a_mixture_agree_on_their_classes(images):
    (images / "a.txt").write_text("0.jpg emu\n1.jpg cat\n")
    (images / "b.txt").write_text("2.jpg emu\n3.jpg dog\n")

    def mixture(**more):
        return {"mixture": {"sources": [{"weight": 1, "source": {"image_list": {"path": f"{name}.txt", **more}}} for name in "ab"]}}

    with pytest.raises(bulkhead.BulkheadError, match="give `classes` to all"):
        loader(images, mixture())
    # Also where a source without names comes first, or one of them is a folder.
    (images / "c.txt").write_text("0.jpg\n")
    several = mixture()
    several["mixture"]["sources"].insert(0, {"weight": 1, "source": {"image_list": {"path": "c.txt", "unlabeled": True}}})
    with pytest.raises(bulkhead.BulkheadError, match="give `classes` to all"):
        loader(images, several, outputs=["image"])
    for name, i in (("dog", 0), ("emu", 1)):
        (images / "set" / name).mkdir(parents=True)
        shutil.copy(images / f"{i}.jpg", images / "set" / name)
    for order in (1, -1):
        both = [{"weight": 1, "source": {"image_list": {"path": "a.txt"}}}, {"weight": 1, "source": {"image_folder": {"path": "set"}}}]
        with pytest.raises(bulkhead.BulkheadError, match="give `classes` to all"):
            loader(images, {"mixture": {"sources": both[::order]}})
    with loader(images, mixture(classes=["cat", "dog", "emu"])) as stream:
        assert stream.classes == ("cat", "dog", "emu")
        [batch] = stream
        assert sorted(batch["label"].tolist()) == [0, 1, 2, 2]
