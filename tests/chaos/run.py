#!/usr/bin/python3
"""Makes faults while trainers train, and checks that no batch was lost, repeated, reordered or changed.

    tests/chaos/run.py --faults 40                       both clients, over shared memory, gRPC and from three replicas
    tests/chaos/run.py --faults 1000 --client python --transport shm --seed 7

Each run draws its faults from its seed: kills and stops of workers at every moment of a lease and of the service,
connections cut, delayed and half open, trainers slow, stopped and vanished; of three replicas, a fault meets one, or
all, or the receiver before a Python trainer. Every batch that the trainer consumed is recorded with its positions and a digest of its bytes; afterwards an
undisturbed service delivers as many, and the two histories must be equal. A failure prints the seed.
"""

import argparse
import collections
import json
import mmap
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults  # noqa: E402
import history  # noqa: E402
from processes import BIN, Service, Trainer  # noqa: E402
from proxy import Proxy  # noqa: E402

# Longer than every fault and its healing; a silent hang is longer.
PATIENCE_S = 90
# What an opening that a fault meets may say.
NOT_REACHED = {"SERVICE_UNAVAILABLE", "SERVICE_SILENT", "TRANSPORT_UNAVAILABLE"}

SPEC = {
    "source": {"tfrecord": {"files": "*.tfrecord"}},
    "features": {"image": {"bytes": {}}, "label": {"int64": {}}},
    "stages": [
        "decode_image",
        {"random_resized_crop": {"size": [32, 32]}},
        "random_horizontal_flip",
        {"normalize": {"divide": 127.5, "subtract": 1}},
    ],
    "batch": {"size": 24},
    "order": {"global": {}},
    "seed": 3,
}


TRANSPORTS = ["grpc", "shm", "replicas"]
REPLICAS = 3  # of `--transport replicas`


class Replica:
    """A service behind a proxy; its workers fail as `armed` says."""

    def __init__(self, folder, data):
        folder.mkdir(parents=True)
        armed = folder / "armed"
        armed.write_bytes(bytes(6))
        with armed.open("r+b") as file:
            self.armed = mmap.mmap(file.fileno(), 6)
        self.service = Service(folder, folder / "service.sock", data, armed)
        self.proxy = Proxy(folder / "proxy.sock", folder / "service.sock")


class Run:
    """One trainer under fire. `service`, `proxy` and `armed` are those of the replica that the next fault meets."""

    def __init__(self, folder, data, client, transport, seed):
        self.client, self.transport = client, transport
        # The C++ client takes gRPC from several replicas.
        self.receiver = client == "python" and transport == "replicas"
        self.random = random.Random(f"{client} {transport} {seed}")
        self.spec = data / "spec.json"
        folder.mkdir(parents=True)
        self.history, self.problems = [], []
        self._folder = folder
        self._log = (folder / "trainer.log").open("ab")
        self.replicas = [
            Replica(folder / f"replica{number}", data) for number in range(REPLICAS if transport == "replicas" else 1)
        ]
        self.transports = collections.Counter()
        self.aim()
        self.start_trainer()

    def aim(self):
        """Chooses the replica that the next fault meets."""
        replica = self.random.choice(self.replicas)
        self.service, self.proxy, self.armed = replica.service, replica.proxy, replica.armed

    def start_trainer(self, pause_ms=None):
        self._opened_with = len(self.history)
        target = ",".join(f"unix:{replica.proxy.path}" for replica in self.replicas)
        self.trainer = Trainer(
            self.client, self.spec, target, "chaos", 1 << 60, "auto" if self.receiver else "shm" if self.transport == "shm" else "grpc",
            self.random.choice([0, 2, 10]) if pause_ms is None else pause_ms,
            self.history[-1]["cursor"] if self.history else None, self._on_line, self._log,
        )

    def _on_line(self, line):
        if "digest" in line:
            self.transports[line["transport"]] += 1
            self.history.append(line)
        else:
            self.problems.append(line)

    def start_again_if_refused(self):
        """A loader's first opening is not healed: a fault that meets it ends the trainer, and whoever runs it
        starts it again."""
        refused = self.trainer.ended() and len(self.history) == self._opened_with
        if refused and len(self.problems) == 1 and self.problems[0].get("error") in NOT_REACHED:
            self.problems.clear()
            self.start_trainer()
            return True
        return False

    def wait_until(self, condition, otherwise):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            ended = self.trainer.ended()
            if ended:
                self.trainer.wait()  # for its last words
                ended = not self.start_again_if_refused()
            if ended or any("changed" in line for line in self.problems):
                raise history.HistoryError(f"the trainer ended or complained: {self.problems}")
            if time.monotonic() > deadline:
                raise history.HistoryError(f"{otherwise} within {PATIENCE_S} s")
            time.sleep(0.002)

    def wait_for_batches(self, count):
        wanted = len(self.history) + count
        self.wait_until(lambda: len(self.history) >= wanted, "no batch came")

    def make_faults(self, count, progress):
        made = collections.Counter()
        gaps = collections.defaultdict(float)
        self.wait_for_batches(3)
        for number in range(count):
            self.aim()
            fault = faults.draw(self.random, receiver=self.receiver)
            progress(number, fault.__name__)
            begin = time.monotonic()
            fault(self)
            # Some faults meet a system that has not healed from the last one.
            if self.random.random() < 0.7:
                self.wait_for_batches(1)
                gaps[fault.__name__] = max(gaps[fault.__name__], time.monotonic() - begin)
            time.sleep(self.random.choice([0, 0.01, 0.05, 0.2]))
            made[fault.__name__] += 1
        self.wait_for_batches(3)
        return made, gaps

    def end(self):
        self.trainer.kill()
        self.start_again_if_refused()
        self.trainer.kill()
        for replica in self.replicas:
            replica.proxy.close()
            replica.service.stop()
        if self.problems:
            raise history.HistoryError(f"the trainer complained: {self.problems}")

    def check(self, data):
        """Against as many batches of a service that nobody disturbs."""
        folder = self._folder / "undisturbed"
        folder.mkdir()
        expected = []
        service = Service(folder, folder / "service.sock", data)
        trainer = Trainer(
            self.client, self.spec, f"unix:{service.socket}", "calm", len(self.history), "grpc", 0,
            None, expected.append, self._log,
        )
        code = trainer.wait()
        service.stop()
        if code != 0:
            raise RuntimeError(f"the undisturbed run failed; see {self._log.name}")
        history.check(self.history, expected)


def synthesize(folder):
    data = folder / "data"
    subprocess.run(
        [BIN / "bulkhead", "synth", data, "--count", "150", "--size", "96x64", "--seed", "7"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    records = next(data.rglob("*.tfrecord")).parent
    (records / "spec.json").write_text(json.dumps(SPEC))
    return records


def run_one(folder, data, client, transport, arguments):
    def progress(number, name):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{client} {transport}: {number + 1} of {arguments.faults} {name:40}")

    run = Run(folder, data, client, transport, arguments.seed)
    begin = time.monotonic()
    try:
        made, gaps = run.make_faults(arguments.faults, progress)
    finally:
        run.end()
    seconds = time.monotonic() - begin
    run.check(data)
    if sys.stderr.isatty():
        sys.stderr.write("\r" + 80 * " " + "\r")
    result = {
        "client": client, "transport": transport, "seed": arguments.seed, "faults": sum(made.values()),
        "batches": len(run.history), "lost": 0, "repeated": 0, "digests_equal": True,
        "seconds": round(seconds, 1), "longest_gap_s": round(max(gaps.values(), default=0), 3),
        "by_fault": dict(sorted(made.items())), "batches_by_transport": dict(run.transports),
    }
    return result


def report(result):
    print(
        f"{result['client']:6} {result['transport']:8}  {result['faults']} faults in {result['seconds']} s, "
        f"{result['batches']} batches: 0 lost, 0 repeated, digests equal; "
        f"longest gap {result['longest_gap_s']} s", flush=True,
    )
    for name, count in result["by_fault"].items():
        print(f"    {count:5}  {name.replace('_', ' ')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=40, help="of each combination")
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    parser.add_argument("--client", choices=["cpp", "python", "both"], default="both")
    parser.add_argument("--transport", choices=[*TRANSPORTS, "all"], default="all",
                        help="replicas: three services, over gRPC, for Python through bulkhead-receive")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each combination")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and histories")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(4), "little")
    clients = ["cpp", "python"] if arguments.client == "both" else [arguments.client]
    transports = TRANSPORTS if arguments.transport == "all" else [arguments.transport]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos-"))
    data = synthesize(folder)
    for client in clients:
        for transport in transports:
            try:
                result = run_one(folder / f"{client}-{transport}", data, client, transport, arguments)
            except (history.HistoryError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                print(
                    f"FAILED: {client} {transport}: {error}\n"
                    f"again: tests/chaos/run.py --client {client} --transport {transport} "
                    f"--faults {arguments.faults} --seed {arguments.seed}\nlogs: {folder}",
                    file=sys.stderr,
                )
                return 1
            print(json.dumps(result), flush=True) if arguments.json else report(result)
    if not arguments.keep:
        subprocess.run(["rm", "-rf", folder], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
