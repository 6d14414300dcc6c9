#!/usr/bin/python3
"""What the Python client costs a trainer.

    bench/python_client.py [--rounds N] [--batches N] [--photos N] [--json] [FOLDER]

import         seconds of `import bulkhead` in a fresh interpreter, and whether that loads grpc (median of the rounds)
first batch    seconds from Loader(…) without a target, which starts a service, to its first batch; and with the import
cpu            user and system time of the trainer's process for 1,000 photos of random_resized_crop 224 -> flip ->
               uint8, batch 64, by transport: it takes each batch and looks at nothing
growth         the trainer's RssAnon over --batches batches of 64 rows of 1,024 float32 (Theil-Sen slope in bytes a batch
               with its 95% bounds, behind the first two fifths), by transport; likewise what malloc has given out
               (mallinfo2), which tells a leak from memory that malloc keeps

FOLDER holds JPEG files, with sub-folders for classes or without; default: 1,000 synthetic ones. Each figure is taken in
processes of its own.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import growth
from support import Service, draw_photos, machine

WARM_UP_BATCHES = 30
TRANSPORTS = ["shm", "grpc"]


def photos(folder):
    import bulkhead

    classes = any(path.is_dir() for path in pathlib.Path(folder).iterdir())
    return (
        bulkhead.Pipeline.image_folder(folder, unlabeled=None if classes else True)
        .decode_image()
        .random_resized_crop(224)
        .random_horizontal_flip()
        .outputs("image")
        .batch(64)
        .order_global()
    )


def measure_import():
    begin = time.perf_counter()
    import bulkhead  # noqa: F401

    return {"seconds": time.perf_counter() - begin, "grpc_loaded": "grpc" in sys.modules}


def measure_first_batch(folder):
    imported = measure_import()["seconds"]
    import bulkhead

    pipeline = photos(folder)
    begin = time.perf_counter()
    with bulkhead.Loader(pipeline, workers=1, threads=1) as loader:
        loader.next_batch()
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "with_import": imported + seconds}


def measure_cpu(target, folder, transport, count):
    pipeline = photos(folder)
    import bulkhead

    with bulkhead.Loader(pipeline, target, transport=transport) as loader:
        stream = loader.stream()
        for _ in range(WARM_UP_BATCHES):
            next(stream)
        taken, begin = 0, time.process_time()
        while taken < count:
            taken += len(next(stream)["image"])
        return {"cpu_s_per_1000": (time.process_time() - begin) / taken * 1000, "photos": taken}


def measure_growth(target, transport, batches):
    import bulkhead

    with bulkhead.Loader(growth.SPEC, target, transport=transport) as loader:
        return growth.growth_over(loader.stream(), batches)


def in_a_process(*words):
    command = [sys.executable, __file__, "--measure", json.dumps(words)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def at_a_service(root, name, *words):
    """The measure of that name, with the target of a service as its first argument."""
    with tempfile.TemporaryDirectory() as folder:
        with Service(folder, "--root", root, "--workers", 1, "--threads", 1) as service:
            return in_a_process(name, service.target, *words)


MEASURES = {
    "import": measure_import,
    "first_batch": measure_first_batch,
    "cpu": measure_cpu,
    "growth": measure_growth,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--photos", type=int, default=6_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, *words = json.loads(arguments.measure)
        print(json.dumps(MEASURES[name](*words)))
        return
    with tempfile.TemporaryDirectory() as work:
        folder = arguments.folder
        if folder is None:
            draw_photos(f"{work}/synthetic", 1000)
            folder = f"{work}/synthetic/folder"
        folder = os.path.abspath(folder)
        rounds = range(arguments.rounds)
        imports = [in_a_process("import") for _ in rounds]
        firsts = [in_a_process("first_batch", folder) for _ in rounds]
        results = {
            "machine": machine(),
            "command": " ".join(sys.argv),
            "import_seconds": statistics.median(r["seconds"] for r in imports),
            "import_loads_grpc": any(r["grpc_loaded"] for r in imports),
            "first_batch_seconds": statistics.median(r["seconds"] for r in firsts),
            "first_batch_with_import_seconds": statistics.median(r["with_import"] for r in firsts),
            "cpu": {t: at_a_service(folder, "cpu", folder, t, arguments.photos) for t in TRANSPORTS},
            "growth": {t: at_a_service(folder, "growth", t, arguments.batches) for t in TRANSPORTS},
        }
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{results['machine']}; {results['command']}")
    loaded = "grpc loaded with it" if results["import_loads_grpc"] else "without grpc"
    print(f"import bulkhead             {results['import_seconds'] * 1000:.0f} ms, {loaded}")
    print(f"first batch, own service    {results['first_batch_seconds'] * 1000:.0f} ms"
          f" ({results['first_batch_with_import_seconds'] * 1000:.0f} with the import)")
    for transport, cpu in results["cpu"].items():
        print(f"CPU of 1,000 photos, {transport:5}  {cpu['cpu_s_per_1000']:.4f} s ({cpu['photos']} photos)")
    for transport, growths in results["growth"].items():
        for kind, grown in growths.items():
            print(f"growth, {transport:5} {kind:8}      {growth.growth_text(grown, arguments.batches)}")


if __name__ == "__main__":
    main()
