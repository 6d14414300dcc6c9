"""A plugin of pytest, `-p tidy_tests`: removes the folder of each test that passed. What a failed one left stays.

The services of the tests keep caches of up to 2 GB each there; all of them together would fill a disk.
"""

import shutil

import pytest

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    del call
    outcome = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or outcome.get_result().failed
    folder = item.funcargs.get("tmp_path")  # none where the test was skipped before it was made
    if outcome.get_result().when == "teardown" and folder and not item.stash[_FAILED]:
        shutil.rmtree(folder, ignore_errors=True)
