#!/usr/bin/python3
"""CPU time a sample of two builds of Bulkhead: what did a change cost, or save?

    bench/two_builds.py OLD NEW FOLDER [--workload B] [--batch-size 256] [--rounds 24]

OLD and NEW: the folders of their programs (build/release/bin). FOLDER: JPEG files, at any depth. The workloads are those of
bench/workloads.py. One worker of one thread, no cache, batches over shared memory to the client of this tree. The builds
take turns, and who is first changes in each round, as a machine's speed drifts. Printed is the worker's CPU time a
sample (user and system, of all its threads) behind 24 batches that are not counted, and the median and range of the ratios
within a round.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import workloads
from support import Service, machine

import bulkhead

UNCOUNTED_BATCHES, BATCHES = 24, 48


def cpu_seconds(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def measure(programs, spec, root, batch_size):
    with tempfile.TemporaryDirectory() as home:
        with Service(home, "--root", root, "--workers", 1, "--cache-bytes", 0, programs=programs) as service, \
                bulkhead.Loader(spec, service.target, timeout=300) as loader:
            batches = loader.stream()
            for _ in range(UNCOUNTED_BATCHES):
                next(batches)
            [worker] = [worker["pid"] for worker in bulkhead.service_status(service.target)["workers"]]
            before = cpu_seconds(worker)
            for _ in range(BATCHES):
                next(batches)
            taken = cpu_seconds(worker) - before
    return 1e6 * taken / BATCHES / batch_size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--workload", choices=["A", "B"], default="B")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=24)
    options = parser.parse_args()
    print(f"{machine()}; workload {options.workload}, batches of {options.batch_size}; {' '.join(sys.argv)}")
    root = options.folder.resolve()
    with tempfile.TemporaryDirectory() as folder:
        spec = workloads.write_specs(root, pathlib.Path(folder))[options.workload]
        spec.write_text(json.dumps({**json.loads(spec.read_text()), "batch": {"size": options.batch_size}, "epochs": "forever"}))
        builds, taken = {"old": options.old, "new": options.new}, {"old": [], "new": []}
        for number in range(options.rounds):
            for name in sorted(builds, reverse=number % 2):
                taken[name].append(measure(builds[name], spec, root, options.batch_size))
            print(f"round {number + 1}: old {taken['old'][-1]:.1f}, new {taken['new'][-1]:.1f} us a sample", flush=True)
    ratios = [new / old for old, new in zip(taken["old"], taken["new"])]
    print(f"new / old: {statistics.median(ratios):.4f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
