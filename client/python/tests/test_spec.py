"""What a spec may be given as, and the text that travels."""

import json
import os
import pathlib

import numpy as np
import pytest

import bulkhead
from bulkhead._spec import spec_input


def test_a_dict_may_hold_paths_and_arrays():
    spec = {"path": pathlib.Path("/x"), "mean": np.array([1.5, 2]), "size": np.int64(3), 4: (5,)}
    text = spec_input.load(spec).text
    assert json.loads(text) == {"path": "/x", "mean": [1.5, 2], "size": 3, "4": [5]}


def test_characters_of_a_dict_are_written_as_they_are():
    # The service's reader takes no pair of \u escapes for one character.
    assert spec_input.load({"path": "é\U0001f600"}).text == '{"path": "é\U0001f600"}'


LOOP = {}
LOOP["a"] = LOOP


@pytest.mark.parametrize(
    "spec, words",
    [
        ({"path": object()}, "^path: must be text, a number, a list or a dict, not object$"),
        ({"stages": ["flip", {"resize": {"size": {8}}}]}, r"^stages\[1\].resize.size: .* not set$"),
        ({"stages": ({"normalize": {"mean": np.array([1, b"x"], object)}},)}, r"^stages\[0\].normalize.mean\[1\]: .* not bytes$"),
        ({(1, 2): 3}, "keys must be"),
        (LOOP, "nested too deeply"),
        ({"path": "\udc80"}, "not UTF-8"),
    ],
)
def test_what_is_no_spec_in_a_dict_is_refused(spec, words):
    with pytest.raises(bulkhead.SpecError, match=words):
        spec_input.load(spec)


def made_here(index):
    return index


@pytest.mark.parametrize("make", [bulkhead.Loader, lambda spec: bulkhead.try_stage(made_here, spec)])
@pytest.mark.parametrize(
    "stages, place",
    [
        ({"stages": [{"python": {"function": lambda index: index}}]}, "stages[0].python.function"),
        ({"batch_stages": [{"batch_python": {"function": lambda index: index}}]}, "batch_stages[0].batch_python.function"),
    ],
)
def test_a_function_in_a_dict_gets_the_lines_to_write(make, stages, place):
    with pytest.raises(bulkhead.SpecError) as caught:
        make({"source": {"range": {"size": 8}}, "batch": {"size": 1}, **stages})
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{place}: must be the name of ") and "put it in a file" in lines[0]
    assert lines[1:] == ["    %%writefile my_stages.py", '    "function": "my_stages:my_function"']
    assert caught.value.metadata["path"] == place


def test_a_function_of_a_file_in_a_dict_gets_its_name():
    with pytest.raises(bulkhead.SpecError) as caught:
        spec_input.load({"stages": [{"python": {"function": made_here}}]})
    assert str(caught.value).endswith(f'import it; write\n    "function": "{__name__}:made_here"')


@pytest.mark.parametrize(
    "given, name",
    [(np.float32, "float32"), (np.uint8, "uint8"), (np.dtype(">i4"), "int32"), (np.bool_, "bool"), (bool, "bool"), (bytes, "bytes")],
)
def test_a_type_of_numpy_is_its_name(given, name):
    outputs = [{"name": "x", "dtype": given}]
    spec = {"source": {"range": {"size": 8}}, "stages": [{"python": {"function": "a:b", "outputs": outputs}}]}
    assert json.loads(spec_input.load(spec).text)["stages"][0]["python"]["outputs"][0]["dtype"] == name
    made = bulkhead.Pipeline.from_dict(spec)
    assert made.to_dict()["stages"][0]["python"]["outputs"][0]["dtype"] == name


@pytest.mark.parametrize("make", [spec_input.load, bulkhead.Pipeline.from_dict])
@pytest.mark.parametrize("given, words", [(float, 'write "float32", or "float64"'), (int, 'write "int64"')])
def test_a_type_of_python_that_leaves_the_size_open_is_answered_with_a_name(make, given, words):
    with pytest.raises(bulkhead.SpecError) as caught:
        make({"source": {"range": {"size": 8}}, "stages": [{"cast": {"dtype": given}}]})
    assert str(caught.value).startswith("stages[0].cast.dtype: must be ") and words in str(caught.value)


@pytest.mark.parametrize("make", [spec_input.load, bulkhead.Pipeline.from_dict])
def test_a_type_that_is_no_element_type_is_named_by_its_place(make):
    with pytest.raises(bulkhead.SpecError, match=r"^stages\[0\].cast.dtype: must be "):
        make({"stages": [{"cast": {"dtype": np.floating}}]})


def test_a_file_that_is_not_there_is_answered_with_the_nearest_spec(tmp_path, monkeypatch):
    for name in ("train.yaml", "data.yaml", "trian.txt"):
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    for given, near in (("trian.yaml", "train.yaml"), (f"{tmp_path}/trian.yaml", f"{tmp_path}/train.yaml")):
        with pytest.raises(bulkhead.errors.DataError) as raised:
            spec_input.load(given)
        assert str(raised.value) == f"cannot read the spec {given}: No such file or directory; did you mean {near}?"
    with pytest.raises(bulkhead.errors.DataError, match=f"directory; looked for {tmp_path}/no/train.yaml$"):
        spec_input.load("no/train.yaml")


def test_relative_paths_start_where_the_spec_really_lies(tmp_path, monkeypatch):
    (tmp_path / "there" / "sub").mkdir(parents=True)
    (tmp_path / "there" / "s.yaml").write_text("{}")
    (tmp_path / "link").symlink_to("there/sub")
    monkeypatch.chdir(tmp_path)
    for given in ("link/../s.yaml", f"{tmp_path}/link/../s.yaml"):
        assert os.path.samefile(spec_input.load(given).base_dir, tmp_path / "there")
        assert os.path.samefile(bulkhead.Pipeline.range(4, base_dir=os.path.dirname(given))._base_dir, tmp_path / "there")


def test_a_path_may_have_braces(tmp_path):
    (tmp_path / "a{1}").mkdir()
    (tmp_path / "a{1}" / "s.yaml").write_text("{}")
    assert spec_input.load(f"{tmp_path}/a{{1}}/s.yaml").is_file


def test_a_name_that_no_file_can_have_is_not_found():
    with pytest.raises(bulkhead.errors.DataError, match=r"the spec 'a\\x00\.yaml': embedded null byte$") as raised:
        spec_input.load("a\x00.yaml")
    assert raised.value.reason == "FILE_NOT_FOUND"


def test_a_text_that_is_not_utf8_is_refused():
    with pytest.raises(bulkhead.SpecError, match="not UTF-8"):
        spec_input.load("source: {image_folder: {path: '\udc80'}}")
