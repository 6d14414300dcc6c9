"""No two types have one name in one namespace: the wheel has service, command and bulkhead-fetch in one program, whose linker
takes one of the functions of that name for both types, without a word."""

import collections
import os
import pathlib
import re

ROOT = pathlib.Path(os.environ.get("BULKHEAD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
TYPE = re.compile(r"^(?:class|struct|enum(?: class)?)\s+(?:alignas\(\w+\)\s+)?(\w+)[^;(]*\{", re.MULTILINE)
NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]+) \{", re.MULTILINE)


def types_of(text: str) -> set[str]:
    """The full names of the types that a header defines outside other types."""
    begins = [(found.start(), found[1]) for found in NAMESPACE.finditer(text)]
    return {"::".join(name for start, name in begins if start < found.start()) + "::" + found[1] for found in TYPE.finditer(text)}


def repeated(headers: dict[str, str]) -> dict[str, list[str]]:
    places = collections.defaultdict(list)
    for path, text in headers.items():
        for name in types_of(text):
            places[name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_every_type_has_a_name_of_its_own():
    folders = ("server", "client/cpp", "tools", "include")
    headers = {str(path.relative_to(ROOT)): path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.h")}
    assert sum(map(len, map(types_of, headers.values()))) > 500, "these are not the types of the tree"
    assert repeated(headers) == {}


def test_a_second_type_of_a_name_is_found():
    one = "namespace bulkhead {\n\nclass alignas(64) Key final : public Base {\n};\n}\n"
    assert repeated({"a.h": one, "b.h": one.replace("class alignas(64) Key final : public Base", "struct Key")}) == {"bulkhead::Key": ["a.h", "b.h"]}
    assert repeated({"a.h": one, "b.h": one.replace("namespace bulkhead ", "namespace bulkhead::tools ")}) == {}
    assert repeated({"a.h": one, "b.h": "namespace bulkhead {\nclass Key;\n}\n"}) == {}
