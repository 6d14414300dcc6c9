#!/usr/bin/python3
"""What containment costs where nothing leaks: photos -> random_resized_crop 224 -> flip -> uint8, batch 64, one worker
of one thread, in turns, each against a service of its own:

    bare          no quotas, no sandbox, no attribution, no planned replacements
    attribution   the same, but allocations are counted by stage
    contained     the defaults: all of it

    bench/containment.py FOLDER [--rounds N] [--epochs N] [--json]

FOLDER holds photos, with or without sub-folders. Ratios are to `bare` in the same round, and the median over the rounds
is what is printed first: of samples per second, which other programs on the machine move as well, and of the CPU time
that the worker took for a sample.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from support import BIN, Service, cpu_seconds, descendants, machine, run_json

BARE = ["--quota-enforcement", "off", "--sandbox", "none", "--recycle-growth", "false", "--recycle-slowdown", "0"]
MODES = {
    "bare": [*BARE, "--attribution", "off"],
    "attribution": [*BARE, "--attribution", "on"],
    "contained": [],
}


def worker_cpu(service):
    """CPU seconds of the service's decoding worker, the one with the most."""
    return max(map(cpu_seconds, descendants(service.process.pid)[1:]), default=0)


def measure(data, spec, mode):
    with tempfile.TemporaryDirectory() as folder:
        with Service(folder, "--root", data, "--workers", 1, "--threads", 1, *MODES[mode]) as service:
            result = run_json("bench", "run", "--spec", spec, "--target", service.target, "--no-digest", "--json")
            cpu = worker_cpu(service)
        return {"samples_per_second": result["samples_per_second"], "cpu_ms": 1000 * cpu / result["samples"]}


def write_spec(data, epochs, folder):
    """The spec that `bulkhead stream` makes of a folder of photos."""
    text = subprocess.run([BIN / "bulkhead", "stream", data, "--print-spec"], check=True, capture_output=True,
                          text=True).stdout
    lines = [f"epochs: {epochs}" if line.startswith("epochs:") else line for line in text.splitlines()]
    path = pathlib.Path(folder) / "spec.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = options.folder.resolve()
    runs = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        spec = write_spec(data, options.epochs, folder)
        for round_number in range(options.rounds):
            # The first of a round finds the machine as the last round left it.
            for mode in MODES if round_number % 2 == 0 else reversed(list(MODES)):
                runs[mode].append(measure(data, spec, mode))
    summary = {"machine": machine(), "data": str(data), "rounds": options.rounds,
               "command": " ".join(sys.argv)}
    for what in ("samples_per_second", "cpu_ms"):
        summary[what] = {}
        for mode in MODES:
            ratios = sorted(run[what] / bare[what] for run, bare in zip(runs[mode], runs["bare"]))
            median = statistics.median(run[what] for run in runs[mode])
            summary[what][mode] = {"median": median, "ratio": statistics.median(ratios), "ratios": ratios}
    if options.json:
        print(json.dumps({**summary, "runs": runs}))
        return
    print(f"machine  {summary['machine']}\ndata     {summary['data']}\ncommand  {summary['command']}")
    for what, name in (("samples_per_second", "samples/s"), ("cpu_ms", "CPU ms/sample")):
        print(name)
        for mode, figures in summary[what].items():
            lowest, highest = figures["ratios"][0], figures["ratios"][-1]
            print(f"    {mode:12} {figures['median']:9.3f}   {figures['ratio']:.4f} of bare"
                  f" ({lowest:.3f} to {highest:.3f})")


if __name__ == "__main__":
    main()
