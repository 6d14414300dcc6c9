"""bulkhead.ray.pack and bulkhead.ray.index on a real Ray cluster of two nodes."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import bulkhead
import pytest
from conftest import BIN, ROOT
from two_nodes import cluster, head, nodes, processes, wait_until  # noqa: F401  (fixtures)

import bulkhead.ray

sys.path.append(str(ROOT / "client/conformance"))

from data import write_runs  # noqa: E402

RECORDS = 10


@pytest.fixture
def shards(tmp_path):
    """Three files of ten records."""
    paths = [tmp_path / f"{name}.tfrecord" for name in "abc"]
    for number, path in enumerate(paths):
        write_runs(path, range(number * RECORDS, (number + 1) * RECORDS))
    return [str(path) for path in paths]


def source_of(files):
    return {"tfrecord": {"files": files}}


def runs_of(spec, **options):
    """All values of all records, in order."""
    with bulkhead.Loader(spec, workers=1, **options) as loader:
        return [batch["runs"].tolist() for batch in loader]


def spec_of(shards):
    return {
        "source": source_of(shards),
        "features": {"runs": {"int64": {"shape": [-1], "max_count": 5}}},
        "batch": {"size": 4},
    }


def test_shards_are_packed_and_one_spec_reads_them(nodes, shards, tmp_path):
    specs = []
    for shard in shards:
        specs.append(str(pathlib.Path(shard).with_suffix(".json")))
        pathlib.Path(specs[-1]).write_text(json.dumps(spec_of([shard])))
    packed = bulkhead.ray.pack(specs, str(tmp_path / "packed"), records=4)
    assert packed == str(tmp_path / "packed" / "packed.yaml")
    files = sorted(str(path.relative_to(tmp_path / "packed")) for path in (tmp_path / "packed").rglob("*.tfrecord"))
    assert files == [f"shard-{shard:05}-of-00003/part-{part:03}.tfrecord" for shard in range(3) for part in range(3)]
    assert runs_of(packed) == runs_of(spec_of(shards))


def test_fewer_shards_leave_none_of_before_in_the_spec(cluster, shards, tmp_path):
    out = str(tmp_path / "packed")
    specs = [str(tmp_path / f"{number}.json") for number in range(3)]
    for spec, shard in zip(specs, shards):
        pathlib.Path(spec).write_text(json.dumps(spec_of([shard])))
    bulkhead.ray.pack(specs, out)
    packed = bulkhead.ray.pack(specs[:2], out)
    assert runs_of(packed) == runs_of(spec_of(shards[:2]))
    assert bulkhead.ray.index(packed, str(tmp_path / "cache")) == 2 * RECORDS


def test_a_shard_that_cannot_be_packed_is_named(cluster, shards, tmp_path):
    gone = str(tmp_path / "gone.tar")
    with pytest.raises(bulkhead.DataError, match=rf"^{gone}: .*gone.tar") as raised:
        bulkhead.ray.pack([gone], str(tmp_path / "packed"))
    assert raised.value.reason == "SHARD_FAILED" and raised.value.file == gone


def test_shards_with_other_features_are_refused(cluster, shards, tmp_path):
    from patterns import draw

    images = draw(tmp_path / "images", count=20, size=16)
    for spec, names in (("one", "class-0"), ("two", "class-1")):
        (tmp_path / spec / names).mkdir(parents=True)
        next((images / names).glob("*.png")).rename(tmp_path / spec / names / "1.png")
    with pytest.raises(bulkhead.DataError, match="two gives another spec than .*one, so one spec cannot read both"):
        bulkhead.ray.pack([str(tmp_path / "one"), str(tmp_path / "two")], str(tmp_path / "packed"))


def test_an_index_by_tasks_is_the_one_that_services_find(nodes, shards, tmp_path):
    cache = tmp_path / "cache"
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(spec_of(["*.tfrecord"])))

    def made():
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file() and "logs" not in path.parts}

    assert bulkhead.ray.index(str(spec), str(cache), tasks=2) == 3 * RECORDS
    before = made()
    assert len(before) == 3
    with bulkhead.Loader(str(spec), cache_dir=str(cache), workers=1) as loader:
        assert loader.next_batch() is not None
        assert made().items() >= before.items() and len([path for path in made() if path.suffix in suffixes(before)]) == 3


def suffixes(paths):
    return {path.suffix for path in paths}


@pytest.mark.parametrize(
    "spec, error, words",
    [
        ({"source": {"range": {"size": 3}}, "batch": {"size": 1}}, bulkhead.SpecError, "only tfrecord and tar have files"),
        ({"source": {"tfrecord": {"files": "/gone/*"}}, "batch": {"size": 1}}, bulkhead.DataError, "/gone/.* matches nothing"),
    ],
)
def test_specs_without_files_are_refused(cluster, tmp_path, spec, error, words):
    with pytest.raises(error, match=words):
        bulkhead.ray.index(spec, str(tmp_path))


def test_impossible_arguments(cluster, tmp_path):
    with pytest.raises(bulkhead.InvalidArgument, match="shards is a list"):
        bulkhead.ray.pack("/data/a.tar", str(tmp_path))
    with pytest.raises(bulkhead.InvalidArgument, match="tasks is the number of tasks, 1 at least, not 0"):
        bulkhead.ray.index({}, str(tmp_path), tasks=0)


def test_the_command_ends_with_the_process_of_its_task(tmp_path, monkeypatch):
    (tmp_path / "bulkheadd").symlink_to(BIN / "bulkheadd")
    tool = tmp_path / "bulkhead"
    tool.write_text(f"#!/bin/sh\nexec sleep {os.getpid()}.25\n")
    tool.chmod(0o755)
    program = "from bulkhead._ray.shard_tasks import _run_tool; _run_tool('shard', 'pack')"
    task = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "BULKHEAD_SERVER": str(tmp_path / "bulkheadd")}
    )
    try:
        wait_until(lambda: processes(f"{os.getpid()}.25"), "the command runs")
    finally:
        task.send_signal(signal.SIGKILL)
        task.wait()
    wait_until(lambda: not processes(f"{os.getpid()}.25"), "the command has ended")
