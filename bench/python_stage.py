#!/usr/bin/python3
"""What a Python stage costs per call, beyond the function itself: a service of one worker with one thread calls functions
that do next to nothing; the worker's own clock says how long the stage took. What the function takes when it is called
by nobody but a loop is subtracted.

    bench/python_stage.py [--samples N] [--python PROGRAM] [--json]

scalar      one int64 in, one out
rng         the same, with a generator
legacy      the same, drawing once from `random` and once from `numpy.random`
image       a 224 x 224 x 3 image in, three numbers out
image-copy  the same image in and out, which is a copy of 150 KB
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from support import Service, machine

import bulkhead

FUNCTIONS = '''
import random

import numpy as np

COLOUR = np.zeros(3, np.float32)


def make(index):
    return np.zeros((224, 224, 3), np.uint8)


def scalar(index):
    return index


def rng(index, rng):
    return index


def legacy(index):
    random.random()
    np.random.rand()
    return index


def image(image):
    return COLOUR


def image_copy(image):
    return image
'''
INDEX = {"name": "index", "dtype": "int64"}
IMAGE = {"name": "image", "dtype": "uint8", "shape": [224, 224, 3]}
CASES = {
    "scalar": ("index", INDEX),
    "rng": ("index", INDEX),
    "legacy": ("index", INDEX),
    "image": ("image", {"name": "colour", "dtype": "float32", "shape": [3]}),
    "image-copy": ("image", IMAGE),
}
# How the functions are called by a loop, in the interpreter of the stages.
OWN_TIME = """
import json, sys, timeit
import numpy as np
import functions
index, image, rng = np.int64(3), np.zeros((224, 224, 3), np.uint8), np.random.default_rng()
calls = {"scalar": lambda: functions.scalar(index), "rng": lambda: functions.rng(index, rng),
         "legacy": lambda: functions.legacy(index), "image": lambda: functions.image(image),
         "image-copy": lambda: functions.image_copy(image)}
print(json.dumps({name: min(timeit.repeat(call, number=10000, repeat=5)) / 10000 for name, call in calls.items()}))
"""


def stage_seconds(service, label):
    """(seconds, runs) of the stage so far."""
    for worker in bulkhead.service_status(service.target)["workers"]:
        for stage in worker.get("stages", []):
            if stage["stage"] == label:
                return stage["busy_seconds"], int(stage["runs"])
    return 0.0, 0


def seconds_per_call(folder, python, case, samples):
    reads, output = CASES[case]
    stages = [{"python": {"function": "functions:" + case.replace("-", "_"), "inputs": [reads], "outputs": [output]}}]
    if reads == "image":
        stages.insert(0, {"python": {"function": "functions:make", "inputs": ["index"], "outputs": [IMAGE]}})
    spec = {"source": {"range": {"size": samples}}, "stages": stages, "outputs": [output["name"]],
            "batch": {"size": 64}, "seed": 1}
    label = f"stages[{len(stages) - 1}] python"
    with Service(folder, "--workers", 1, "--threads", 1, "--python-path", folder, "--python", python,
                 "--recycle-slowdown", 0) as service:
        with bulkhead.Loader(spec, service.target) as loader:
            stream = loader.stream()
            for _ in range(20):
                next(stream)
            begin = stage_seconds(service, label)
            for _ in range(samples // 64):
                next(stream)
            end = stage_seconds(service, label)
    return (end[0] - begin[0]) / (end[1] - begin[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "functions.py").write_text(FUNCTIONS)
        own = json.loads(subprocess.run([options.python, "-c", OWN_TIME], env={**os.environ, "PYTHONPATH": folder},
                                        stdout=subprocess.PIPE, check=True).stdout)
        versions = subprocess.run(
            [options.python, "-c", "import platform, numpy; print(platform.python_version(), 'NumPy', numpy.__version__)"],
            stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
        microseconds = {}
        for case in CASES:
            calls = [seconds_per_call(folder, options.python, case, options.samples) for _ in range(options.rounds)]
            microseconds[case] = (min(calls) - own[case]) * 1e6
    report = {"machine": machine(), "python": versions, "load": os.getloadavg()[0], "command": " ".join(sys.argv),
              "microseconds_beyond_the_function": {name: round(value, 1) for name, value in microseconds.items()}}
    if options.json:
        print(json.dumps(report))
        return
    for key in ("machine", "python", "load", "command"):
        print(f"{key}: {report[key]}")
    for name, value in microseconds.items():
        print(f"{name:10}  {value:6.1f} us per call beyond the function (best of {options.rounds})")


if __name__ == "__main__":
    main()
