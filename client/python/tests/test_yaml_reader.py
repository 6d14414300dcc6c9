"""The YAML of specs, against PyYAML where both read it."""

import random

import pytest
import repository_specs

from bulkhead import _yaml_reader
from bulkhead._yaml_reader import YamlFault, read

SPECS = list(repository_specs.specs())
NULLS = ("", "~", "null", "Null", "NULL")


def plain(value):
    """As PyYAML's BaseLoader gives it, but for nulls."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return "" if value is None or value in NULLS else str(value)


def as_pyyaml_reads(text):
    yaml = pytest.importorskip("yaml")
    return plain(yaml.load(text, yaml.BaseLoader))


@pytest.mark.parametrize("where, text", SPECS)
def test_specs_are_read_as_pyyaml_reads_them(where, text):
    assert plain(read(text)[0]) == as_pyyaml_reads(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [1, 2, {c: d}]\n",
        "- a\n- b: 1\n  c: 2\n-\n  - d\n- - e\n  - f\n",
        "a:\n- b\n- c\nd:\n    e: f\n",
        "{a: 1, \"b\":2, 'c': [x, y,], d, e: }",
        "a: 'it''s'\nb: \"tab\\t\\x41\\u2603\\U0001F600\"\n",
        "a: b # comment\n# another\n\nc: d#no\n",
        "a: &x {k: [1]}\nb: *x\nc: &y\n  d: 1\ne: *y\nf: [&z g, *z]\n",
        "---\na: http://x/y:z\n...\n",
        "a: {b: c:d, e: 'f, g'}\n",
        "[a: 1, b]",
        "a:\n  b:\n    - c: [1,\n        2]\n      d: {e: 1,\n   f: 2}\n",
        "a: -1\nb: ?x\nc: :y\nd: -z\n",
        "'quoted key': 1\n\"other\": 2\n",
        "a: 'two\n  lines'\n",
        "a: 'first\n\n  third'\n",
        "\ufeffa: 1\r\nb: 2\r\n",
        "a: null\nb: ~\nc:\nd: ''\n",
        "[]",
        "a: []\nb: {}\n",
        "?x: 1\n",
    ],
)
def test_what_both_read_is_the_same(text):
    assert plain(read(text)[0]) == as_pyyaml_reads(text)


def random_value(rng, depth):
    kind = rng.randrange(6) if depth < 4 else 5
    if kind in (0, 1):
        return {
            random_text(rng) or "k": random_value(rng, depth + 1) for _ in range(rng.randrange(4))
        }
    if kind == 2:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return random_text(rng)


def random_text(rng):
    letters = "ab1 :#,[]{}'\"\\-?&*!|>%@`\t\né☃\U0001f600\x7f~."
    return "".join(rng.choice(letters) for _ in range(rng.randrange(7)))


@pytest.mark.parametrize("seed", range(40))
def test_what_pyyaml_writes_is_read(seed):
    yaml = pytest.importorskip("yaml")
    rng = random.Random(seed)
    for _ in range(25):
        value = {"top": random_value(rng, 0)}
        for style in (True, False, None):
            text = yaml.dump(
                value,
                default_flow_style=style,
                width=1 << 30,
                allow_unicode=bool(seed % 2),
                default_style='"' if seed % 4 == 0 else None,
            )
            if "? " in text:  # keys that PyYAML takes for long ones
                continue
            assert plain(read(text)[0]) == plain(value), text


@pytest.mark.parametrize(
    "text, line, column, words",
    [
        ("a: 1\nb: [1, 2\n", 3, 1, "expected"),
        ("a: 1\n b: 2\n", 2, 2, "line"),
        ("a:\n\tb: 1\n", 2, 2, "tab"),
        ("a: 1\na: 2\n", 2, 1, "twice"),
        ("a: |\n  text\n", 1, 4, "block texts"),
        ("a: !!int 3\n", 1, 4, "tags"),
        ("a: *x\n", 1, 6, "anchor"),
        ('a: "x\n', 1, 6, "several lines"),
        ("a: 'x\n", 1, 5, "not closed"),
        ('a: "\\q"\n', 1, 6, "escape"),
        ("a: b: c\n", 1, 5, "quote"),
        ("a: %x\n", 1, 4, "quotes"),
        ("a: one\n  two\n", 2, 3, "several lines"),
        ("a: 1\n---\nb: 2\n", 2, 1, "key"),
        ("%YAML 1.2\n", 1, 1, "directives"),
        ("a: {b: 1\n", 2, 1, "expected"),
        ("a: [" * 70, 1, 260, "deeper"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text, line, column, words):
    with pytest.raises(YamlFault, match=words) as raised:
        read(text)
    assert raised.value.mark == (line, column)


@pytest.mark.parametrize("where, text", SPECS)
def test_a_damaged_text_is_refused_or_read_and_never_hangs(where, text):
    rng = random.Random(where)
    for _ in range(60):
        at, length = rng.randrange(len(text)), rng.randrange(3)
        damaged = text[:at] + rng.choice("{}[]:,'\"&*-\n #|\\") + text[at + length :]
        try:
            value, marks = read(damaged)
        except YamlFault as fault:
            assert fault.message and fault.mark[0] <= damaged.count("\n") + 2
        else:
            assert value is None or marks


def test_marks_say_where_each_value_stands():
    _, marks = _yaml_reader.read("a: 1\nb:\n  - c: {d: 2}\n")
    assert marks[("a",)] == (1, 1)
    assert marks[("b", 0, "c")] == (3, 5)
    assert marks[("b", 0, "c", "d")] == (3, 9)
