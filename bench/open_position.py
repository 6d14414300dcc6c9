#!/usr/bin/python3
"""How long it takes to open a stream in the middle of a data set of 100 million records, and what memory that costs.

    bench/open_position.py [--records N] [--opens N] [--folder DIR] [--json]

Writes a TFRecord file of that many (equal, small) records, lets a service index it once, then opens streams at random
positions, in `global`, `block` and `interleave` order. opened: from the call to the service's answer that the stream is
ready, connecting included. first batch: from the call to 32 samples in the trainer. memory: anonymous
memory of supervisor and workers at the end; the mapped index, whose pages the kernel may drop, is not in it.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time

from box_records import field, framed
from growth import anonymous_bytes
from support import Service, machine

import bulkhead

ORDERS = {
    "global": {"global": {}},
    "block": {"block": {"block_size": 1024}},
    "interleave": {"interleave": {"cycle_length": 4}},
}


def write_records(path, count):
    example = field(1, field(1, field(1, b"label") + field(2, field(3, field(1, b"\x07")))))  # {label: 7}
    [one], many = framed([example]), 1 << 16
    with open(path, "wb") as file:
        for done in range(0, count, many):
            file.write(one * min(many, count - done))
            if sys.stderr.isatty():
                sys.stderr.write(f"\rwriting {done / count:4.0%}")
    sys.stderr.write("\n" if sys.stderr.isatty() else "")


def spec(path, order):
    return {
        "source": {"tfrecord": {"files": str(path)}},
        "features": {"label": {"int64": {}}},
        "batch": {"size": 32},
        "order": order,
    }


def measure(target, path, order, opens, rng):
    def show(progress):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{progress.activity}: {progress.records:,} records  ")

    with bulkhead.Loader(spec(path, order), target, progress=show) as loader:
        cursor = loader.state_dict()
    samples = cursor["samples_per_epoch"]
    opened, first = [], []
    for _ in range(opens):
        at = {**cursor, "epoch": rng.randrange(5), "consumed": rng.randrange(samples - 64)}
        begin = time.perf_counter()
        with bulkhead.Loader(spec(path, order), target, cursor=at) as loader:
            opened.append(time.perf_counter() - begin)
            batch = loader.next_batch()
            first.append(time.perf_counter() - begin)
            assert batch.positions.start == at["consumed"] and (batch["label"] == 7).all()
    return {
        "opened_ms": {"p50": statistics.median(opened) * 1e3, "max": max(opened) * 1e3},
        "first_batch_ms": {"p50": statistics.median(first) * 1e3, "max": max(first) * 1e3},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--opens", type=int, default=20, help="of each order")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where 5 GB fit; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = pathlib.Path(folder) / "records.tfrecord"
        write_records(path, arguments.records)
        with Service(folder, "--root", folder, "--workers", 2) as service:
            target = service.target
            orders = {name: measure(target, path, order, arguments.opens, rng) for name, order in ORDERS.items()}
            status = bulkhead.service_status(target)
            memory = {"supervisor": anonymous_bytes(service.process.pid)}
            memory["largest worker"] = max(anonymous_bytes(worker["pid"]) for worker in status["workers"])
        report = {
            "machine": machine(),
            "command": " ".join(sys.argv),
            "records": arguments.records,
            "index_bytes": sum(file.stat().st_size for file in pathlib.Path(folder, "cache").glob("*.index")),
            "orders": orders,
            "memory_bytes": memory,
        }
    if arguments.json:
        print(json.dumps(report))
        return
    print(f"{report['machine']}; {report['records']:,} records, index of {report['index_bytes'] / 1e6:,.0f} MB")
    for name, order in orders.items():
        print(f"{name:11}  opened p50 {order['opened_ms']['p50']:6.1f} ms, max {order['opened_ms']['max']:6.1f} ms;  "
              f"first batch p50 {order['first_batch_ms']['p50']:6.1f} ms, max {order['first_batch_ms']['max']:6.1f} ms")
    print("memory: " + ", ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in memory.items()))


if __name__ == "__main__":
    main()
