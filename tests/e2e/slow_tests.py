"""A plugin of pytest, `-p slow_tests`: leaves out the tests that a suite's slow_tests.txt names, unless BULKHEAD_EXTENDED is set.

Most of what each of them shows is also shown by smaller tests, or by another case of its own which is not left out.
scripts/extended.sh slow runs them. A line is `file.py`, `file.py::test` or `file.py::test[case]`; the list lies
in the suite's folder or in one above it.
"""

import functools
import os
import pathlib

import pytest


@functools.cache
def list_of(folder: pathlib.Path) -> frozenset[str]:
    """The lines of the nearest list in `folder` or above it."""
    lists = (above / "slow_tests.txt" for above in (folder, *folder.parents))
    return next((frozenset(path.read_text().splitlines()) for path in lists if path.exists()), frozenset())


def pytest_collection_modifyitems(config, items):
    if not any("::" in argument for argument in config.args):  # files are collected whole
        there = {name for item in items for name in names_of(item)}
        listed = set().union(*(list_of(item.path.parent) for item in items))
        gone = {name for name in listed - there if name.partition("::")[0] in there}
        if gone:
            raise pytest.UsageError(f"slow_tests.txt names tests that there are not: {sorted(gone)}")
    if "BULKHEAD_EXTENDED" not in os.environ:
        slow = [item for item in items if list_of(item.path.parent).intersection(names_of(item))]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def names_of(item):
    return item.path.name, f"{item.path.name}::{item.originalname}", f"{item.path.name}::{item.name}"
