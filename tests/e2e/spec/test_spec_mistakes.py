"""What a Loader says of a spec: all mistakes in one error, and warnings of doubtful ones in the log."""

import json
import logging
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import bulkhead
from bulkhead._spec.foreign_words import OPTION_NAMES, WORDS
from conftest import BIN, HERE, tool, write_spec


@pytest.fixture
def warned(caplog):
    """The warnings in the log so far."""
    caplog.set_level(logging.WARNING, "bulkhead")
    return lambda: [record.getMessage() for record in caplog.records if "warning: " in record.getMessage()]


def test_all_mistakes_are_in_the_error(folder):
    path = folder / "bad.yaml"
    path.write_text("\n".join(["source: {range: {size: 9}}", "batch: {sise: 2}", "stages:",
                               "- one_hot: {input: index, classes: 0}", "shuffle: true"]))
    with pytest.raises(bulkhead.SpecError) as raised:
        bulkhead.Loader(path)
    lines = str(raised.value).replace(str(path), "f").split("\n")
    assert lines == [
        "f:2:9: batch.sise: unknown field `sise`; did you mean `size`?",
        "f:4:36: stages[0].one_hot.classes: is 0; it must lie between 1 and 1073741824",
        "f:5:1: shuffle: unknown field `shuffle`; write `order: global`: the whole epoch is shuffled, without a buffer",
    ]
    assert raised.value.reason == "SPEC_INVALID" and raised.value.metadata["line"] == "2"


def test_a_spec_that_nobody_wrote_as_text_has_no_lines():
    spec = {"source": {"range": {"size": 9}}, "batch": {"sise": 2}}
    with pytest.raises(bulkhead.SpecError) as raised:
        bulkhead.Loader(spec)
    assert str(raised.value) == "batch.sise: unknown field `sise`; did you mean `size`?"
    with pytest.raises(bulkhead.SpecError, match="^spec:2:9: batch.sise"):
        bulkhead.Loader("source: {range: {size: 9}}\n" + "batch: {sise: 2}\n")


# Known options and others, of all stages together; constants of 0 to 1, and one that is beyond; too much to repeat.
WRITTEN_OPTIONS = (
    "{bogus: [[1]], p: 0.3, kernel_size: 5, size: 32, padding: 4, mean: [0.485, 0.456, .406], std: 0.229, brightness: 0.4}",
    "{mean: [0.5, 123.675], std: [0.25, ''], p: yes, degrees: [-10, 10], size: [3, 4, 5, 6, 7, 8, 9, 10, 11]}",
    "{scale: [0.5, 1], ratio: {a: b}, bogus: 3}",
    f"{{size: {'1' * 210}, degrees: {'1' * 210}, p: {'1' * 210}, mean: [{'1' * 210}], brightness: {'1' * 210}}}",
    "{}",
    "",
)


def wrong_specs():
    """Each word of another library in its place, at most 15 in a spec, as the words are, with a value and with options."""
    source, batch = "source: {range: {size: 9}}\n", "batch: {size: 2"
    rest = f"{source}{batch}}}\n"
    stages = sorted(word.title() for word in WORDS["bulkhead.v1.Stage"])
    for first in range(0, len(stages), 15):
        some = stages[first : first + 15]
        yield rest + "stages:\n" + "".join(f"- {word}\n" for word in some)
        yield rest + "stages:\n" + "".join(f"- {word}: [3, 4]\n" for word in some)
        yield rest + "stages:\n" + "".join(f'- "tf.image.{word}((3, 4))"\n' for word in some)
        for options in WRITTEN_OPTIONS:
            yield rest + "stages:\n" + "".join(f'- "{word}(9)": {options}\n' for word in some)
    keys = sorted(word.title() for word in WORDS["bulkhead.v1.PipelineSpec"])
    for first in range(0, len(keys), 15):
        for value in ("7", "false", "{a: b}", "x" * 65):
            yield rest + "".join(f"{key}: {value}\n" for key in keys[first : first + 15])
    for value in ("0.3", "", "[1, 2]", "{size: 3}", "bilinear"):
        holds = {"probability": "random_horizontal_flip", "kernel": "gaussian_blur", "operations": "rand_augment", "interpolation": "resize"}
        of_stages = {word: holds[here] for word, here in OPTION_NAMES.items() if here in holds}
        yield rest + "stages:\n" + "".join(f"- {stage}: {{{word}: {value}}}\n" for word, stage in of_stages.items())
        for word in OPTION_NAMES.keys() - of_stages.keys():
            yield f"source: {{image_folder: {{{word}: {value}}}}}\n" + rest[len(source) :]
    for word in WORDS["bulkhead.v1.Order"]:
        yield rest + f"order: {word.title()}\n"
    for word in WORDS["bulkhead.v1.Batch"]:
        yield f"{source}{batch}, {word.title()}: 5}}\n"
    for word in WORDS["bulkhead.v1.Source"]:
        yield f"source: {{{word.title()}: photos}}\n" + rest[len(source) :]


def test_the_python_client_says_of_other_libraries_words_what_the_service_says(folder):
    told = 0
    with ThreadPoolExecutor(4) as pool:
        paths = []
        for number, text in enumerate(wrong_specs()):
            paths.append(folder / f"{number}.yaml")
            paths[-1].write_text(text)
        answers = pool.map(lambda path: tool("validate", path, code=1), paths)
        for path, answer in zip(paths, answers):
            with pytest.raises(bulkhead.SpecError) as raised:
                bulkhead.Pipeline.from_yaml(path)
            here, there = (re.sub(r"(?m)^([^:]*:\d+):\d+: ", r"\1: ", said) for said in (str(raised.value), answer))
            here = here.split("\n")  # the columns of values are told otherwise
            assert set(here) <= {line.strip() for line in there.split("\n")}, path.read_text()
            told += len(here)
    assert told > 9 * 60


def test_a_loader_logs_what_is_doubtful_once(folder, photos, warned):
    spec = write_spec(folder / "doubtful.json", source={"image_folder": {"path": str(photos / "folder")}},
                      stages=["decode_image", {"resize": {"size": 8}}, {"normalize": {"mean": 0.5, "std": 0.5}}],
                      batch={"size": 4})
    with bulkhead.Loader(spec) as loader:
        assert len(warned()) == 2
        assert "source.image_folder: is read class after class" in warned()[0]
        assert "stages[2].normalize: gives values from -1 to 509" in warned()[1]
        assert warned()[0].startswith(f"{spec}:1:")
        loader.next_batch()
        cursor = loader.state_dict()
    with bulkhead.Loader(spec, cursor=cursor):
        assert len(warned()) == 2, "who goes on was told before"


def test_a_good_spec_is_no_matter(folder, warned):
    with bulkhead.Loader({"source": {"range": {"size": 9}}, "batch": {"size": 2}}):
        assert warned() == []


def test_the_schema_is_printed():
    printed = subprocess.run([BIN / "bulkhead", "schema"], capture_output=True, text=True, check=True).stdout
    schema = HERE.parents[1] / "docs" / "spec.schema.json"
    assert printed == schema.read_text() and "resize" in json.loads(printed)["definitions"]["Stage"]["anyOf"][0]["properties"]
