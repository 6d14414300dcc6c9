"""Data in a bucket beside the same data in a folder, in one run.

    bench/objects.py FOLDER [--images] [--copies N] [--rounds N] [--rate MIB]

FOLDER holds photos, of which TFRecords of 32 MiB are made, or with --images folders of images, each an object. They are
read from the folder, and from a local server that speaks S3 and checks signatures (tests/e2e/object_server.py), in
interleaved rounds: random crops to 224 px by one worker pinned to one core, its trainer and the server on another. Prints for each round samples/s of the first and of the second
epoch, and at the end the medians, their ratios, and bytes fetched for each byte of data.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "client/python"), str(ROOT / "tests/e2e"), str(ROOT / "bench")]

import bulkhead  # noqa: E402
from object_server import ObjectServer  # noqa: E402

BIN = ROOT / "build/release/bin"
SPEC = """
{source}
stages:
  - decode_image: {{channels: 3}}
  - random_resized_crop: {{size: [224, 224]}}
batch: {{size: 64}}
order: {{{order}}}
seed: 1
epochs: 2
"""
RECORDS = """source: {{tfrecord: {{files: "{place}/*/*.tfrecord"}}}}
features: {{image: {{bytes: {{}}}}}}"""
IMAGES = """source: {{image_folder: {{path: "{place}"}}}}"""


def make_data(photos: pathlib.Path, data: pathlib.Path, copies: int, images: bool) -> int:
    """Makes the data set; gives its bytes."""
    for copy in range(copies):
        if images:
            shutil.copytree(photos, data / str(copy))
        else:
            subprocess.run([BIN / "bulkhead", "pack", photos, data / str(copy), "--file-size", "32MiB"],
                           check=True, stdout=subprocess.DEVNULL)
    return sum(file.stat().st_size for file in data.rglob("*") if file.is_file())


def epochs(spec: pathlib.Path, cache: pathlib.Path, block_cache: str) -> list[float]:
    """Samples/s of each epoch, of a service with an empty cache folder of its own."""
    socket = f"unix:{cache}.sock"
    command = [BIN / "bulkheadd", "--listen", socket, "--cache-dir", cache, "--workers", "1", "--log-level", "err",
               "--root", "/", "--root", "s3://bucket", "--block-cache-bytes", block_cache,
               "--coefficient-cache-bytes", "0", "--ready-fd", "1"]
    with subprocess.Popen(["taskset", "-c", "0", *map(str, command)], stdout=subprocess.PIPE, text=True) as service:
        try:
            service.stdout.readline()
            rates = []
            with bulkhead.Loader(spec, target=socket) as loader:
                for _ in range(2):
                    begin, count = time.perf_counter(), 0
                    for batch in loader:
                        count += len(batch["image"])
                    rates.append(count / (time.perf_counter() - begin))
            return rates
        finally:
            service.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--images", action="store_true", help="each image is an object")
    parser.add_argument("--copies", type=int, default=4, help="of the photos in the data set (default: 4)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--rate", type=float, help="of the server, in MiB/s (default: as fast as it can)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work_name:
        work = pathlib.Path(work_name)
        data = work / "store/bucket/train"
        size = make_data(arguments.folder, data, arguments.copies, arguments.images)
        cpu = next(line for line in open("/proc/cpuinfo") if line.startswith("model name")).split(": ")[1].strip()
        print(f"{cpu}, {os.cpu_count()} CPUs; {arguments.copies} x {arguments.folder}: {size / 2**20:.0f} MiB of "
              f"{'images' if arguments.images else 'TFRecords'}")
        print(f"{sys.argv[0]} {' '.join(sys.argv[1:])}\n")
        print("| order | data | block cache | first epoch | second epoch | bytes fetched for each of the data |")
        print("|---|---|---|---|---|---|")
        os.sched_setaffinity(0, {1})
        with ObjectServer(work / "store", rate=arguments.rate and arguments.rate * 2**20) as server:
            os.environ.update(server.environment())
            ways = [(order, where, cache) for order in ("global: {}", "block: {block_size: 64}")
                    for where, cache in (("folder", "0"), ("bucket", "8GiB"), ("bucket", "0"))]
            rates, fetched = {way: [] for way in ways}, {way: [] for way in ways}
            for number in range(arguments.rounds):
                for way in ways:
                    order, where, block_cache = way
                    spec, cache = work / "spec.yaml", work / f"cache-{number}-{order[:5]}-{where}-{block_cache}"
                    place = data if where == "folder" else "s3://bucket/train"
                    source = (IMAGES if arguments.images else RECORDS).format(place=place)
                    spec.write_text(SPEC.format(source=source, order=order))
                    before = server.bytes_sent("train")
                    rates[way].append(epochs(spec, cache, block_cache))
                    fetched[way].append((server.bytes_sent("train") - before) / size)
                    shutil.rmtree(cache)
            for way, its in rates.items():
                first, second = (statistics.median(rate[epoch] for rate in its) for epoch in (0, 1))
                local = [statistics.median(rate[epoch] for rate in rates[(way[0], "folder", "0")]) for epoch in (0, 1)]
                print(f"| `{way[0]}` | {way[1]} | {way[2]} | {first:.0f}/s ({first / local[0]:.2f}) | "
                      f"{second:.0f}/s ({second / local[1]:.2f}) | {statistics.median(fetched[way]):.2f} |")


if __name__ == "__main__":
    main()
