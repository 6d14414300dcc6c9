"""What a Loader says of a spec: all mistakes in one error, and warnings of doubtful ones in the log."""

import json
import logging
import os
import pathlib
import subprocess

import pytest

import bulkhead
from conftest import write_spec

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("BULKHEAD_BIN_DIR", HERE.parents[1] / "build/release/bin"))


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
