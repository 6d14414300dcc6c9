"""What the builder and the readers of specs say of mistakes: all at once, with the nearest name."""

import pathlib
import re
import sys

import pytest
from conftest import check_fresh

from bulkhead import Feature, Pipeline, SpecError
from bulkhead._spec import foreign_words, option_limits

MISTAKES = """source: {range: {sise: 10}}
batch: {size: x}
stages:
- resise: {size: 3}
- resize: {size: 3, antialias: 2}
epochs: many
"""


def lines_of(make):
    with pytest.raises(SpecError) as raised:
        make()
    return str(raised.value).split("\n"), raised.value


def test_all_mistakes_of_a_file_come_at_once(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "spec.yaml"
    path.write_text(MISTAKES)
    lines, error = lines_of(lambda: Pipeline.from_yaml(path))
    assert [line.replace(str(path), "f")[:34] for line in lines] == [
        "f:1:18: source.range.sise: unknown",
        "f:2:9: batch.size: must be a whole",
        "f:4:3: stages[0].resise: unknown s",
        "f:5:21: stages[1].resize.antialias",
        "f:6:1: epochs: must be a whole num",
    ]
    assert error.metadata["path"] == "source.range.sise" and error.metadata["line"] == "1"


def test_all_mistakes_of_a_dict_come_at_once():
    spec = {"source": {"range": {"size": -1}}, "batch": {"sise": 2}, "stages": ["flip", None, 5]}
    lines, _ = lines_of(lambda: Pipeline.from_dict(spec))
    places = [line.split(": ")[0] for line in lines]
    assert places == ["source.range.size", "batch.sise", "stages[0]", "stages[2]"]


def test_many_mistakes_are_cut_short():
    lines, _ = lines_of(lambda: Pipeline.from_dict({f"unknown{i}": 1 for i in range(100)}))
    assert len(lines) == 21 and lines[-1] == "spec: and 80 more"


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda p: p.rand_augment(operations=0), "operations: is 0; it must lie between 1 and 100"),
        (lambda p: p.decode_image(max_pixels=0), "max_pixels: is 0; it must be at least 1"),
        (lambda p: p.order_block(5, window=0), "order.block.window: is 0; it must be at least 1"),
        (lambda p: p.batch(0), "batch.size: is 0; it must lie between 1 and 16777216"),
        (lambda p: p.batch(-1), "batch.size: is -1; it must lie between 1 and 16777216"),
        (lambda p: p.epochs(0), "epochs: is 0; it must be at least 1, or forever"),
        (lambda p: p.epochs(-1), "epochs: is -1; it must be at least 1, or forever"),
        (lambda p: p.epochs(1.5), "epochs: must be a whole number, but is 1.5 .float.; or write forever"),
        (lambda p: p.order_interleave(0), "cycle_length: is 0; it must be at least 1"),
        (lambda p: p.random_affine(interpolation="lanczos"), "there are: nearest, linear$"),
    ],
)
def test_what_an_option_cannot_be_is_refused_with_what_it_can_be(make, words):
    with pytest.raises(SpecError, match=words):
        make(Pipeline.range(9))


def test_a_zero_that_means_something_stays():
    pipeline = Pipeline.range(9).random_horizontal_flip(probability=0).seed(0).pad_rows(value=0)
    assert pipeline.to_dict()["stages"][0] == {"random_horizontal_flip": {"probability": 0}}


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda p: p.resize(sizes=224), "resize: unknown option `sizes`; did you mean `size`"),
        (lambda p: p.random_resized_crop(224, ration=[1, 2]), "did you mean `ratio`"),
        (lambda p: p.batch(4, drop_reminder=True), "did you mean `drop_remainder`"),
        (lambda p: p.order_global(reshufle=False), "did you mean `reshuffle`"),
        (lambda p: Pipeline.image_folder("x", unlabelled=True), "did you mean `unlabeled`"),
        (lambda p: Pipeline.from_lists(["a"], lables=[1]), "did you mean `labels`"),
        (lambda p: Feature.bytes(max_byte=3), "bytes: unknown option `max_byte`; did you mean"),
        (lambda p: p.resize(zzz=1), "there are: size, input,|there are: input, size"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(make, words):
    with pytest.raises(TypeError, match=words):
        make(Pipeline.range(9))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda p: p.resize(64), r"resize takes its options by name: resize\(size=64\) for a square, resize\(shorter_side=64\) for what"),
        (lambda p: p.resize(64, 48), r"resize takes its options by name: resize\(size=\[64, 48\]\); its options are: input, size"),
        (lambda p: p.resize((64, 48)), r"resize takes its options by name: resize\(size=\(64, 48\)\); its options are"),
        (lambda p: p.center_crop(64, 48), r"center_crop takes all but size by name: center_crop\(size=\[64, 48\]\); its options"),
        (lambda p: p.normalize([1, 2]), r"normalize\(mean=\[1, 2\]\)"),
        (lambda p: p.batch(8, True), r"batch takes all but size by name: batch\(8, drop_remainder=True\)"),
        (lambda p: p.random_resized_crop(), "missing a required argument: 'size'; its options are: size, input"),
        (lambda p: p.random_resized_crop(8, size=8), "multiple values for argument 'size'; its options"),
        (lambda p: Pipeline.resize(64), "resize is a method of a pipeline, which begins with a source"),
        (lambda p: Pipeline.image_list("a.csv", header=True), r"image_list\(path='a.csv'\); its options are"),
        (lambda p: Pipeline.image_list(pathlib.Path("a.csv")), r"image_list\(path=PosixPath\('a.csv'\)\); its"),
        (lambda p: Pipeline.range(1, 9), "range takes all but size by name; its options are: size, base_dir"),
        (lambda p: Pipeline.range(1, "x"), "range takes all but size by name; its options are: size, base_dir"),
        (lambda p: Pipeline.image_folder(), "image_folder: missing a required argument: 'path'; its options"),
    ],
)
def test_a_wrong_call_is_answered_with_the_options(make, words):
    with pytest.raises(TypeError, match=words):
        make(Pipeline.range(9))


@pytest.mark.parametrize(
    "make, kind, words",
    [
        (lambda p: p.shuffle(100), AttributeError, "unknown method `shuffle`; write `order_global()`"),
        (lambda p: p.shufle(100), AttributeError, "unknown method `shufle`; write `order_global()`"),
        (lambda p: p.worker(2), AttributeError, "unknown method `worker`; no part of a spec: write it in the program, Loader(..., workers="),
        (lambda p: p.flip(), AttributeError, "unknown method `flip`; there are: `random_horizontal_flip`, `random_vertical_flip`"),
        (lambda p: p.ToTensor(), AttributeError, "write `normalize(divide=255)`, for channels first `layout(to='nchw')`"),
        (lambda p: p.repeat(3), AttributeError, "write `epochs(10)`, or leave it out to go on forever"),
        (lambda p: p.image_size(64), AttributeError, "write `resize(size=224)`"),
        (lambda p: p.transform, AttributeError, "call each step: `.decode_image().resize(size=224)`"),
        (lambda p: p.validation_split(0.2), AttributeError, "in the spec of the validation `use='validation'`"),
        (lambda p: p.RandomHorizontalFlip, AttributeError, "`random_horizontal_flip()`, or `probability=0.5` in it"),
        (lambda p: p.CenterCrop, AttributeError, "write `center_crop(size=224)`"),
        (lambda p: Pipeline.ImageFolder("x"), AttributeError, "write `image_folder(path='photos')`"),
        (lambda p: Pipeline.imagefolder_("x"), AttributeError, "unknown method"),
        (lambda p: p.random_horizontal_flip(p=0.3), TypeError, "unknown option `p`; write `probability=0.3`"),
        (lambda p: p.batch(8, drop_last=True), TypeError, "unknown option `drop_last`; write `drop_remainder=True`"),
    ],
)
def test_words_of_other_libraries_are_answered_with_the_call(make, kind, words):
    pytest.importorskip("yaml")
    with pytest.raises(kind) as raised:
        make(Pipeline.range(9))
    assert words in str(raised.value)


def test_each_word_of_other_libraries_is_answered_in_python():
    pytest.importorskip("yaml")
    pipeline = Pipeline.range(9)
    of_files = re.compile(r"`\w+:[^`]*`|after a dash|among `stages`|below it")
    for message in ("PipelineSpec", "Stage", "Source", "Order"):
        for word in foreign_words.WORDS[f"bulkhead.v1.{message}"]:
            if word in dir(Pipeline):
                continue
            with pytest.raises(AttributeError) as raised:
                getattr(pipeline, word)
            said = str(raised.value).replace("belongs at the top of the spec: `epochs: forever`", "")
            assert f"unknown method `{word}`; " in said and not of_files.search(said), said


def test_a_stage_that_is_not_named_is_left_out_of_the_code():
    spec = {"source": {"range": {"size": 3}}, "stages": [{}, {"cast": {"input": "index", "dtype": "float32"}}]}
    assert ".range(size=3).cast(" in repr(Pipeline.from_dict(spec))


def test_without_pyyaml_they_are_answered_as_in_yaml(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(AttributeError, match="write `order: global`"):
        Pipeline.range(9).shuffle()


def test_words_of_other_libraries_are_answered_in_dicts_too():
    spec = {"source": {"folder": "x"}, "shuffle": False, "batch": {"drop_last": True}, "stages": ["Resize((2, 3))"]}
    lines, _ = lines_of(lambda: Pipeline.from_dict(spec))
    assert [line.partition("; ")[2] for line in lines] == [
        "write `image_folder: {path: x}`",
        "leave it out: samples come in the source's own order",
        "write `drop_remainder: true`",
        "torchvision's gives the shorter side that length: write `resize: {shorter_side: [2, 3]}`; for exactly that "
        "height and width write `resize: {size: [2, 3]}`",
    ]


def test_what_is_declared_of_options_is_known():
    assert len(option_limits.ZEROS) > 20 and len(foreign_words.WORDS["bulkhead.v1.Stage"]) > 50
    update = check_fresh("client/python/update_option_limits.py")
    assert update.WORDS.read_text() == update.generate_words(), "run scripts/update_generated.sh"
