#!/usr/bin/python3
"""What `kill -9` of a process of a loader does to the trainer: Bulkhead beside other loaders.

    bench/peers/kills.py FOLDER [--ways WAY …]       FOLDER: JPEG files, at any depth

Workload A of bench/peers/run.py on two cores, with two workers. When batches have come for some seconds, the busiest process
that is not the trainer itself gets SIGKILL, as the kernel's out-of-memory killer would send it. Told is whether batches went
on, how long the longest wait for one was, or whether the trainer ended, with its last words on standard error, or waited for
half a minute. A loader that decodes in the trainer's process has no other one: the kill that ends a worker elsewhere ends the
trainer there.
"""

import argparse
import ctypes
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import run
from run import ALL, kill_leftovers
from support import cpu_seconds, descendants, machine

WAYS = ["bulkhead", "torch", "grain", "tfdata-service", "tfdata", "dali"]
BEFORE_SECONDS, AFTER_SECONDS, PATIENCE_SECONDS = 3, 10, 30
LOOK_SECONDS = 0.5


class Killer(threading.Thread):
    """Kills when the loader of this process has had its workers for a while; then `killed` is the program's name."""

    def __init__(self):
        super().__init__(daemon=True)
        self.killed = ""
        self.over = threading.Event()

    def run(self):
        worked = 0.0
        while worked < BEFORE_SECONDS:
            if self.over.wait(LOOK_SECONDS):
                return
            others = descendants(os.getpid())[2:]  # the first one is the trainer
            if others and max(map(cpu_seconds, others)) > 1.0:
                worked += LOOK_SECONDS
        victim = max(others, key=cpu_seconds)
        self.killed = pathlib.Path(f"/proc/{victim}/comm").read_text().strip()
        os.kill(victim, signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--ways", nargs="+", choices=ALL, default=WAYS, metavar="WAY")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(run.ADOPT_ORPHANS, 1, 0, 0, 0)
    run.START_SECONDS = PATIENCE_SECONDS
    print(f"{machine()}; bench/peers/kills.py {' '.join(sys.argv[1:])}", flush=True)
    with tempfile.TemporaryDirectory() as made:
        home = pathlib.Path(made)
        run.write_lists(run.images_of(arguments.folder), 400_000, home)
        options = {"list": str(home / "many"), "short_list": str(home / "once"), "records": "", "many_records": "",
                   "warm_up": BEFORE_SECONDS, "seconds": AFTER_SECONDS, "cores": 2, "workload": "A", "prepare": False}
        cores = sorted(os.sched_getaffinity(0))[:2]
        try:
            for way, python in run.prepared(arguments.ways, home, options).items():
                killer = Killer()
                killer.start()
                began = time.monotonic()
                result = run.run_loader(way, python, {**options, "data": str(home / way)}, cores, home)
                killer.over.set()
                of = f"{killer.killed} killed" if killer.killed else "nothing to kill beside the trainer"
                if result:
                    told = f"went on; the longest wait for a batch was {result['longest_wait_seconds']:.2f} s"
                elif time.monotonic() - began < PATIENCE_SECONDS + BEFORE_SECONDS + AFTER_SECONDS:
                    told = "ended"
                else:
                    told = "got no batch any more, and did not end"
                print(f"{way:16} {of}: {told}", flush=True)
        finally:
            kill_leftovers()


if __name__ == "__main__":
    main()
