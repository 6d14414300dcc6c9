"""The YAML of specs: what stands there, where it stands, and what is refused."""

import builtins
import random
import sys

import pytest
import repository_specs

import bulkhead
from bulkhead import Pipeline
from bulkhead._spec.spec_yaml import Text, YamlFault, read

SPECS = list(repository_specs.specs())


@pytest.mark.parametrize(
    "word", ["yes", "on", "010", "0x1F", "1_000", "1:30", "2001-01-01", "=", "1e3"]
)
def test_single_values_stay_the_texts_they_are(word):
    (value,) = read(f"a: {word}\n").value.values()
    assert value == word and type(value) is Text


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_nothing_is_written_as_the_service_reads_it(text):
    assert read(f"a: {text}\nb: [{text or '~'}]\n").value == {"a": None, "b": [None]}
    assert read(f"a: '{text}'\n").value == {"a": text}
    assert read(f"a: {text}x\n").value == {"a": text + "x"}


@pytest.mark.parametrize(
    "text, value",
    [
        ("a: &x {k: [1]}\nb: *x\n", {"a": {"k": ["1"]}, "b": {"k": ["1"]}}),
        ("a: !!int 3\n", {"a": "3"}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("a: one\n  two\n", {"a": "one two"}),
        ("<<: {a: 1}\n", {"<<": {"a": "1"}}),
        ('{"a": "\\ud83d\\ude00\\/"}', {"a": "\U0001f600/"}),
        ("\ufeff%YAML 1.1\r\n---\r\na: 1\r\n...\r\n", {"a": "1"}),
        ("1: 2\ntrue: 3\n", {"1": "2", "true": "3"}),
    ],
)
def test_what_yaml_can_say_is_read(text, value):
    assert read(text).value == value


@pytest.mark.parametrize(
    "text, line, column, words",
    [
        ("a: 1\nb: [1, 2\n", 3, 1, "expected ',' or ']'"),
        ("a: 1\n b: 2\n", 2, 3, "mapping values are not allowed"),
        ("a:\n\tb: 1\n", 2, 1, "cannot start any token"),
        ("b: 0\na: 1\n'a': 2\n", 3, 1, "`a` stands here twice, first at 2:1"),
        ("a: {b: 1, c: 2, b: 3}\n", 1, 17, "`b` stands here twice, first at 1:5"),
        ("a: *x\n", 1, 4, "undefined alias"),
        ("a: &x 1\nb: &x 2\n", 2, 4, "duplicate anchor 'x'"),
        ('a: "\\q"\n', 1, 6, "unknown escape"),
        ('a: "\\ud83d"\n', 1, 1, "no UTF-8 text"),
        ("a: 1\n---\nb: 2\n", 2, 1, "single document"),
        ("a: 1\n? [b]\n: 2\n", 2, 3, "a key must be a name, but is a sequence"),
        ("a: 1\n~: 2\n", 2, 1, "a key must be a name, but is empty"),
        ("# nothing\n", 1, 1, "the spec is empty"),
        ("a: &x\n  b: *x\n", 2, 3, "deeper than 64"),
        ("a: " + "[" * 65 + "]" * 65, 1, 68, "deeper than 64"),
        ("[" * 5000, 1, 1, "deeper than 64"),
        ("x: 1\na: b\x07\n", 2, 5, r"'\\x07' is none of text"),
        ("x: 1\na: b\x85c\n", 2, 5, r"'\\x85' is none of text"),
        ('a: "\\U00110000"\n', 1, 1, "not valid YAML"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_read_says_where_and_why(text, line, column, words):
    with pytest.raises(YamlFault, match=words) as raised:
        read(text)
    assert raised.value.mark == (line, column)


def test_aliases_do_not_multiply_without_end():
    lines = ["a0: &a0 [" + ", ".join("x" * 50) + "]"]
    for i in range(1, 6):
        lines.append(f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 50) + "]")
    with pytest.raises(YamlFault, match="more than 50000 values"):
        read("\n".join(lines))


def test_marks_say_where_each_value_stands():
    marks = read("a: 1\nb:\n  - c: {d: 2}\n").marks
    assert marks[("a",)] == (1, 1)
    assert marks[("b", 0)] == (3, 5)
    assert marks[("b", 0, "c", "d")] == (3, 9)


@pytest.mark.parametrize("where, text", SPECS, ids=[where for where, _ in SPECS])
def test_a_damaged_text_is_a_pipeline_or_a_spec_error(where, text):
    rng = random.Random(where)
    for _ in range(15):
        at, length = rng.randrange(len(text)), rng.randrange(3)
        damaged = text[:at] + rng.choice("{}[]:,'\"&*-\n #|\\!?\t\0") + text[at + length :]
        try:
            assert Pipeline.from_yaml(damaged + "\n").to_dict()
        except bulkhead.SpecError as error:
            assert str(error)


@pytest.fixture
def without_pyyaml(monkeypatch):
    real = builtins.__import__

    def refusing(name, *rest):
        if name == "yaml":
            raise ModuleNotFoundError("No module named 'yaml'", name="yaml")
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "yaml", raising=False)
    monkeypatch.setattr(builtins, "__import__", refusing)


def test_without_pyyaml_the_error_says_what_to_do(without_pyyaml):
    with pytest.raises(ImportError, match=r'pip install "bulkhead-loader\[yaml\]"; or pass the'):
        Pipeline.from_yaml("source: {range: {size: 3}}\n")


def test_only_reading_yaml_needs_pyyaml(without_pyyaml, fake):
    pipeline = Pipeline.range(3).batch(2)
    assert Pipeline.from_dict(pipeline.to_dict()) == pipeline
    assert pipeline.to_yaml() == "source: {range: {size: 3}}\nbatch: {size: 2}\n"
    assert "yaml" not in sys.modules
