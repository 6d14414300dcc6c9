#!/usr/bin/python3
"""What tracing costs: `bulkhead trace` of a service, and --trace-python of its Python stages.

    bench/tracing.py FOLDER [--rounds 12] [--only numbers] [--old build/of/before/bin]

FOLDER: JPEG files, at any depth. Each pipeline has one worker of one thread and batches over shared memory. Measured is the
worker's CPU time a sample, of all its threads, with and without tracing in turn; printed are the medians, and the median and
range of the ratios within a round. `bulkhead trace` is switched on and off in one service; --trace-python takes two. With
--old, the programs of another build, `numbers` is compared between the builds, without tracing.

    photos    decode, random crop to 224, flip, normalise (bench/workloads.py, B), batches of 256
    numbers   a range through three stages that take no time: the most events a second that a thread makes
    numpy     a Python stage that computes with NumPy arrays of 64 KiB
    objects   a Python stage that makes 200 small objects and drops them
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import workloads
from support import BIN, Service, machine
from two_builds import cpu_seconds

import bulkhead

FUNCTIONS = """
import numpy as np

table = np.arange(16384, dtype=np.float32)

def numpy(index):
    return int((table * (index % 7) + 1).sum() > 0)

def objects(index):
    return len([str(number) + "x" for number in range(200)])
"""
SECONDS = 1.0  # of each measurement


def numbers():
    stages = [{"cast": {"input": "index", "dtype": dtype}} for dtype in ("float32", "int32", "float32")]
    return {"source": {"range": {"size": 100_000}}, "stages": stages, "batch": {"size": 1024}}


def calling(function):
    stage = {"function": f"functions:{function}", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    return {"source": {"range": {"size": 100_000}}, "stages": [{"python": stage}], "batch": {"size": 256}}


class Streaming:
    """A stream of a service of its own, and what a sample takes there."""

    def __init__(self, stack, spec, *options, programs=BIN):
        home = stack.enter_context(tempfile.TemporaryDirectory())
        service = Service(home, "--workers", 1, "--cache-bytes", 0, *options, programs=programs)
        self.service = stack.enter_context(service)
        endless = {**spec, "epochs": "forever"}
        self.loader = stack.enter_context(bulkhead.Loader(endless, service.target, timeout=300))
        self.batches = self.loader.stream()
        self.size = spec["batch"]["size"]
        self.us()  # warms up

    def us(self):
        """Microseconds of CPU time of the worker for a sample, over SECONDS."""
        [worker] = [worker["pid"] for worker in self.loader.status()["workers"] if not worker["standby"]]
        before, count, end = cpu_seconds(worker), 0, time.monotonic() + SECONDS
        while time.monotonic() < end or count < 4:
            next(self.batches)
            count += 1
        return 1e6 * (cpu_seconds(worker) - before) / (count * self.size)


@contextlib.contextmanager
def traced(service, out):
    command = [BIN / "bulkhead", "trace", "--target", service.target, "--out", out, "--seconds", "60", "--events", "100000000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(0.3)  # until it is on
    yield
    process.kill()
    process.wait()
    time.sleep(0.1)


def compare(name, rounds, measure, other, words="traced"):
    taken = {measure: [], other: []}
    for number in range(rounds):
        for one in (measure, other) if number % 2 else (other, measure):
            taken[one].append(one())
    ratios = [two / one for one, two in zip(taken[measure], taken[other])]
    print(f"{name}: {statistics.median(taken[measure]):.3f} us a sample, {words} {statistics.median(taken[other]):.3f}: "
          f"{statistics.median(ratios):.3f} x ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", choices=["photos", "numbers", "numpy", "objects"])
    parser.add_argument("--old", type=pathlib.Path)
    options = parser.parse_args()
    print(f"{machine()}; {' '.join(sys.argv)}")
    root = options.folder.resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "functions.py").write_text(FUNCTIONS)
        if options.old:
            with contextlib.ExitStack() as stack:
                old, new = (Streaming(stack, numbers(), programs=programs) for programs in (options.old.resolve(), BIN))
                compare("old build, numbers", options.rounds, old.us, new.us, "new build")
            return
        photos = json.loads(workloads.write_specs(root, folder)["B"].read_text())
        for name, spec in {"photos": {**photos, "batch": {"size": 256}}, "numbers": numbers()}.items():
            if options.only not in (None, name):
                continue
            with contextlib.ExitStack() as stack:
                stream = Streaming(stack, spec, "--root", root, "--root", folder)

                def with_trace():
                    with traced(stream.service, folder / "t.json"):
                        return stream.us()

                compare(f"bulkhead trace, {name}", options.rounds, stream.us, with_trace)
        for name in ("numpy", "objects"):
            if options.only not in (None, name):
                continue
            with contextlib.ExitStack() as stack:
                python = ["--python", sys.executable, "--python-path", folder]
                off, on = (Streaming(stack, calling(name), *python, *more) for more in ([], ["--trace-python", "on"]))
                compare(f"--trace-python, {name}", options.rounds, off.us, on.us)


if __name__ == "__main__":
    main()
