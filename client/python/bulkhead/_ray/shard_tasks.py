"""`bulkhead pack` and `bulkhead index` over shards, as tasks of Ray."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Mapping, Sequence

import ray
import ray.exceptions
import yaml  # Ray needs it, too

from .. import errors
from .._service import service_process
from .._spec.spec_input import Spec, load
from . import placement

# Runs the rest of its arguments, which ends with the process that starts it, however that ends: a task that Ray begins
# again elsewhere must be alone. A program of its own, for in Ray's process other threads run while it forks.
_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


# A spec must name one; of this one a record needs nothing.
_NO_FEATURES = {"none": {"int64": {"default": [0]}}}


def _run_tool(shard: str, *words: str) -> Dict[str, Any]:
    """What the `bulkhead` command beside bulkheadd prints as JSON. ServiceNotFound; DataError with its own words."""
    tool = os.path.join(os.path.dirname(service_process.find_program()), "bulkhead")
    if not os.access(tool, os.X_OK):
        raise errors.ServiceNotFound(f"there is no {tool}: install Bulkhead's programs on every node", metadata={"program": tool})
    command = [sys.executable, "-c", _TIED, str(os.getpid()), tool, *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = done.stderr.strip() or f"{tool} ended with status {done.returncode}"
        raise errors.DataError(f"{shard}: {why}", "SHARD_FAILED", {"file": shard})
    return json.loads(done.stdout)


def _all_of(task: Any, calls: Sequence[Sequence[Any]], resources: Any) -> List[Any]:
    """What the task returns for each call; the first error ends those that have not begun."""
    wanted = placement.checked(resources)
    if not ray.is_initialized():
        ray.init()
    remote = ray.remote(task).options(scheduling_strategy="SPREAD", **placement.options(wanted))
    references = [remote.remote(*call) for call in calls]
    waiting = list(references)
    try:
        while waiting:
            done, waiting = ray.wait(waiting)
            ray.get(done)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, errors.BulkheadError) else error) from None
    finally:
        for reference in waiting:
            ray.cancel(reference)
    return ray.get(references)


def _pack(shard: str, out: str, records: int, threads: int) -> Dict[str, Any]:
    return _run_tool(shard, "pack", shard, out, "--records", str(records), "--threads", str(threads))


def pack(shards: Sequence[str], out: str, records: int, resources: Any) -> str:
    """See bulkhead.ray.pack."""
    if isinstance(shards, (str, os.PathLike)) or not shards:
        raise errors.InvalidArgument('shards is a list of what `bulkhead pack` takes, such as ["/data/a.tar", "/data/b.tar"]')
    names = [os.fspath(shard) for shard in shards]
    threads = max(int(placement.checked(resources)["CPU"]), 1)
    # With their number, so that no pattern reads folders that a run of more or fewer shards has left.
    count = f"of-{len(names):05}"
    folders = [os.path.join(os.path.abspath(out), f"shard-{number:05}-{count}") for number in range(len(names))]
    packed = _all_of(_pack, [(*pair, records, threads) for pair in zip(names, folders)], resources)
    specs = [_of_all_shards(each["spec"], f"shard-*-{count}/part-*.tfrecord") for each in packed]
    for name, spec in zip(names, specs):
        if spec != specs[0]:
            raise errors.DataError(
                f"{name} gives another spec than {names[0]}, so one spec cannot read both: compare packed.yaml in the folders of "
                f"{out}; shards must have the same features and, as folders, the same classes",
                "SHARD_FAILED",
                {"file": name},
            )
    path = os.path.join(os.path.abspath(out), "packed.yaml")
    with open(path + ".new", "w", encoding="utf-8") as file:
        yaml.safe_dump(specs[0], file, sort_keys=False)
    os.replace(path + ".new", path)
    return path


def _of_all_shards(path: str, files: str) -> Dict[str, Any]:
    """The spec of one shard's files, with the files of all, which this pattern names."""
    with open(path, encoding="utf-8") as file:
        spec = yaml.safe_load(file)
    spec["source"]["tfrecord"]["files"] = files
    return spec


def _index(files: List[str], kind: str, rest: Mapping[str, Any], cache_dir: str, workers: int) -> int:
    source = {kind: {**rest, "files": [glob.escape(file) for file in files]}}
    with tempfile.TemporaryDirectory(prefix="bulkhead-ray-index-") as folder:
        path = os.path.join(folder, "shards.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"source": source, "features": _NO_FEATURES, "batch": {"size": 1}}, file)
        options = ["--cache-dir", cache_dir, "--workers", str(workers)]
        return _run_tool(f"{files[0]} … {files[-1]}", "index", path, *options)["samples_per_epoch"]


def _files_of(spec: Spec) -> Any:
    """(kind, its other options, the files) of a spec's source. SpecError, DataError."""
    read = load(spec)
    source = (yaml.safe_load(read.text) or {}).get("source") or {}
    kind = next((kind for kind in ("tfrecord", "tar") if isinstance(source.get(kind), dict)), "")
    if not kind:
        raise errors.SpecError(f"{read.name}: source: only tfrecord and tar have files that can be indexed apart")
    rest = dict(source[kind])
    patterns = rest.pop("files", [])
    files: List[str] = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        found = sorted(glob.glob(os.path.join(read.base_dir, pattern)))
        if not found:
            raise errors.DataError(f"{read.name}: source.{kind}.files: {pattern} matches nothing", "FILE_NOT_FOUND", {"file": pattern})
        files += found
    return kind, rest, files


def index(spec: Spec, cache_dir: str, tasks: int, resources: Any) -> int:
    """See bulkhead.ray.index."""
    if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
        raise errors.InvalidArgument(f"tasks is the number of tasks, 1 at least, not {tasks!r:.60}")
    kind, rest, files = _files_of(spec)
    workers = max(int(placement.checked(resources)["CPU"]), 1)
    parts = [files[number::tasks] for number in range(min(tasks, len(files)))]
    return sum(_all_of(_index, [(part, kind, rest, os.path.abspath(cache_dir), workers) for part in parts], resources))
