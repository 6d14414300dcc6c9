#!/usr/bin/python3
"""What it costs that several replicas make one stream.

    bench/striping.py [--data FOLDER] [--replicas N] [--rounds R] [--seconds S] [--transport auto|grpc] [--json]

One service with N workers against N replicas with a worker each, in turns, all over TCP on the loopback: samples per
second, and CPU time for 1,000 samples: of the trainer, which only takes the batches, and of all: services, workers,
trainer and its bulkhead-receive. What a lost replica costs is in bench/replica_losses.py.

Photos are decoded, cropped by random_resized_crop to 224 x 224 and flipped, in batches of 64. Without --data 300 photos
are drawn by `bulkhead synth`.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

from support import Service, cpu_seconds, crop_spec, descendants, machine, photos_of

import bulkhead

WARM_UP_BATCHES = 30


def serve(home, root, workers):
    """A service on a port of the loopback."""
    home.mkdir()
    return Service(home, "--listen", "127.0.0.1:0", "--insecure-tcp", "--root", root, "--workers", workers, "--threads", 1)


def spent():
    """CPU seconds of this process, the trainer, and of all that live: it started them, and those that do nothing add nothing."""
    return time.process_time(), sum(map(cpu_seconds, descendants(os.getpid())))


def rate_of(spec, replicas, seconds, transport):
    """Samples per second, and CPU seconds for 1,000 samples: of the trainer, and of all."""
    target = [replica.target for replica in replicas]
    with bulkhead.Loader(spec, target, timeout=120, transport=transport) as loader:
        batches = loader.stream()
        for _ in range(WARM_UP_BATCHES):
            next(batches)
        began, before, samples = time.monotonic(), spent(), 0
        while time.monotonic() - began < seconds:
            samples += next(batches).valid_count
        took = time.monotonic() - began
        trainer, everything = (now - then for then, now in zip(before, spent()))
    return samples / took, 1000 * trainer / samples, 1000 * everything / samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--transport", choices=("auto", "grpc"), default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as end:
        home = pathlib.Path(end.enter_context(tempfile.TemporaryDirectory()))
        data = photos_of(options.data, home)
        spec = crop_spec(data)
        one = [serve(home / "one", data, options.replicas)]
        several = [serve(home / f"replica{number}", data, 1) for number in range(options.replicas)]
        for service in one + several:
            end.push(service)
        rates = {"one": [], "several": []}
        ways = [("one", one), ("several", several)]
        for _, replicas in ways:  # not measured: each replica has a cache of coefficients to fill
            rate_of(spec, replicas, 4 * options.seconds, options.transport)
        for _ in range(options.rounds):
            ways.reverse()
            for name, replicas in ways:
                rates[name].append(rate_of(spec, replicas, options.seconds, options.transport))
    median = {name: [statistics.median(column) for column in zip(*rounds)] for name, rounds in rates.items()}
    ratios = [several[0] / one[0] for one, several in zip(rates["one"], rates["several"])]
    report = {
        "machine": machine(), "data": str(data), "command": " ".join(sys.argv), "replicas": options.replicas,
        "samples_per_second": {name: each[0] for name, each in median.items()},
        "trainer_cpu_seconds_per_1000": {name: each[1] for name, each in median.items()},
        "cpu_seconds_per_1000": {name: each[2] for name, each in median.items()},
        "ratios": ratios,
    }
    if options.json:
        return print(json.dumps(report))
    print(f"machine  {report['machine']}\ndata     {report['data']}\ncommand  {report['command']}")
    for name, (rate, trainer, cpu) in median.items():
        who = "one service" if name == "one" else f"{options.replicas} replicas"
        print(f"{who:12} {rate:8.0f} samples/s   CPU s for 1,000 samples: trainer {trainer:.3f}, all {cpu:.3f}")
    costs = [several[2] / one[2] for one, several in zip(rates["one"], rates["several"])]
    print(f"CPU ratio    {statistics.median(costs):.3f}   of each round {' '.join(f'{each:.3f}' for each in costs)}")
    print(f"ratio        {statistics.median(ratios):.3f}   of each round {' '.join(f'{each:.3f}' for each in ratios)}")


if __name__ == "__main__":
    main()
