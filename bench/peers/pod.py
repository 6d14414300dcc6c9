#!/usr/bin/python3
"""The same job with a function that leaks, in a pod of fixed memory: how long does each loader live?

    bench/peers/pod.py FOLDER [--limit-mib N] [--leak-kib N] [--seconds S] [--ways WAY …]       (as root)

FOLDER: JPEG files, at any depth. The workload `python` of bench/peers/run.py on two cores with two workers, but each call of the
function keeps --leak-kib of memory, in whichever process it runs. Trainer and loader run together in a cgroup with the
limit. Told is how many images came, and whether the loader was alive after --seconds. One that gets no batch any more, and
does not end, is given up after another two minutes. Random crops of the same photos again and again; nothing is kept from
one epoch to the next.
"""

import argparse
import ctypes
import os
import pathlib
import sys
import tempfile
import time

import run
from run import ALL, kill_leftovers
from support import machine, make_cgroup, remove_cgroup

WAYS = ["bulkhead", "torch", "grain", "tfdata"]


def in_pod(limit, work):
    """Runs `work` in a process of a cgroup with the limit; seconds, and whether it returned True there."""
    folder = make_cgroup(limit)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
        ctypes.CDLL(None).prctl(run.ADOPT_ORPHANS, 1, 0, 0, 0)
        os._exit(0 if work() else 1)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    remove_cgroup(folder)
    return seconds, status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--limit-mib", type=int, default=8192)
    parser.add_argument("--leak-kib", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--ways", nargs="+", choices=ALL, default=WAYS, metavar="WAY")
    arguments = parser.parse_args()
    print(f"{machine()}; bench/peers/pod.py {' '.join(sys.argv[1:])}", flush=True)
    with tempfile.TemporaryDirectory() as made:
        home = pathlib.Path(made)
        run.write_lists(run.images_of(arguments.folder), 400_000, home)
        options = {"list": str(home / "many"), "short_list": str(home / "once"), "records": "", "many_records": "",
                   "warm_up": 0, "seconds": arguments.seconds, "cores": 2, "workload": "python", "prepare": False}
        cores = sorted(os.sched_getaffinity(0))[:2]
        ways = run.prepared(arguments.ways, home, options)
        run.ENVIRONMENT.update(BENCH_LEAK_BYTES=str(arguments.leak_kib << 10), BENCH_PROGRESS=str(home / "progress"))
        for way, python in ways.items():
            (home / "progress").write_text("0")
            seconds, alive = in_pod(arguments.limit_mib << 20,
                                    lambda: run.run_loader(way, python, {**options, "data": str(home / way)}, cores, home))
            images = (home / "progress").read_text()
            print(f"{way:16} {'alive' if alive else 'ended'} after {seconds:.0f} s, {images} images", flush=True)
            kill_leftovers()


if __name__ == "__main__":
    main()
