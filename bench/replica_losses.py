#!/usr/bin/python3
"""How long a trainer waits for a batch when one of several replicas is killed, or restarted in order.

    bench/replica_losses.py [--data FOLDER] [--replicas N] [--losses L] [--way tls|loopback] [--json]

The replicas, of one worker each, are on hosts of their own: network namespaces, joined to the trainer's by links, over
mutual TLS; that needs root. Or they are on the loopback. One after the other is killed with SIGKILL, or ended with
SIGTERM as in a rolling restart, and started again at once, while the trainer takes batches as fast as they come. The next
loss comes a second after the new one serves.

A figure is the longest wait for a batch from a loss to the next, less the median wait without losses. Each history is
compared with that of an undisturbed run: the count of batches that were lost, repeated or changed is printed, and has to
be 0.

Photos are decoded, cropped by random_resized_crop to 224 x 224 and flipped, in batches of 64. Without --data 300 photos
are drawn by `bulkhead synth`.
"""

import argparse
import contextlib
import hashlib
import json
import logging
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

from support import ROOT, crop_spec, machine, photos_of

sys.path += [str(ROOT / "tests/fleet"), str(ROOT / "tests/e2e")]
from hosts import Host, enter_a_network_of_its_own, mutual_tls  # noqa: E402
from replicas import Replica, targets  # noqa: E402

import bulkhead  # noqa: E402

WARM_UP_BATCHES = 30
UNDISTURBED_SECONDS = 5.0
PAUSE_SECONDS = 1.0
WAYS = {"killed": Replica.kill, "restarted in order": Replica.end}


class Trainer:
    """Takes batches, and notes when each came and what was in it."""

    def __init__(self, loader):
        self._batches = loader.stream()
        self.history = []
        self.waits = []

    def take(self):
        began = time.monotonic()
        batch = next(self._batches)
        self.waits.append(time.monotonic() - began)
        self.history.append(hashlib.blake2b(batch["image"].tobytes()).digest() + repr(batch.positions).encode())

    def take_while(self, true):
        """The waits meanwhile, in seconds."""
        first = len(self.waits)
        while true():
            self.take()
        return self.waits[first:]


def waits_of(spec, replicas, lose, losses):
    """The usual wait, the longest one of each loss, in seconds; what the trainer got."""
    with bulkhead.Loader(spec, targets(replicas), timeout=120) as loader:
        trainer = Trainer(loader)
        for _ in range(WARM_UP_BATCHES):
            trainer.take()
        until = time.monotonic() + UNDISTURBED_SECONDS
        usual = statistics.median(trainer.take_while(lambda: time.monotonic() < until))
        longest = []
        for loss in range(losses):
            number = loss % len(replicas)

            def replace(number=number):
                lose(replicas[number])
                replicas[number] = replicas[number].again()
                time.sleep(PAUSE_SECONDS)

            replacing = threading.Thread(target=replace)
            replacing.start()
            longest.append(max(trainer.take_while(replacing.is_alive)))
    return usual, longest, trainer.history


def wrong_batches(spec, replica, history):
    """How many batches of `history` are not those that `replica` alone makes."""
    with bulkhead.Loader(spec, replica.target, timeout=120) as loader:
        alone = Trainer(loader)
        for _ in history:
            alone.take()
    return sum(one != other for one, other in zip(alone.history, history))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--losses", type=int, default=30)
    parser.add_argument("--way", choices=("tls", "loopback"), default="tls")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("bulkhead").setLevel(logging.ERROR)  # each loss is a warning
    with contextlib.ExitStack() as end:
        home = pathlib.Path(end.enter_context(tempfile.TemporaryDirectory()))
        data = photos_of(options.data, home)
        spec = crop_spec(data)
        places = [{} for _ in range(options.replicas)]
        if options.way == "tls":
            enter_a_network_of_its_own()
            hosts = [end.enter_context(contextlib.closing(Host(number + 1))) for number in range(options.replicas)]
            access, environment = mutual_tls(hosts, home)
            os.environ.update(environment)
            places = [{"address": host.address, "access": access, "command": host.command} for host in hosts]
        replicas = [
            Replica(home / f"replica{number}", "--root", data, "--threads", 1, **place)
            for number, place in enumerate(places)
        ]
        end.callback(lambda: [replica.end() for replica in replicas])
        report = {"machine": machine(), "data": str(data), "command": " ".join(sys.argv), "replicas": options.replicas,
                  "losses": options.losses, "ways": {}}
        for way, lose in WAYS.items():
            usual, longest, history = waits_of(spec, replicas, lose, options.losses)
            report["ways"][way] = {
                "usual_wait_ms": 1000 * usual,
                "beyond_it_ms": sorted(1000 * (each - usual) for each in longest),
                "batches": len(history),
                "wrong_batches": wrong_batches(spec, replicas[0], history),
            }
    if options.json:
        return print(json.dumps(report))
    print(f"machine  {report['machine']}\ndata     {report['data']}\ncommand  {report['command']}")
    for way, row in report["ways"].items():
        beyond = row["beyond_it_ms"]
        p99 = beyond[-(-99 * len(beyond) // 100) - 1]
        print(f"{way:18} p50 {statistics.median(beyond):.0f} ms, p99 {p99:.0f} ms, longest {beyond[-1]:.0f} ms beyond the usual "
              f"{row['usual_wait_ms']:.1f} ms; {row['batches']} batches, {row['wrong_batches']} wrong")


if __name__ == "__main__":
    main()
