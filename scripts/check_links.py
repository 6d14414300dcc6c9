#!/usr/bin/env python3
"""Checks that documentation and comments point only to files and headings of this repository.

Links of Markdown files: the file exists, and the heading of an anchor, too. Paths that comments and
pages spell out (docs/spec.md, server/base/error.h): the file exists. Prints file:line and exits with 1
for each that does not.
"""

import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(```|~~~)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
COMMENT = re.compile(r"^\s*(//|#|\*|/\*)(?!include)|\s//\s")
PATH = re.compile(
    r"(?<![\w./$}<-])((?:bench|client|cmake|dashboards|deploy|docs|examples|include|proto|scripts|server|tests|tools)"
    r"/[\w./-]*\.(?:cc|h|inc|json|md|proto|py|sh|yaml))\b"
)
OUTPUT = re.compile(r"> *\S+")  # a file that an example command writes
PAGE = re.compile(r"(?<![\w./$}<-])([\w-]+\.md)\b")
WITH_COMMENTS = {".cc", ".cmake", ".h", ".inc", ".proto", ".py", ".sh", ".txt", ".yaml"}


def tracked():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in names.split("\0") if name]


def anchor(heading):
    """The anchor that GitHub makes of a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def anchors(path):
    found, fenced = set(), False
    for line in path.read_text().splitlines():
        fenced ^= bool(FENCE.match(line))
        heading = None if fenced else HEADING.match(line)
        if heading:
            name, count = anchor(heading[1]), 0
            while (unique := name if not count else f"{name}-{count}") in found:
                count += 1
            found.add(unique)
    return found


def broken_link(page, target):
    if re.match(r"[a-z]+:", target):
        return None
    name, _, heading = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if not file.exists():
        return f"no file {name}"
    if heading and file.suffix == ".md" and heading not in anchors(file):
        return f"no heading #{heading} in {file.relative_to(ROOT)}"
    return None


def docstring_lines(text):
    """The numbers of the lines of a Python file that belong to docstrings."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


def problems(name, files):
    path = ROOT / name
    markdown = path.suffix == ".md"
    if not (markdown or path.suffix in WITH_COMMENTS) or not path.is_file():
        return
    pages = {pathlib.PurePath(file).name for file in files if file.endswith(".md")}
    text = path.read_text(errors="replace")
    docstrings = set(docstring_lines(text)) if path.suffix == ".py" else set()
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if markdown:
            fenced ^= bool(FENCE.match(line))
            if not fenced:
                for target in LINK.findall(line):
                    problem = broken_link(path, target)
                    if problem:
                        yield f"{name}:{number}: {problem}"
        elif number not in docstrings and not COMMENT.search(line):
            continue
        line = OUTPUT.sub("", line)
        for mentioned in PATH.findall(line):
            if mentioned not in files and not (path.parent / mentioned).exists():
                yield f"{name}:{number}: no file {mentioned}"
        for mentioned in PAGE.findall(line):
            if mentioned not in pages:
                yield f"{name}:{number}: no page {mentioned}"


def main():
    files = set(tracked())
    found = [problem for name in sorted(files) for problem in problems(name, files)]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
