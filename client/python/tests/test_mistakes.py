"""What the builder and the readers of specs say of mistakes: all at once, with the nearest name."""

import importlib.util
import pathlib

import pytest

from bulkhead import Feature, Pipeline, SpecError
from bulkhead._spec import option_limits

ROOT = pathlib.Path(__file__).resolve().parents[1]

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


def test_what_is_declared_of_options_is_known():
    spec = importlib.util.spec_from_file_location("update", ROOT / "update_option_limits.py")
    update = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(update)
    assert update.OUTPUT.read_text() == update.generate(), "run scripts/update_generated.sh"
    assert len(option_limits.ZEROS) > 20
