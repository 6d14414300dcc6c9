"""Paths and labels of Python become image lists, whatever the paths are."""

import gc
import os
import pathlib
import pickle

import numpy as np
import pytest

import bulkhead
from bulkhead import Pipeline
from bulkhead._spec import list_file

ODD = ["#1.jpg", "a b.jpg", "it's, ok.jpg", '"q".jpg', " x.jpg", "a: b.jpg", "é☃.jpg", "{x}[y].jpg"]


def source(pipeline):
    return pipeline.to_dict()["source"]["image_list"]


@pytest.fixture
def long_lists(monkeypatch):
    """Lists of more than three lines are long ones."""
    monkeypatch.setattr(list_file, "_MAX_INLINE_LINES", 3)


def text_of(pipeline):
    return pathlib.Path(pipeline.base_dir, source(pipeline)["path"]).read_text("utf-8")


def test_short_lists_stand_in_the_spec():
    pipeline = Pipeline.from_lists(["a.jpg", pathlib.Path("b/c.jpg")], [3, -4], base_dir="/data")
    assert source(pipeline) == {
        "entries": ["a.jpg\t3", "b/c.jpg\t-4"],
        "delimiter": "tab",
        "images": ["image"],
        "labels": ["label"],
        "label_dtype": "int64",
    }
    assert pipeline.base_dir == "/data"
    assert Pipeline.from_yaml(pipeline.to_yaml(), base_dir="/data") == pipeline


def test_odd_paths_are_written_as_a_list_reads_them():
    pipeline = Pipeline.from_lists(ODD)
    assert source(pipeline)["entries"] == [
        "./#1.jpg",
        "a b.jpg",
        "it's, ok.jpg",
        './"q".jpg',
        "./ x.jpg",
        *ODD[5:],
    ]
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline


@pytest.mark.parametrize("path", ["", "a\tb", "a\nb", "a ", "a\r", "a\0b", b"\xff.jpg", 7, None])
def test_paths_that_no_list_can_say_are_refused_by_number(path):
    with pytest.raises(bulkhead.InvalidArgument, match=r"paths\[1\]"):
        Pipeline.from_lists(["ok.jpg", path], [1, 2])


@pytest.mark.parametrize("label", [float("nan"), float("inf"), "3", None, 1 << 63, 1j])
def test_labels_that_no_batch_can_hold_are_refused_by_number(label):
    with pytest.raises(bulkhead.InvalidArgument, match=r"labels\[1\]"):
        Pipeline.from_lists(["a.jpg", "b.jpg"], [1, label])


def test_labels_may_be_names_of_classes():
    named = source(Pipeline.from_lists(["a.jpg", "b.jpg", "c.jpg"], ["dog", "big cat", "dog"]))
    assert named["entries"] == ["a.jpg\tdog", "b.jpg\tbig cat", "c.jpg\tdog"]
    assert named["classes"] == ["big cat", "dog"] and named["label_dtype"] == "int64"
    assert "classes" not in source(Pipeline.from_lists(["a.jpg"], [1]))


@pytest.mark.parametrize(
    "labels, words",
    [
        (["cat", 1], "numbers or names of classes, not both: 'cat'"),
        (["cat", ""], r"labels\[1\], '', is no name of a class"),
        (["cat", "a\tb"], r"labels\[1\], 'a\\tb', is no name of a class"),
        (["cat", "1e3"], r"labels\[1\] is a number as text, '1e3': give numbers"),
    ],
)
def test_names_of_classes_that_a_list_cannot_say_are_refused(labels, words):
    with pytest.raises(bulkhead.InvalidArgument, match=words):
        Pipeline.from_lists(["a.jpg", "b.jpg"], labels)


def test_numbers_of_paths_and_labels_must_agree():
    with pytest.raises(bulkhead.InvalidArgument, match="3 paths and 2 labels"):
        Pipeline.from_lists(["a", "b", "c"], [1, 2])
    with pytest.raises(bulkhead.InvalidArgument, match="no paths"):
        Pipeline.from_lists([], [])
    with pytest.raises(bulkhead.InvalidArgument, match="not one text"):
        Pipeline.from_lists("photos")
    with pytest.raises(
        bulkhead.InvalidArgument, match=r"labels\[0\] has 2 values, but 1 are named"
    ):
        Pipeline.from_lists(["a"], [[1, 2]])


def test_labels_come_as_arrays_truth_values_and_rows():
    assert source(Pipeline.from_lists(["a", "b"], np.array([1, 2])))["label_dtype"] == "int64"
    assert source(Pipeline.from_lists(["a", "b"], [True, False]))["entries"] == ["a\t1", "b\t0"]
    rows = Pipeline.from_lists(
        [["a", "b"]], np.array([[1, 0.5]]), images=["left", "right"], label_names=["x", "y"]
    )
    assert source(rows) == {
        "entries": ["a\tb\t1.0\t0.5"],
        "delimiter": "tab",
        "images": ["left", "right"],
        "labels": ["x", "y"],
        "label_dtype": "float32",
    }


def test_a_path_beyond_the_default_width_raises_the_bound():
    assert source(Pipeline.from_lists(["x" * 257]))["max_path_bytes"] == 257
    assert "max_path_bytes" not in source(Pipeline.from_lists(["x" * 256]))


def test_a_long_list_is_a_file_that_goes_with_its_pipelines(long_lists):
    first = Pipeline.from_lists(ODD, range(8), base_dir="/data")
    last = first.decode_image().batch(2)
    folder = last.base_dir
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert first.base_dir == folder
    assert text_of(last).splitlines()[:2] == ["/data/./#1.jpg\t0", "/data/a b.jpg\t1"]
    del first
    gc.collect()
    assert os.path.exists(folder)
    assert "<8 paths>" in repr(last)
    del last
    gc.collect()
    assert not os.path.exists(folder)


def test_a_folder_that_no_list_can_say_is_refused(long_lists):
    with pytest.raises(bulkhead.InvalidArgument, match="from which its paths start"):
        Pipeline.from_lists(ODD, base_dir="/a\tb")


def test_no_file_is_written_before_it_is_needed(long_lists):
    pipeline = Pipeline.from_lists(ODD, range(8)).batch(2)
    assert pipeline._list._folder is None
    assert "path: list.tsv" in pipeline.to_yaml()
    assert pipeline._list._folder is None
    assert os.listdir(pipeline.base_dir) == ["list.tsv"]


def test_long_lists_are_equal_by_their_lines_and_travel_in_pickles(long_lists):
    pipeline = Pipeline.from_lists(ODD, range(8)).batch(2)
    copy = pickle.loads(pickle.dumps(pipeline))
    assert copy == pipeline and copy.base_dir != pipeline.base_dir
    assert text_of(copy) == text_of(pipeline)
    assert copy != Pipeline.from_lists(ODD, range(1, 9)).batch(2)


def test_a_forked_child_leaves_the_file_to_its_parent(long_lists):
    pipeline = Pipeline.from_lists(ODD, range(8)).batch(2)
    folder = pipeline.base_dir
    child = os.fork()
    if child == 0:
        del pipeline
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.path.exists(folder)


def test_a_loader_keeps_the_file(long_lists, fake):
    target = fake.open().target
    pipeline = Pipeline.from_lists(ODD, range(8)).batch(2)
    folder = pipeline.base_dir
    loader = bulkhead.Loader.__new__(bulkhead.Loader)
    try:
        loader.__init__(pipeline, target, timeout=10, reconnect_timeout=0)
    except bulkhead.BulkheadError:  # the fake reads JSON only
        pass
    del pipeline
    gc.collect()
    assert fake.opens[-1].spec.base_dir == folder
    assert os.path.exists(folder)
    del loader
    gc.collect()
    assert not os.path.exists(folder)


def test_a_long_list_cannot_be_mixed(long_lists):
    with pytest.raises(bulkhead.SpecError, match="write it to a file"):
        Pipeline.mixture([(1, Pipeline.from_lists(ODD)), (1, Pipeline.range(3))])
