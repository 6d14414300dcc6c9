#!/usr/bin/python3
"""What it costs that several replicas make one stream, and how long a trainer waits when one of them is killed.

    bench/striping.py [--data FOLDER] [--replicas N] [--rounds R] [--seconds S] [--kills K] [--json]

cost: one service with N workers against N replicas with a worker each, in turns, all over TCP on the loopback: samples
per second, and CPU time of services, workers and trainer for 1,000 samples. The trainer only takes the batches.
recovery: N replicas; every second one of them is killed with SIGKILL and started again at once. The wait is the longest
one for a batch in that second, less the median of all waits.

Photos are decoded, cropped by random_resized_crop to 224 x 224 and flipped, in batches of 64. Without --data 300 photos
are drawn by `bulkhead synth`.
"""

import argparse
import contextlib
import json
import logging
import pathlib
import statistics
import sys
import tempfile
import time

from support import Service, cpu_seconds, crop_spec, descendants, draw_photos, machine

import bulkhead

WARM_UP_BATCHES = 30


class Replica(Service):
    """A service on a port of the loopback."""

    def __init__(self, home, root, workers, port=0):
        home.mkdir(exist_ok=True)
        self.given = (home, root, workers)
        super().__init__(home, "--listen", f"127.0.0.1:{port}", "--insecure-tcp", "--root", root, "--workers", workers,
                         "--threads", 1)

    def killed(self):
        """Another process at the same address, after this one was killed."""
        self.process.kill()
        self.process.wait()
        return Replica(*self.given, port=self.target.rpartition(":")[2])

    def cpu_seconds(self):
        """Of the service and its workers that live."""
        return sum(map(cpu_seconds, descendants(self.process.pid)))


def rate_of(spec, replicas, seconds):
    """Samples per second, and CPU seconds for 1,000 samples."""
    target = [replica.target for replica in replicas]
    with bulkhead.Loader(spec, target, timeout=120, transport="grpc") as loader:
        batches = loader.stream()
        for _ in range(WARM_UP_BATCHES):
            next(batches)
        began, cpu, samples = time.monotonic(), time.process_time() + sum(each.cpu_seconds() for each in replicas), 0
        while time.monotonic() - began < seconds:
            samples += next(batches).valid_count
        took = time.monotonic() - began
        cpu = time.process_time() + sum(each.cpu_seconds() for each in replicas) - cpu
    return samples / took, 1000 * cpu / samples


def waits_of(spec, replicas, kills):
    """The usual wait for a batch, and the longest one after each kill, in seconds."""
    waits, longest = [], []
    with bulkhead.Loader(spec, [each.target for each in replicas], timeout=120) as loader:
        batches = loader.stream()
        for _ in range(WARM_UP_BATCHES):
            next(batches)
        for kill in range(kills):
            number = kill % len(replicas)
            replicas[number] = replicas[number].killed()
            since, waited = time.monotonic(), []
            while time.monotonic() - since < 1.0:
                began = time.monotonic()
                next(batches)
                waited.append(time.monotonic() - began)
            waits += waited
            longest.append(max(waited))
        lost = loader.reconnects
    return statistics.median(waits), longest, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("bulkhead").setLevel(logging.ERROR)  # each kill is a warning
    with contextlib.ExitStack() as end:
        home = pathlib.Path(end.enter_context(tempfile.TemporaryDirectory()))
        data = options.data
        if data is None:
            data = home / "photos"
            draw_photos(data, 300, "--size", "500x375", "--seed", "1")
        data = data.resolve()
        spec = crop_spec(data)
        one = [Replica(home / "one", data, options.replicas)]
        several = [Replica(home / f"replica{number}", data, 1) for number in range(options.replicas)]
        for replica in one + several:
            end.push(replica)
        rates = {"one": [], "several": []}
        for _ in range(options.rounds):
            for name, replicas in (("one", one), ("several", several)):
                rates[name].append(rate_of(spec, replicas, options.seconds))
        usual, longest, lost = waits_of(spec, several, options.kills)
        for replica in several:
            end.push(replica)
    beyond = sorted(1000 * (each - usual) for each in longest)
    median = {name: [statistics.median(column) for column in zip(*rounds)] for name, rounds in rates.items()}
    ratios = [several[0] / one[0] for one, several in zip(rates["one"], rates["several"])]
    report = {
        "machine": machine(), "data": str(data), "command": " ".join(sys.argv), "replicas": options.replicas,
        "samples_per_second": {name: each[0] for name, each in median.items()},
        "cpu_seconds_per_1000": {name: each[1] for name, each in median.items()},
        "ratios": ratios, "usual_wait_ms": 1000 * usual,
        "recovery_ms": beyond, "reconnects": lost,
    }
    if options.json:
        return print(json.dumps(report))
    print(f"machine  {report['machine']}\ndata     {report['data']}\ncommand  {report['command']}")
    for name, (rate, cpu) in median.items():
        who = "one service" if name == "one" else f"{options.replicas} replicas"
        print(f"{who:12} {rate:8.0f} samples/s   {cpu:.3f} CPU s for 1,000 samples")
    costs = [several[1] / one[1] for one, several in zip(rates["one"], rates["several"])]
    print(f"CPU ratio    {statistics.median(costs):.3f}   of each round {' '.join(f'{each:.3f}' for each in costs)}")
    print(f"ratio        {statistics.median(ratios):.3f}   of each round {' '.join(f'{each:.3f}' for each in ratios)}")
    if beyond:
        print(f"recovery     p50 {statistics.median(beyond):.0f} ms, p90 {beyond[int(0.9 * (len(beyond) - 1))]:.0f} ms, longest {beyond[-1]:.0f} ms beyond the usual {1000 * usual:.1f} ms, "
              f"{options.kills} kills, {lost} noticed")


if __name__ == "__main__":
    main()
