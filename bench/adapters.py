#!/usr/bin/python3
"""What a batch costs the trainer through each adapter, compared with the bare Loader in the same environment.

    bench/adapters.py [--seconds S] [--rounds N] [--json] [torch|tf|jax]…
    bench/adapters.py --growth BATCHES [--json] [torch|tf|jax]…

Needs the environments that scripts/frameworks.sh makes. Each way runs in a process of its own, in turns, against a
service of its own: batches of 9.6 MB (64 × 37,632 float32, written by one_hot) over shared memory, which the loop only
takes.

    bare              bulkhead.Loader
    torch             bulkhead.torch.Dataset
    tf                bulkhead.tf.Loader, its stream() read eagerly
    tf-copy           the same with copy=True
    keras             bulkhead.keras.PyDataset, read by index: copies
    jax               bulkhead.jax.Loader

CPU: user and system time of the trainer's process for each batch. time: wall time for each batch, which the workers
bound as well. growth: of the trainer's process over so many batches of 64 rows of 1,024 float32, resident and in use as
bench/python_client.py has them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import growth
from support import ROOT, Service, machine

SPEC = {
    "source": {"range": {"size": 37_632}},
    "stages": [{"one_hot": {"input": "index", "classes": 37_632}}],
    "batch": {"size": 64},
}
WAYS = {"torch": ["bare", "torch"], "tf": ["bare", "tf", "tf-copy", "keras"], "jax": ["bare", "jax"]}
WARM_UP_BATCHES = 20


def elements(way, spec, target):
    """A loader and an endless iterator of what it gives."""
    if way == "bare":
        import bulkhead

        loader = bulkhead.Loader(spec, target)
        return loader, loader.stream()
    if way == "torch":
        import bulkhead.torch

        loader = bulkhead.torch.Dataset(spec, target)
        return loader, loader.stream()
    if way == "jax":
        import bulkhead.jax

        loader = bulkhead.jax.Loader(spec, target)
        return loader, loader.stream()
    if way == "keras":
        import bulkhead.keras

        loader = bulkhead.keras.PyDataset(spec, target, structure=("index",), endless=True)
        return loader, iter(loader)
    import bulkhead.tf

    loader = bulkhead.tf.Loader(spec, target, copy=way == "tf-copy")
    return loader, iter(loader.stream())


def cost_of(batches, seconds):
    for _ in range(WARM_UP_BATCHES):
        next(batches)
    count, begin, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        next(batches)
        count += 1
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return {"cpu_ms": 1000 * cpu / count, "time_ms": 1000 * wall / count}


def at_a_service(way, spec, measure):
    with tempfile.TemporaryDirectory() as folder, Service(folder, "--workers", 1) as service:
        loader, batches = elements(way, spec, service.target)
        measured = measure(batches)
        loader.close()
        return measured


def run(environment, way, *options):
    python = ROOT / "build/frameworks" / environment / "bin/python"
    if not python.exists():
        sys.exit(f"there is no {python}: call scripts/frameworks.sh {environment} first")
    output = subprocess.run(
        [python, __file__, "--way", way, *map(str, options)],
        check=True, stdout=subprocess.PIPE, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    ).stdout
    return json.loads(output.splitlines()[-1])


def costs(environment, arguments):
    rounds = [
        {way: run(environment, way, "--seconds", arguments.seconds) for way in WAYS[environment]}
        for _ in range(arguments.rounds)
    ]
    for way in WAYS[environment]:
        row = {"environment": environment, "way": way}
        for key in ("cpu_ms", "time_ms"):
            row[key] = statistics.median(r[way][key] for r in rounds)
            row[f"{key}_ratio"] = statistics.median(r[way][key] / r["bare"][key] for r in rounds)
        yield row


def growths(environment, arguments):
    for way in WAYS[environment]:
        yield {"environment": environment, "way": way, **run(environment, way, "--growth", arguments.growth)}


def print_costs(arguments, report):
    print(f"{machine()}; medians of {arguments.rounds} rounds of {arguments.seconds:g} s")
    print(f"{'':6} {'':8} {'CPU ms':>7} {'of bare':>7} {'time ms':>8} {'of bare':>7}   a batch of 9.6 MB")
    for row in report:
        print(
            f"{row['environment']:6} {row['way']:8} {row['cpu_ms']:7.3f} {row['cpu_ms_ratio']:7.2f}"
            f" {row['time_ms']:8.3f} {row['time_ms_ratio']:7.2f}"
        )


def print_growths(arguments, report):
    print(machine())
    for row in report:
        for kind in ("resident", "in_use"):
            print(f"{row['environment']:6} {row['way']:8} {kind:8} {growth.growth_text(row[kind], arguments.growth)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", metavar="torch|tf|jax")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--growth", type=int, metavar="BATCHES")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way and arguments.growth:
        measured = at_a_service(arguments.way, growth.SPEC, lambda batches: growth.growth_over(batches, arguments.growth))
        print(json.dumps(measured))
        return
    if arguments.way:
        print(json.dumps(at_a_service(arguments.way, SPEC, lambda batches: cost_of(batches, arguments.seconds))))
        return
    rows = growths if arguments.growth else costs
    report = []
    for environment in arguments.environments or WAYS:
        if environment not in WAYS:
            parser.error(f"there is no '{environment}'; there are {', '.join(WAYS)}")
        report += rows(environment, arguments)
    if arguments.json:
        print(json.dumps({"machine": machine(), "command": " ".join(sys.argv), "ways": report}))
    elif arguments.growth:
        print_growths(arguments, report)
    else:
        print_costs(arguments, report)


if __name__ == "__main__":
    main()
