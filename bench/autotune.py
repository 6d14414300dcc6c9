#!/usr/bin/python3
"""How near `--workers auto` comes to the best fixed number of workers, and how soon.

    bench/autotune.py [--seconds S] [--auto-seconds S] [--only NAME,…] [--json]

Five pipelines, each with every fixed number of workers and with auto, in services of their own, without caches:

    light    small photos, decoded and cropped
    heavy    the same with five augmentations
    slow     a Python function that computes
    waiting  a Python function that waits, as for a store of its own
    bound    light, read by a trainer that takes a step of 0.1 s for each batch

The fixed numbers are 1 to the number of CPUs, and for `waiting` to four for each CPU. Each is measured for S seconds once it
runs. Auto is measured in stretches of STRETCH seconds for --auto-seconds: what is printed is the rate of the last third, the
ratio to the best fixed number, after how many seconds a stretch first reached ENOUGH of that, and the numbers of workers.

Exits with 1 if auto comes to less than ENOUGH of the best fixed number, or later than after SOON seconds. Needs a machine
that nobody else uses.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

from support import Service, draw_photos, machine

import bulkhead

ENOUGH, SOON, STRETCH = 0.95, 60.0, 3.0
STEP_SECONDS = 0.1

PYTHON = """
import time
def computes(index):
    value = int(index)
    for _ in range(20000):
        value = (value * 1103515245 + 12345) % (1 << 31)
    return value
def waits(index):
    time.sleep(0.02)
    return index
"""
HEAVY = [
    {"random_affine": {"degrees": 20}}, {"color_jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}},
    {"gaussian_blur": {"kernel": 5}}, {"elastic": {}}, {"random_horizontal_flip": {}},
]


def specs_of(folder):
    """Name → spec, seconds of a training step, and the largest fixed number."""
    cpus = len(os.sched_getaffinity(0))
    photos = {"image_folder": {"path": str(folder / "photos/folder")}}
    crop = ["decode_image", {"random_resized_crop": {"size": 128}}]
    usual = {"order": "global", "seed": 1, "batch": {"size": 64, "last": "drop"}}

    def calls(function):
        stage = {"function": f"stages:{function}", "inputs": ["index"], "outputs": [{"name": "value", "dtype": "int64"}]}
        return {"source": {"range": {"size": 1 << 30}}, "stages": [{"python": stage}], **usual}

    light = {"source": photos, "stages": crop, **usual}
    return {
        "light": (light, 0, cpus),
        "heavy": ({"source": photos, "stages": crop + HEAVY, **usual}, 0, cpus),
        "slow": (calls("computes"), 0, cpus),
        "waiting": (calls("waits"), 0, 4 * cpus),
        "bound": (light, STEP_SECONDS, cpus),
    }


def started(folder, workers):
    return Service(folder, "--root", "/", "--python", sys.executable, "--python-path", folder, "--workers", workers,
                   "--coefficient-cache-bytes", 0, "--cache-bytes", 0)


def stretches(spec, target, step, seconds, stretch):
    """(seconds since the first batch, samples a second, workers) of each stretch."""
    found = []
    with bulkhead.Loader(spec, target, timeout=300) as loader:
        batches = loader.stream()
        next(batches)
        begin = since = time.monotonic()
        samples = 0
        while since < begin + seconds:
            samples += len(next(iter(next(batches).values())))
            time.sleep(step)
            now = time.monotonic()
            if now >= since + stretch:
                workers = len(bulkhead.service_status(target)["workers"])
                found.append((now - begin, samples / (now - since), workers))
                since, samples = now, 0
    return found


def fixed_rate(folder, spec, step, workers, seconds):
    with started(folder, workers) as service:
        return stretches(spec, service.target, step, 1 + seconds, seconds)[-1][1]


def measure(folder, name, seconds, auto_seconds):
    spec, step, most = specs_of(folder)[name]
    fixed = {workers: fixed_rate(folder, spec, step, workers, seconds) for workers in range(1, most + 1)}
    best = max(fixed, key=lambda workers: fixed[workers])
    with started(folder, "auto") as service:
        seen = stretches(spec, service.target, step, auto_seconds, STRETCH)
    last = statistics.mean(rate for at, rate, _ in seen if at > auto_seconds * 2 / 3)
    reached = next((at for at, rate, _ in seen if rate >= ENOUGH * fixed[best]), None)
    return {"fixed": fixed, "best": best, "auto": last, "ratio": last / fixed[best], "reached_seconds": reached,
            "workers": [workers for _, _, workers in seen]}


def print_row(name, row):
    fixed = ", ".join(f"{workers}: {rate:.0f}" for workers, rate in row["fixed"].items())
    soon = "never" if row["reached_seconds"] is None else f"after {row['reached_seconds']:.0f} s"
    print(f"{name:8} fixed {fixed} samples/s; auto {row['auto']:.0f} = {row['ratio']:.2f} of {row['best']} workers, "
          f"{ENOUGH} reached {soon}; workers {' '.join(map(str, row['workers']))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--auto-seconds", type=float, default=90)
    parser.add_argument("--only", default="light,heavy,slow,waiting,bound")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {"machine": machine(), "pipelines": {}}
    if not options.json:
        print(result["machine"])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        draw_photos(folder / "photos", 400, "--size", "320x240")
        (folder / "stages.py").write_text(PYTHON)
        for pipeline in options.only.split(","):
            row = result["pipelines"][pipeline] = measure(folder, pipeline, options.seconds, options.auto_seconds)
            if not options.json:
                print_row(pipeline, row)
    if options.json:
        print(json.dumps(result))
    missed = [name for name, row in result["pipelines"].items()
              if row["ratio"] < ENOUGH or row["reached_seconds"] is None or row["reached_seconds"] > SOON]
    if missed:
        sys.exit(f"auto comes to less than {ENOUGH} of the best fixed number within {SOON:g} s: {', '.join(missed)}")


if __name__ == "__main__":
    main()
