"""Labels that are names of classes, from lists and folders to batches."""

import shutil

import pytest

import bulkhead
from conftest import write_spec

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
    with loader(images, mixture(classes=["cat", "dog", "emu"])) as stream:
        assert stream.classes == ("cat", "dog", "emu")
        [batch] = stream
        assert sorted(batch["label"].tolist()) == [0, 1, 2, 2]
