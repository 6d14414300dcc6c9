"""Names of files that are not UTF-8: what cannot serve is refused by name, and ends no worker."""

import os
import shutil
import subprocess

import pytest

import bulkhead
from conftest import BIN, Service, write_spec

ODD = os.fsdecode(b"odd-\xff")


@pytest.fixture
def service(folder):
    service = Service(folder, "--root", folder)
    yield service
    service.stop()


def exits(service):
    return bulkhead.service_status(service.target).get("recent_exits", [])


def test_a_pattern_that_finds_one_names_it(folder, photos, service):
    shutil.copy(next(photos.glob("records-*.tfrecord")), folder / f"{ODD}.tfrecord")
    spec = write_spec(
        folder / "s.json", source={"tfrecord": {"files": "*.tfrecord"}}, features={"label": {"int64": {}}},
        batch={"size": 4},
    )
    with pytest.raises(bulkhead.BulkheadError) as caught:
        bulkhead.Loader(spec, service.target, timeout=60)
    assert caught.value.reason == "FILE_UNREADABLE"
    assert "odd-\\xff.tfrecord" in str(caught.value)
    assert exits(service) == []


def test_a_root_of_such_a_name_is_refused_at_the_start(folder):
    (folder / ODD).mkdir()
    command = [BIN / "bulkheadd", "--listen", f"unix:{folder}/s.sock", "--root", folder / ODD]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "odd-\\xff: the name is not UTF-8" in ended.stderr
