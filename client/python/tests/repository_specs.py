"""Every spec of this repository: its YAML files, and whole specs in its documentation and tests."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
_FENCE = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_RAW = re.compile(r'R"\w*\((.*?)\)\w*"', re.DOTALL)
_WHOLE = re.compile(r"^(source|batch):", re.MULTILINE)


def _is_whole(text):
    return set(_WHOLE.findall(text)) == {"source", "batch"}


def _texts_of(path):
    text = path.read_text()
    if path.suffix == ".yaml":
        return [text]
    if path.suffix == ".md":
        return _FENCE.findall(text)
    if path.suffix == ".cc":
        return _RAW.findall(text)
    if "source:" not in text or "batch:" not in text:  # to parse all takes a second
        return []
    return [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def specs():
    """(where, text) of each."""
    folders = ["examples", "docs", "tests/e2e", "tests/spec", "tests/tools", "tests/pipeline"]
    paths = [ROOT / "README.md"]
    for folder in folders:
        for ending in ("yaml", "md", "cc", "py"):
            paths += sorted((ROOT / folder).rglob(f"*.{ending}"))
    for path in paths:
        whole = [text for text in _texts_of(path) if _is_whole(text)]
        for index, text in enumerate(whole):
            yield f"{path.relative_to(ROOT)}#{index}", text
