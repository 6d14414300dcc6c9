#!/usr/bin/python3
"""Kills trainers at every step of their lives, and checks that the service has nothing left of them.

    tests/chaos/kill_clients.py --kills 1000

A trainer is killed with SIGKILL after a random time: while it starts, connects, waits, receives, holds batches. In the
end the service must have no stream, no arena, as many descriptors and threads as before (but for gRPC's own pools),
and a trainer that is left alone must get every batch.
"""

import argparse
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from processes import Service, Trainer  # noqa: E402
from run import synthesize  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client/python"))
import bulkhead  # noqa: E402


def descriptors(pid):
    """What the process has open, without event descriptors that gRPC pools."""
    kinds = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            kinds.append(os.readlink(link).partition(":")[0])
        except OSError:  # closed meanwhile
            pass
    return {"memfd": sum(kind.startswith("/memfd") for kind in kinds), "sockets": kinds.count("socket")}


def settle(service, wanted, seconds=20):
    """What is open once the service has noticed the last death."""
    deadline = time.monotonic() + seconds
    while True:
        found = descriptors(service.pid)
        streams = bulkhead.service_status(f"unix:{service.socket}")["streams"]
        if (not streams and wanted is not None and found == wanted) or time.monotonic() > deadline:
            return found, streams
        if wanted is None and not streams:
            return found, streams
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kills-"))
    data = synthesize(folder)
    service = Service(folder, folder / "s.sock", data)
    log = (folder / "trainer.log").open("ab")

    def start(client, transport, batches, on_line):
        return Trainer(client, data / "spec.json", f"unix:{service.socket}", f"k{rng.random()}", batches,
                       transport, 0, None, on_line, log)

    # The workers start, and gRPC makes its pools.
    start("cpp", "shm", 20, lambda line: None).wait()
    before, _ = settle(service, None)
    steps = {"before its first batch": 0, "later": 0}
    for number in range(arguments.kills):
        lines = []
        # C++ trainers connect within milliseconds; most of them, as they reach the later steps sooner.
        client = "python" if number % 20 == 19 else "cpp"
        trainer = start(client, rng.choice(["shm", "grpc"]), 1 << 60, lines.append)
        time.sleep(rng.uniform(0, 0.06 if client == "cpp" else 0.6))
        trainer.kill()
        steps["later" if lines else "before its first batch"] += 1
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{number + 1} of {arguments.kills}")
    if sys.stderr.isatty():
        sys.stderr.write("\r")
    after, streams = settle(service, before)
    history = []
    start("cpp", "shm", 50, history.append).wait()
    service.stop()
    print(f"{arguments.kills} kills ({steps}): open before {before}, after {after}; streams left: {len(streams)}; "
          f"a last trainer got {len(history)} of 50 batches")
    if after != before or streams or len(history) != 50 or any("digest" not in line for line in history):
        print(f"FAILED, seed {arguments.seed}; logs: {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
