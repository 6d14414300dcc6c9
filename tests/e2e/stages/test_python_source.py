"""A dataset of the user's own as the source of a spec: bulkhead.Source."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading

import bulkhead
import numpy as np
import pytest
from bulkhead._arena import reaper

import own_sources as own

cv2 = pytest.importorskip("cv2")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def png(number):
    done, encoded = cv2.imencode(".png", np.full((8, 10, 3), number, np.uint8))
    assert done
    return encoded.tobytes()


def spec_of(dataset, batch=4, fields=None, **more):
    options = {"fields": fields} if fields else {}
    return {"source": {"python": bulkhead.Source(dataset, **options)}, "batch": {"size": batch}, **more}


def test_stages_read_what_the_dataset_gives():
    spec = spec_of(own.Photos([png(number) for number in range(6)]), 3, stages=[{"decode_image": {}}, {"center_crop": {"size": 8}}])
    with bulkhead.Loader(spec, workers=1) as loader:
        first, second = loader
    assert first["image"].shape == (3, 8, 8, 3) and (second["image"][2] == 5).all()
    assert second["label"].tolist() == [3, 4, 5] and second["name"].tolist() == [b"photo 3", b"photo 4", b"photo 5"]
    assert second["boxes_count"].tolist() == [0, 1, 2] and second["boxes"][2, :2].tolist() == [[5] * 4] * 2


def test_the_order_is_the_services_and_survives_kills():
    spec = spec_of(own.Pairs(2000), 10, ("x", "y"), order="global", seed=3)

    def labels(kill):
        with bulkhead.Loader(spec, workers=2) as loader:
            found = []
            for number, batch in enumerate(loader):
                found.append(batch["y"].tolist())
                assert batch["x"].tolist() == found[-1]
                if kill and number % 50 == 10:
                    workers = bulkhead.service_status(loader.target)["workers"]
                    os.kill(workers[number // 50 % len(workers)]["pid"], signal.SIGKILL)
            return found

    undisturbed = labels(False)
    assert sorted(sum(undisturbed, [])) == list(range(2000)) and undisturbed[0] != list(range(10))
    assert labels(True) == undisturbed


def test_it_resumes_and_another_version_is_refused():
    def loader(version, **more):
        source = bulkhead.Source(own.Pairs(20), ("x", "y"), version=version)
        return bulkhead.Loader({"source": {"python": source}, "batch": {"size": 4}}, workers=1, **more)

    with loader("1") as first:
        next(iter(first))
        cursor = first.state_dict()
    with loader("1", cursor=cursor) as again:
        assert next(iter(again))["y"].tolist() == [4, 5, 6, 7]
    with pytest.raises(bulkhead.CursorMismatch):
        loader("2", cursor=cursor)


def test_a_bad_sample_is_an_error_or_substituted():
    with bulkhead.Loader(spec_of(own.Pairs(8, bad=5), 4, ("x", "y")), workers=1) as loader:
        with pytest.raises(bulkhead.DataError, match=r"own_sources.Pairs\[5\]: ValueError: it is bad \(at .*own_sources.py"):
            list(loader)
    spec = spec_of(own.Pairs(8, bad=5), 4, ("x", "y"), errors={"policy": "substitute"})
    with bulkhead.Loader(spec, workers=1) as loader:
        assert [batch["y"].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 6, 6, 7]]


@pytest.mark.parametrize("bad", [0, 5], ids=["in the first look", "later"])
@pytest.mark.parametrize("kind, said", [(own.Exits, "SystemExit: enough"), (own.Chains, "ValueError: no such box (caused by KeyError: 9)")])
def test_an_exception_of_any_kind_begins_with_dataset_and_index(kind, said, bad):
    with pytest.raises(bulkhead.DataError) as caught:
        list(bulkhead.Loader(spec_of(kind(8, bad=bad), 1, ("x", "y")), workers=1))
    assert f"own_sources.{kind.__name__}[{bad}]: {said} (at " in str(caught.value)
    assert "bulkhead_dataset" not in str(caught.value)


@pytest.mark.parametrize("bad", [0, 5], ids=["in the first look", "later"])
def test_a_breakpoint_is_for_the_datasets_own_process(bad):
    spec = spec_of(own.Stops(8, bad=bad), 4, ("x", "y"), errors={"policy": "substitute", "max_fraction": 1})
    words = r"own_sources.Stops\[\d\]: .* no terminal: call dataset\[\d\] in your own process, where breakpoints"
    with pytest.raises(bulkhead.BulkheadError, match=words) as caught:
        list(bulkhead.Loader(spec, workers=1))
    assert caught.value.reason == "STAGE_UNUSABLE", "it is no error of the sample"
    assert "try_stage" not in str(caught.value) and f"call dataset[{bad}]" in str(caught.value)


@pytest.mark.parametrize(
    "dataset, options, words",
    [
        (own.Pairs(3), {}, "has 2 values, but `fields` has none"),
        (own.Pairs(3), {"fields": ("x",)}, "has 2 values, but `fields` names 1"),
        (own.Nested(3), {}, "has parts within parts"),
        (own.Photos([b"x"]), {"room": {"imgae": 9}}, "room names `imgae`"),
        (own.Pairs(0), {}, "is empty"),
        (object(), {}, "^object has no __getitem__: a dataset is anything with __len__ and __getitem__, .* to len - 1$"),
        ([open(os.devnull)], {}, "cannot be sent to workers: .*; open files, locks, .* when it is first read"),
        (None, {}, "^the dataset is None: a dataset is anything with"),
        (own.Pairs, {}, r"^Pairs is a class, and the dataset is an object of one: write Pairs\(...\)$"),
        (iter([1]), {}, r"^list_iterator has no __getitem__: .*; list\(...\) makes one of an iterator"),
        ({"a": 1}, {}, r"^dict has no key 0: .*; dataset\['a'\] or list\(dataset.values\(\)\) may be one$"),
        (own.Pairs(3), {"fields": "xy"}, r"^fields is a list of names, .* such as \['image', 'label'\], not 'xy'$"),
        (own.Pairs(3), {"fields": 2}, "^fields is a list of names, .* not 2$"),
        (own.Pairs(3), {"fields": ("x", 1)}, "^fields is a list of names, "),
        (own.Pairs(3), {"fields": ("x", "a b")}, "Pairs calls a value 'a b': a name has a letter or _ first"),
        ([1, 2], {}, "^a sample of list has 1 value, but `fields` has none: give each a name$"),
        ([{1: 2}] * 4, {}, "^samples of list have no values in common: return a dict .* same names as its keys$"),
        ([{"x": 1}, {"y": 1}], {}, "^samples of list have no values in common: "),
        ([{}] * 4, {}, "^samples of list have no values in common: "),
        ([{"x": 1}, {"x": 1.5}], {}, "^the value `x` of list is of several types, or of another one: a source gives arrays, numbers, str and bytes$"),
    ],
    ids=range(20),
)
def test_what_is_no_source_is_refused_in_words(dataset, options, words):
    with pytest.raises(bulkhead.InvalidArgument, match=words):
        bulkhead.Loader({"source": {"python": bulkhead.Source(dataset, **options)}, "batch": {"size": 1}}, workers=1)


@pytest.mark.parametrize("make", [lambda source: source, lambda source: {"source": source}, lambda _: own.Pairs(3)])
def test_a_dataset_where_a_spec_is_wanted_is_told_its_place(make):
    with pytest.raises(bulkhead.SpecError, match=r'"source": \{"python": bulkhead.Source\(dataset\)\}'):
        bulkhead.Loader(make(bulkhead.Source(own.Pairs(3))))


@pytest.mark.parametrize("given", [lambda source: source, lambda source: {"source": {"python": source}}])
def test_a_mixture_of_pipelines_says_how_a_dataset_is_mixed(given):
    source = bulkhead.Source(own.Pairs(3), ("x", "y"))
    with pytest.raises(bulkhead.SpecError, match=r"^source.mixture.sources\[1\]: Pipeline.mixture takes no bulkhead.Source: write the spec as a dict"):
        bulkhead.Pipeline.mixture([(1, bulkhead.Pipeline.range(3)), (1, given(source))])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("given", [own.Pairs(3), {"source": {"python": bulkhead.Source(own.Pairs(3), ("x", "y"))}}])
def test_what_is_no_source_in_a_mixture_is_told_its_place(number, given):
    parts = [{"weight": 1, "source": {"range": {"size": 3}}}]
    parts.insert(number, {"weight": 1, "source": {"python": given}})
    with pytest.raises(bulkhead.InvalidArgument, match=rf"^source.mixture.sources\[{number}\].source.python: must be a bulkhead.Source"):
        bulkhead.Loader({"source": {"mixture": {"sources": parts}}, "batch": {"size": 1}})


@pytest.mark.parametrize("dataset, kind, words", [
    (own.Pairs(8, says=10), bulkhead.DataError, r"Pairs\[8\]: IndexError: 8; __len__ says 10 \(at "),
    (own.Pairs(8, says=2.5), bulkhead.InvalidArgument, "own_sources.Pairs.__len__ gives no length: 'float' object"),
    (own.Pairs(8, says=-1), bulkhead.InvalidArgument, "own_sources.Pairs.__len__ gives no length: .* >= 0"),
    (own.Returns(None), bulkhead.InvalidArgument, "own_sources.Returns gives None for each sample: does __getitem__ return?"),
    (own.Yields(None), bulkhead.DataError, "own_sources.Yields: it is a generator: return the values instead of yielding them"),
])
def test_a_dataset_that_keeps_no_word_is_told_which(dataset, kind, words):
    with pytest.raises(kind, match=words):
        list(bulkhead.Loader(spec_of(dataset, 1, ("x", "y") if isinstance(dataset, own.Pairs) else None), workers=1))


def mixture_of(*sources, **more):
    parts = [{"weight": 1, "order": "sequential", **source} for source in sources]
    return {"source": {"mixture": {"sources": parts, "stop": "all_exhausted"}}, "epochs": 1, **more}


def test_datasets_and_files_are_mixed(tmp_path):
    (tmp_path / "list.csv").write_text("".join(f"{number}.png,{100 + number}\n" for number in range(4)))
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(png(100 + number))
    spec = mixture_of(
        {"source": {"python": bulkhead.Source(own.Photos([png(number) for number in range(4)]))}, "stages": ["decode_image"]},
        {"source": {"image_list": {"path": str(tmp_path / "list.csv")}}, "stages": ["decode_image"]},
        {"source": {"python": bulkhead.Source(own.Photos([png(50 + number) for number in range(4)]))}, "stages": ["decode_image"]},
        stages=[{"center_crop": {"size": 8}}],
        outputs=["image", "label", "source_id"],
        batch={"size": 12},
    )
    with bulkhead.Loader(spec, workers=1) as loader:
        [batch] = loader
    found = {}
    for image, label, source in zip(batch["image"], batch["label"], batch["source_id"]):
        found.setdefault(int(source), []).append((int(image[0, 0, 0]), int(label)))
    assert found == {
        0: [(number, number) for number in range(4)],
        1: [(100 + number, 100 + number) for number in range(4)],
        2: [(50 + number, number) for number in range(4)],
    }


def test_a_bad_sample_of_a_mixture_is_told_in_its_datasets_words():
    spec = mixture_of(
        {"source": {"python": bulkhead.Source(own.Pairs(8), ("x", "y"))}},
        {"source": {"python": bulkhead.Source(own.Pairs(8, bad=5), ("x", "y"))}},
        outputs=["y"],
        batch={"size": 4},
    )
    with pytest.raises(bulkhead.DataError, match=r"^own_sources.Pairs\[5\]: ValueError: it is bad \(at .*own_sources.py"):
        list(bulkhead.Loader(spec, workers=1))


BOXES = {"name": "boxes", "dtype": "float32", "shape": [-1, 4], "max_count": 2}
DECLARED = [{"name": "image", "dtype": "bytes", "max_count": 1 << 16}, {"name": "label", "dtype": np.int32},
            {"name": "name", "dtype": "bytes", "max_count": 20}, BOXES]


def test_declared_values_need_no_look_at_samples(tmp_path):
    log = tmp_path / "reads"
    dataset = own.Photos([png(number) for number in range(6)], log=str(log))
    spec = {"source": {"python": bulkhead.Source(dataset, outputs=DECLARED)}, "batch": {"size": 3}, "outputs": ["label", "name", "boxes"], "epochs": 1}
    with bulkhead.Loader(spec, workers=1, sandbox="none") as loader:
        batches = list(loader)
    assert batches[1]["label"].tolist() == [3, 4, 5] and batches[1]["label"].dtype == np.int32
    assert batches[1]["name"].tolist() == [b"photo 3", b"photo 4", b"photo 5"]
    assert batches[1]["boxes_count"].tolist() == [0, 1, 2] and batches[1]["boxes"][2].tolist() == [[5] * 4] * 2
    assert sorted(log.read_text().split()) == list("012345"), "each was read once"


@pytest.mark.parametrize("change, words", [
    ({"boxes": {**BOXES, "max_count": 1}}, r"Photos\[2\]: its value\['boxes'\] takes 32 bytes, but there is room for 16, by `outputs`; give a larger max_count"),
    ({"boxes": {**BOXES, "dtype": "float64"}}, r"Photos\[0\]: its value\['boxes'\] is an array of float32, but float64 by `outputs`: return float64 in __getitem__, or declare what it returns"),
    ({"boxes": {**BOXES, "shape": [-1, 5]}}, r"Photos\[0\]: its value\['boxes'\] has the shape \[0, 4\], but \[-1, 5\] by `outputs`"),
    ({"label": {"name": "label", "dtype": "bytes", "max_count": 9}}, r"Photos\[0\]: its value\['label'\] is an int, but bytes by `outputs`: return bytes in __getitem__"),
    ({"label": {"name": "label", "dtype": "uint8", "shape": [2]}}, r"Photos\[0\]: its value\['label'\] has the shape \[\], but \[2\] by `outputs`"),
])
def test_a_sample_that_is_not_as_declared_is_an_error(change, words):
    outputs = [change.get(each["name"], each) for each in DECLARED]
    with pytest.raises(bulkhead.DataError, match=words):
        list(bulkhead.Loader({"source": {"python": bulkhead.Source(own.Photos([png(1)] * 3), outputs=outputs)}, "batch": {"size": 1}}, workers=1))


@pytest.mark.parametrize("dtype, value, words", [
    ("uint8", 300, "is 300, which does not fit uint8, its dtype by `outputs`: declare one that holds it"),
    ("int64", 2.5, "is 2.5, which does not fit int64"),
    ("float16", 70000.0, "is 70000.0, which does not fit float16"),
    ("float16", 70000, "is 70000, which does not fit float16"),
])
def test_a_number_that_does_not_fit_its_declared_type_is_an_error(dtype, value, words):
    source = bulkhead.Source(own.Returns({"x": value}), outputs=[{"name": "x", "dtype": dtype}])
    with pytest.raises(bulkhead.DataError, match=words):
        list(bulkhead.Loader({"source": {"python": source}, "batch": {"size": 1}}, workers=1))


@pytest.mark.parametrize("value, words", [
    (3, "it is an int, by `outputs` it is a dict"),
    ({"x": 1, "y": 2}, r"it has the keys \['x', 'y'\], by `outputs` \['x'\]"),
])
def test_a_sample_of_another_form_than_declared_is_an_error(value, words):
    source = bulkhead.Source(own.Returns(value), outputs=[{"name": "x", "dtype": "int64"}])
    with pytest.raises(bulkhead.DataError, match=words):
        list(bulkhead.Loader({"source": {"python": source}, "batch": {"size": 1}}, workers=1))


def test_numbers_that_no_type_holds_exactly_are_as_python_has_them():
    source = bulkhead.Source(own.Returns({"x": float("inf")}), outputs=[{"name": "x", "dtype": "float16"}])
    with bulkhead.Loader({"source": {"python": source}, "batch": {"size": 1}, "epochs": 1}, workers=1) as loader:
        assert all(np.isinf(batch["x"]).all() for batch in loader)


@pytest.mark.parametrize("outputs, more, words", [
    ({"image": "bytes"}, {}, "outputs is a list of what a sample has"),
    ([{"name": "image", "dtype": "bytes"}], {}, r"outputs\[0\].max_count is required here"),
    ([{"name": "x", "dtype": "float"}], {}, r"outputs\[0\].dtype: 'float' is no element type"),
    ([{"name": "x", "shape": [3]}], {}, r"outputs\[0\]: a dtype is missing"),
    ([{"name": "x", "dtype": "int64", "size": 3}], {}, r"outputs\[0\]: `size` is unknown"),
    ([{"name": "x", "dtype": "int64", "shape": [3, -1]}], {}, r"outputs\[0\].shape: \[3, -1\] is no shape"),
    ([{"name": "x", "dtype": "int64", "shape": 3}], {}, r"outputs\[0\].shape: 3 is no shape: write a list, such as \[3, 224, 224\]"),
    ([{"name": "x", "dtype": "int64", "shape": [3], "max_count": 9}], {}, r"outputs\[0\].max_count: the shape \[3\] says how many there are"),
    ([{"name": "x", "dtype": "bytes", "shape": [3], "max_count": 9}], {}, r"outputs\[0\].shape: bytes have none: leave it out"),
    ([], {}, "outputs is a list of what a sample has"),
    ([{"name": "x", "dtype": "int64"}], {"fields": ("y",)}, "fields names y, but outputs x"),
    ([{"name": "x", "dtype": "int64"}], {"room": 9}, "give max_count in outputs"),
])
def test_what_cannot_be_declared_is_said(outputs, more, words):
    with pytest.raises(bulkhead.InvalidArgument, match=words):
        bulkhead.Source(own.Pairs(3), outputs=outputs, **more)


@pytest.mark.parametrize(
    "odd, words",
    [
        ({"image": b"x" * 99999, "label": 1}, r"list\[17\]: its value\['image'\] takes 99999 bytes, but there is room for 4096, .*; give bulkhead.Source room=\{'image': 262144\}"),
        ({"image": b"x" * 10, "label": "dog"}, r"list\[17\]: its value\['label'\] is a str, in the samples looked at first it was"),
    ],
    ids=["large", "text"],
)
def test_a_sample_that_is_unlike_the_first_ones_says_how(odd, words):
    dataset = [{"image": b"x" * 10, "label": 1}] * 40
    dataset[17] = odd
    with pytest.raises(bulkhead.DataError, match=words):
        with bulkhead.Loader(spec_of(dataset, 4, None), workers=1) as loader:
            list(loader)


def varying_images():
    """One of them is 1,000 times as large as the others, and is none of those that are looked at first."""
    done, noise = cv2.imencode(".png", np.random.default_rng(1).integers(0, 256, (300, 300, 3), np.uint8))
    assert done and len(noise) > 200_000
    images = [png(number) for number in range(100)]
    images[50] = noise.tobytes()
    return images


def test_encoded_images_may_differ_widely_in_size():
    spec = spec_of(own.Photos(varying_images()), 10, stages=["decode_image", {"resize": {"size": 8}}], epochs=1)
    with bulkhead.Loader(spec, workers=1) as loader:
        assert [label for batch in loader for label in batch["label"]] == list(range(100))


def test_the_room_that_an_error_names_is_enough():
    def labels(**room):
        source = bulkhead.Source(own.Photos(varying_images()), **room)
        spec = {"source": {"python": source}, "outputs": ["image", "label"], "batch": {"size": 1}, "epochs": 1}
        with bulkhead.Loader(spec, workers=1) as loader:
            return [label for batch in loader for label in batch["label"]]

    with pytest.raises(bulkhead.DataError, match="give bulkhead.Source room=") as raised:
        labels()
    assert labels(room=eval(re.search(r"room=({.*?})", str(raised.value))[1])) == list(range(100))


def test_a_record_is_called_a_sample_of_the_dataset():
    with bulkhead.Loader(spec_of(own.Dies(100, bad=7), 4, ("x", "y")), workers=1) as loader:
        with pytest.raises(bulkhead.BulkheadError) as raised:
            list(loader)
    said = str(raised.value)
    assert said.startswith("sample 7 of own_sources.Dies ended 3 fresh workers") and "in own_sources.Dies.__getitem__ at" in said
    assert "stages[0]" not in said and "bulkhead quarantine add 'range@7'" in said


def test_a_sample_that_ends_the_first_look_is_one_of_those_that_are_named():
    with pytest.raises(bulkhead.BulkheadError) as raised:
        bulkhead.Loader(spec_of(own.Dies(100, bad=33), 4, ("x", "y")), workers=1)
    said = str(raised.value)
    assert said.startswith("one of the samples 0, 33, 66, 99 of own_sources.Dies (looked at first) ended 3 fresh workers")
    assert "Call __getitem__ with each of them to find which" in said and "substitute" not in said


PROGRAM = '''
import argparse
import numpy as np
import bulkhead

parser = argparse.ArgumentParser()
parser.add_argument("--scale", type=int, required=True)
scale = parser.parse_args().scale

class Scaled:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return {"x": np.int64(index * scale)}

if __name__ == "__main__":
    spec = {"source": {"python": bulkhead.Source(Scaled())}, "batch": {"size": 4}, "epochs": 1}
    with bulkhead.Loader(spec, workers=1) as loader:
        for batch in loader:
            print(batch["x"].tolist())
'''


def test_workers_import_the_program_with_its_arguments(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    ran = subprocess.run([sys.executable, program, "--scale", "10"], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "[0, 10, 20, 30]\n", ran.stderr


def test_a_cache_needs_to_know_which_data_it_keeps(tmp_path):
    def labels(spec):
        with bulkhead.Loader(spec, workers=1, cache_dir=str(tmp_path / "own")) as loader:
            return [batch["y"].tolist() for batch in loader]

    def spec(name, first):
        source = bulkhead.Source([(np.float32(0), first + index) for index in range(4)], ("x", "y"), name=name)
        return {"source": {"python": source}, "stages": [{"cache": {"key": "1"}}], "batch": {"size": 4}, "epochs": 1}

    with pytest.raises(bulkhead.InvalidArgument, match="give bulkhead.Source a name= or version="):
        labels(spec("", 0))
    assert labels(spec("train", 0)) == labels(spec("train", 0)) == [[0, 1, 2, 3]]
    assert labels(spec("valid", 10)) == [[10, 11, 12, 13]]


def test_a_dataset_comes_in_a_source():
    with pytest.raises(bulkhead.InvalidArgument, match="must be a bulkhead.Source"):
        bulkhead.Loader({"source": {"python": own.Pairs(3)}, "batch": {"size": 1}})


def test_data_of_a_loader_that_was_dropped_are_nobody_elses():
    held = threading.Event()
    reaper.start()
    reaper.bury(held.wait)  # ending a service may take long
    try:
        for value in (1, 2):
            source = bulkhead.Source(own.Returns({"x": value}), outputs=[{"name": "x", "dtype": "int64"}])
            loader = bulkhead.Loader({"source": {"python": source}, "batch": {"size": 4}}, workers=1)
            assert next(iter(loader))["x"].tolist() == [value] * 4
            del source, loader
            gc.collect()
    finally:
        held.set()
