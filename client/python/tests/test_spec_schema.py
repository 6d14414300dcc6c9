"""The JSON Schema of specs takes every spec that the service takes, and no misspelt key."""

import copy
import json
import pathlib

import pytest
import repository_specs

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs" / "spec.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
# Those that a page or a test shows for what is wrong with them, or in protobuf's own JSON.
SPECS = list(repository_specs.specs())


def mistakes(spec):
    return [error.message for error in VALIDATOR.iter_errors(spec)]


def test_it_is_a_schema():
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("where, text", SPECS, ids=[where for where, _ in SPECS])
def test_it_takes_the_specs_of_this_repository(where, text):
    assert mistakes(yaml.safe_load(text)) == []


def whole():
    return {
        "source": {"image_folder": {"path": "p"}},
        "stages": ["decode_image", {"resize": {"size": 224}}, {"one_hot": {"classes": 10}}],
        "batch": {"size": 64},
        "order": "global",
        "errors": {"policy": "substitute"},
        "epochs": "forever",
    }


def places(value, path=()):
    """Every map in a spec."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from places(item, (*path, key))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


@pytest.mark.parametrize("path", list(places(whole())), ids=str)
def test_it_refuses_a_misspelt_key_everywhere(path):
    spec = copy.deepcopy(whole())
    assert mistakes(spec) == []
    target = spec
    for part in path:
        target = target[part]
    target["sise"] = 1
    assert mistakes(spec) != []


@pytest.mark.parametrize(
    "change",
    [
        {"batch": {"size": 0}},
        {"batch": {}},
        {"batch": {"size": "many"}},
        {"epochs": "ever"},
        {"order": "globl"},
        {"seed": -1},
        {"stages": ["resise"]},
        {"stages": [{"resize": {"size": [1, 2, 3]}}]},
        {"stages": [{"resize": 224}]},
        {"stages": [{"resize": {}, "pad": {}}]},
        {"stages": [{"resize": {"size": 4, "interpolation": "lanczos"}}]},
        {"stages": [{"random_affine": {"interpolation": "cubic"}}]},
        {"stages": [{"decode_image": {"channels": 2}}]},
        {"stages": [{"rand_augment": {"operations": 0}}]},
        {"stages": [{"random_horizontal_flip": {"probability": 2}}]},
        {"stages": [{"one_hot": {}}]},
        {"source": {"range": {"size": 3}, "tfrecord": {"files": "a"}}},
    ],
    ids=str,
)
def test_it_refuses_what_cannot_be(change):
    assert mistakes({**whole(), **change}) != []


def test_options_have_the_words_of_the_specification():
    size = SCHEMA["definitions"]["Resize"]["properties"]["shorter_side"]
    assert "as in torchvision" in size["description"]
    assert (size["minimum"], size["maximum"]) == (1, 65535)
