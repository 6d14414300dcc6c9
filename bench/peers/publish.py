#!/usr/bin/python3
"""Writes what bench/peers/run.py measured to where people read it.

    bench/peers/run.py FOLDER --json FILE
    bench/peers/publish.py FILE [--about WORDS] [--caches]

FILE: of run.py. It becomes bench/results/peers.csv, the table of docs/benchmarks.md between the lines "peers", and the chart;
with --caches the table between the lines "caches", of A in later epochs on one core.
WORDS: the photos, such as "400 ImageNet photos (mean 0.202 MP)".
"""

import argparse
import csv
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CSV = ROOT / "bench/results/peers.csv"
PAGE = ROOT / "docs/benchmarks.md"
MARKS = ("<!-- peers: written by bench/peers/publish.py -->", "<!-- peers end -->")
CACHE_MARKS = ("<!-- caches: written by bench/peers/publish.py --caches -->", "<!-- caches end -->")
REQUIREMENTS = ROOT / "bench/peers/requirements"

# The name of each way, and of the package whose version stands behind it: requirements file, package.
NAMES = {
    "bulkhead": ("Bulkhead, a single epoch", None),
    "bulkhead-later-epochs": ("Bulkhead, later epochs", None),
    "bulkhead-grpc": ("Bulkhead, gRPC", None),
    "tfdata": ("tf.data", ("tensorflow", "tensorflow-cpu")),
    "tfdata-service": ("tf.data service", ("tensorflow", "tensorflow-cpu")),
    "dali": ("DALI (CPU)", ("dali", "nvidia-dali-cuda120")),
    "grain": ("Grain", ("grain", "grain")),
    "torch": ("PyTorch", ("torch", "torch")),
    "torch-pil": ("PyTorch (Pillow)", ("torch", "torch")),
    "litdata": ("LitData", ("litdata", "litdata")),
    "webdataset": ("WebDataset", ("webdataset", "webdataset")),
    "streaming": ("Streaming", ("streaming", "mosaicml-streaming")),
    "spdl": ("SPDL", ("spdl", "spdl")),
}
KEPT = {
    "bulkhead-later-epochs": "coefficients, by default",
    "bulkhead-cache-stage": "decoded photos, by the stage `cache`",
    "tfdata-cache-memory": "decoded photos, by `Dataset.cache()`",
    "tfdata-cache-disk": "decoded photos, by `Dataset.cache(file)`",
    "tfdata": "nothing",
}
PIPELINES = {"A": "A: crop, flip, uint8", "B": "B: the same, float32 NCHW", "C": "C: TFRecord, resize 224",
             "python": "A and a Python function"}


def name_of(way):
    name, package = NAMES.get(way) or ("tf.data", NAMES["tfdata"][1])
    if package is None:
        return name
    wanted = (REQUIREMENTS / f"{package[0]}.txt").read_text()
    (version,) = re.findall(rf"^{re.escape(package[1])}==(\S+)", wanted, re.MULTILINE)
    return f"{name} {re.match(r'[0-9]+[.][0-9]+', version)[0]}"


class Run:
    def __init__(self, told):
        self.told = told
        self.ways = [way for way in NAMES if any(way in group["ways"] for group in told["groups"])]

    def median(self, way, pipeline, cores, key):
        """None where the way does not have the pipeline."""
        found = [group["ways"][way][key] for group in self.told["groups"]
                 if (group["workload"], group["cores"]) == (pipeline, cores) and way in group["ways"]]
        return statistics.median(found) if found else None

    def limit(self):
        return statistics.median(group["decode_limit"] for group in self.told["groups"])


def table(run, about, command):
    yield MARKS[0]
    yield ""
    yield (f"Images per second on one core and on two, medians of {max(g['round'] for g in run.told['groups'])} rounds in turns, through each loader's Python interface."
           f" Measured on {datetime.date.today()} on {run.told['machine']}, with {about}: `{command}`."
           f" libjpeg-turbo alone decodes the same files fully at {run.limit():,.0f} images/s on one core.")
    yield ""
    yield "| | " + " | ".join(PIPELINES.values()) + " | memory of all processes (A) | CPU seconds of the trainer for 1,000 images (A) |"
    yield "|---" * (len(PIPELINES) + 3) + "|"
    for way in run.ways:
        rates = (" · ".join(f"{rate:,.0f}" for cores in (1, 2) if (rate := run.median(way, pipeline, cores, "images_per_second")))
                 for pipeline in PIPELINES)
        memory = " · ".join(f"{run.median(way, 'A', cores, 'memory_pss_bytes') / (1 << 20):,.0f}" for cores in (1, 2))
        cpu = run.median(way, "A", 1, "trainer_cpu_seconds_per_1000")
        yield f"| {name_of(way)} | " + " | ".join(rates) + f" | {memory} MiB | {cpu:.3g} |"
    yield ""
    yield MARKS[1]


def caches_table(run, about, command):
    yield CACHE_MARKS[0]
    yield ""
    yield (f"Later epochs of A on one core, medians of {max(g['round'] for g in run.told['groups'])} rounds in turns: what each loader may keep of the first epoch."
           f" Measured on {datetime.date.today()} on {run.told['machine']}, with {about}: `{command}`. Disk: all that the loader wrote;"
           " the page cache holds it beside the memory of the processes.")
    yield ""
    yield "| | keeps | images/s | of libjpeg-turbo's full decode | memory of all processes | on disk | CPU seconds of the trainer for 1,000 images |"
    yield "|---" * 7 + "|"
    for way, keeps in KEPT.items():
        groups = [group for group in run.told["groups"] if way in group["ways"]]
        if not groups:
            continue
        ratio = statistics.median(group["ways"][way]["images_per_second"] / group["decode_limit"] for group in groups)
        rate, memory, disk, cpu = (run.median(way, "A", 1, key) for key in (
            "images_per_second", "memory_pss_bytes", "disk_bytes", "trainer_cpu_seconds_per_1000"))
        name = "Bulkhead" if way.startswith("bulkhead") else name_of(way)
        yield f"| {name} | {keeps} | {rate:,.0f} | {ratio:.2f} × | {memory / (1 << 20):,.0f} MiB | {disk / (1 << 20):,.0f} MiB | {cpu:.3g} |"
    yield ""
    yield CACHE_MARKS[1]


def write_csv(run, about):
    with CSV.open("w", newline="") as file:
        file.write(f"# Images per second of Bulkhead and other loaders, medians; docs/benchmarks.md says more. Written by bench/peers/publish.py.\n"
                   f"# {datetime.date.today()}, {run.told['machine']}; {about}\n")
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("loader", "pipeline", "one_core", "two_cores"))
        for way in run.ways:
            for pipeline in PIPELINES:
                rates = [run.median(way, pipeline, cores, "images_per_second") for cores in (1, 2)]
                if None not in rates:
                    lines.writerow((name_of(way), pipeline, *(round(rate) for rate in rates)))
        lines.writerow(("libjpeg-turbo", "decode", round(run.limit()), ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--about", default="JPEG photos", metavar="WORDS")
    parser.add_argument("--caches", action="store_true")
    arguments = parser.parse_args()
    told = json.loads(pathlib.Path(arguments.file).read_text())
    run = Run(told)
    options = re.sub(r" --json \S+", "", re.sub(r"^\S+ \S+", "", told["command"]))
    marks, rows = (CACHE_MARKS, caches_table) if arguments.caches else (MARKS, table)
    page = PAGE.read_text()
    if not all(mark in page for mark in marks):
        sys.exit(f"{PAGE} does not have the lines {marks[0]} and {marks[1]}")
    before, rest = page.split(marks[0])
    after = rest.split(marks[1])[1]
    PAGE.write_text(before + "\n".join(rows(run, arguments.about, f"bench/peers/run.py FOLDER{options}")) + after)
    if not arguments.caches:
        write_csv(run, arguments.about)
        subprocess.run([ROOT / "bench/chart.py"], check=True)


if __name__ == "__main__":
    main()
