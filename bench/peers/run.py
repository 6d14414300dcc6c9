#!/usr/bin/python3
"""Bulkhead beside other loaders: images a second, memory, and CPU time of the trainer, each through its Python
interface.

    bench/peers/run.py FOLDER [--rounds N] [--seconds S] [--ways WAY …] [--workloads W …] [--cores N …]
                       [--json FILE]

FOLDER: JPEG files, at any depth, which should fit into the page cache: storage is not what is compared.

    A          random_resized_crop 224, random flip, bytes
    B          the same, normalized to float32 NCHW
    C          TFRecords, decode, resize 224
    detection  TFRecords with eight boxes an image, decode, random flip, resize 640, bytes and boxes; PyTorch and Grain read
               the JPEG files instead, and know the boxes
    python     A and then a Python function for each sample, which looks up every byte in a table

    bulkhead               over shared memory, in a single epoch: nothing is kept from one epoch to the next
    bulkhead-later-epochs  the same files again and again, the first epoch not measured; what is compared with the
                           fastest peer is not this
    bulkhead-grpc          over gRPC on a Unix socket
    tfdata                 tf.data in the trainer's process
    tfdata-service         a dispatcher and a worker of tf.data service
    torch, torch-pil       PyTorch's DataLoader; decoded by torchvision.io, or by Pillow
    dali                   DALI on the CPU
    grain                  Grain with OpenCV
    spdl                   SPDL
    webdataset, litdata, streaming    WebDataset, LitData and MosaicML Streaming, with torchvision as in torch

and, only when they are named, for A in later epochs:

    tfdata-cache-memory, tfdata-cache-disk    tf.data with decoded photos in Dataset.cache
    bulkhead-cache-stage   Bulkhead with decoded photos in its stage `cache`

Each loader is a program in bench/peers/loaders, whose first lines say how it is configured and why. It runs in an
environment of its own, build/peers/NAME, which is made at the first use (PyTorch's has 5 GB) of the versions in
bench/peers/requirements. A loader whose environment cannot be made is left out, with a line that says why. SPDL uses
FFmpeg's libraries of the system, versions 4 to 9 (Debian: libavdevice59). FFCV is not among them: its newest release,
of 2023, has to be compiled against the development files of OpenCV and libjpeg-turbo.

With --cores 1 all processes of a loader share one core, with 2 they share two; each has as many workers as cores.
Batches have 64 images; the trainer reads one number of each and drops it. All ways of a workload take turns in each
round, in every second one in the reverse order, as a machine's speed drifts, and just before them libjpeg-turbo alone
decodes the same files fully on one core, without a loader (`bulkhead bench decode-limit`). Told are medians over the
rounds, and the ratios to that limit within a round; at the end of each workload Bulkhead's ratio to the fastest peer of
the same round. Memory: the most PSS of all processes together that was seen, once every two seconds. First batch: from
the moment at which the loader is made, with all modules imported.

What a leak does to PyTorch's DataLoader and to Bulkhead in the same memory is the subject of bench/torch_leak.py.
"""

import argparse
import contextlib
import ctypes
import json
import math
import os
import pathlib
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import box_records  # noqa: E402
import environments  # noqa: E402
from support import descendants, machine, pss, run_json  # noqa: E402
from workloads import images_of  # noqa: E402

LOADERS = pathlib.Path(__file__).parent / "loaders"
WORKLOADS = ("A", "B", "C", "detection", "python")
FROM_FILES = ("A", "B", "python")
WITH_BOXES = ("A", "B", "detection", "python")
OF_RECORDS = {"C", "detection"}


class Way(NamedTuple):
    program: str
    environment: str
    workloads: tuple = FROM_FILES
    options: dict = {}
    writes: bool = False  # data in a format of its own, once


OURS = {"transport": "shm", "later_epochs": False, "keeps": ""}
LATER = {**OURS, "later_epochs": True}
WAYS = {
    "bulkhead": Way("bulkhead_client", "bulkhead", WORKLOADS, OURS),
    "bulkhead-later-epochs": Way("bulkhead_client", "bulkhead", WORKLOADS, LATER),
    "bulkhead-grpc": Way("bulkhead_client", "bulkhead", WORKLOADS, {**OURS, "transport": "grpc"}),
    "tfdata": Way("tfdata", "tensorflow", WORKLOADS, {"service": False, "keeps": ""}),
    # A Python function lives in the process that made it, so a service's worker cannot call it.
    "tfdata-service": Way("tfdata", "tensorflow", ("A", "B", "C", "detection"), {"service": True, "keeps": ""}),
    "torch": Way("pytorch", "torch", WITH_BOXES, options={"pil": False}),
    "torch-pil": Way("pytorch", "torch", options={"pil": True}),
    "dali": Way("dali", "dali", WORKLOADS),
    "grain": Way("grain_opencv", "grain", WITH_BOXES),
    "spdl": Way("spdl_threads", "spdl"),
    "webdataset": Way("webdataset_tars", "webdataset", writes=True),
    "litdata": Way("litdata_chunks", "litdata", writes=True),
    "streaming": Way("mosaic_streaming", "streaming", writes=True),
}
# What loaders keep from one epoch to the next; the others keep nothing.
CACHES = {
    "bulkhead-cache-stage": Way("bulkhead_client", "bulkhead", ("A",), {**LATER, "keeps": "disk"}),
    "tfdata-cache-memory": Way("tfdata", "tensorflow", ("A",), {"service": False, "keeps": "memory"}),
    "tfdata-cache-disk": Way("tfdata", "tensorflow", ("A",), {"service": False, "keeps": "disk"}),
}
ALL = {**WAYS, **CACHES}
LOOK_SECONDS = 2
START_SECONDS = 120  # until a loader that does not come to its measurement is given up
END_SECONDS = 10  # in which it ends by itself after it
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # a framework is compiled once, not at each start
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER


def kill_leftovers():
    """What a loader started and left behind: orphans become children of this process."""
    for pid in descendants(os.getpid())[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            pass


def disk_use(folder):
    used = 0
    for path in pathlib.Path(folder).rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            used += 512 * path.lstat().st_blocks
    return used


def run_loader(way, python, options, cores, home):
    """What the loader prints, with the memory of its processes; None, with a line that says why, if it fails."""
    pinned = ["taskset", "-c", ",".join(map(str, cores))]
    command = [*pinned, python, LOADERS / f"{ALL[way].program}.py", json.dumps({**options, **ALL[way].options})]
    memory = disk = 0
    limit = math.inf if options["prepare"] else START_SECONDS + options["warm_up"] + options["seconds"]
    end = time.monotonic() + limit
    with open(home / "stderr", "w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True,
                                   env={**ENVIRONMENT, "TMPDIR": str(home)})
        while not select.select([process.stdout], [], [], LOOK_SECONDS)[0] and time.monotonic() < end:
            memory = max(memory, sum(map(pss, descendants(process.pid))))
            disk = max(disk, disk_use(options["data"]))
        if time.monotonic() >= end:
            process.kill()
        line = process.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        kill_leftovers()
        said.seek(0)
        words = said.read().strip().splitlines()
    if options["prepare"] and process.returncode == 0:
        return {}
    if not line:
        reason = words[-1] if words else "without a word, or too slow"
        sys.stderr.write(f"{way}, {options['workload']}: failed: {reason}\n")
        return None
    return {**json.loads(line), "memory_pss_bytes": memory, "disk_bytes": disk}


def write_lists(photos, names, home):
    """The paths of all photos once, and so often that there are at least `names`; each time in another order."""
    once = [str(path.resolve()) for path in photos]
    draw, many = random.Random(1), []
    while len(many) < names:
        many += draw.sample(once, len(once))
    for name, paths in (("once", once), ("many", many)):
        (home / name).write_text("".join(f"{path}\n" for path in paths))


def write_records(workload, photos, folder, names, home):
    """The photos of `folder` as TFRecords, and so many links to these that there are at least `names` records."""
    records, many = home / f"{workload}-records", home / f"{workload}-many"
    if workload == "C":
        run_json("pack", folder, records, "--records", 100, "--json")
    else:
        records.mkdir()
        box_records.write(photos, records / "boxes.tfrecord")
    files = sorted(records.glob("*.tfrecord"))
    many.mkdir()
    for number in range(-(-names // len(photos))):
        for file in files:
            (many / f"{number:05}-{file.name}").hardlink_to(file)


def prepared(ways, home, options):
    """The Python of each way that can run, after it wrote the data that it needs."""
    pythons, made = {}, {}
    for way in ways:
        environment = ALL[way].environment
        if environment not in made:
            made[environment] = environments.prepare(environment)
        if made[environment] is None:
            sys.stderr.write(f"{way}: left out, since its environment cannot be made\n")
            continue
        pythons[way] = made[environment]
        (home / way).mkdir()
        if not ALL[way].writes:
            continue
        wanted = {**options, "data": str(home / way), "prepare": True, "workload": "A", "cores": 1}
        if run_loader(way, made[environment], wanted, sorted(os.sched_getaffinity(0)), home) is None:
            del pythons[way]
    return pythons


def measure(arguments, home):
    """[{workload, cores, round, limit, {way: what it printed}}]"""
    photos = images_of(pathlib.Path(arguments.folder))
    if not photos:
        sys.exit(f"{arguments.folder}: there are no files")
    write_lists(photos, arguments.names, home)
    for workload in OF_RECORDS.intersection(arguments.workloads):
        write_records(workload, photos, arguments.folder, arguments.names, home)
    options = {"list": str(home / "many"), "short_list": str(home / "once"), "warm_up": arguments.warm_up,
               "seconds": arguments.seconds}
    pythons = prepared(arguments.ways, home, options)
    usable = sorted(os.sched_getaffinity(0))
    groups = []
    for number in range(arguments.rounds):
        for cores in arguments.cores:
            for workload in arguments.workloads:
                os.sched_setaffinity(0, usable[:1])
                limit = run_json("bench", "decode-limit", arguments.folder, "--threads", 1, "--repeat", 2, "--json")
                os.sched_setaffinity(0, usable)
                found = {}
                for way in list(pythons)[:: -1 if number % 2 else 1]:
                    if workload not in ALL[way].workloads:
                        continue
                    if not ALL[way].writes:  # what a run before it has kept
                        shutil.rmtree(home / way)
                        (home / way).mkdir()
                    mine = {**options, "data": str(home / way), "prepare": False, "workload": workload, "cores": cores,
                            "records": str(home / f"{workload}-records/*.tfrecord"),
                            "many_records": str(home / f"{workload}-many/*.tfrecord")}
                    result = run_loader(way, pythons[way], mine, usable[:cores], home)
                    if result:
                        found[way] = result
                groups.append({"workload": workload, "cores": cores, "round": number + 1,
                               "decode_limit": limit["images_per_second"], "ways": found})
                sys.stderr.write(f"round {number + 1} of {arguments.rounds}: {workload} on {cores}\n")
    return groups


def spread(values):
    return f"{statistics.median(values):6.2f}  ({min(values):.2f} to {max(values):.2f})"


def best_peer(ways):
    return max((way for way in ways if not way.startswith("bulkhead")), key=lambda way: ways[way]["images_per_second"],
               default=None)


def tell(rounds):
    """The table of one workload on so many cores; `rounds`: its groups."""
    limit = statistics.median(group["decode_limit"] for group in rounds)
    print(f"\n{rounds[0]['workload']} on {rounds[0]['cores']}; libjpeg-turbo decodes {limit:.0f} images/s on one core")
    print(f"{'':22} {'images/s':>8}  {'of libjpeg-turbo':24} {'first batch':>11} {'memory':>9}"
          f" {'trainer CPU s/1,000':>20} {'on disk':>9}")
    for way in ALL:
        with_it = [group for group in rounds if way in group["ways"]]
        if not with_it:
            continue
        found = [group["ways"][way] for group in with_it]
        ratios = [one["images_per_second"] / group["decode_limit"] for one, group in zip(found, with_it)]
        rate, first, memory, cpu, disk = (statistics.median(one[key] for one in found) for key in (
            "images_per_second", "first_batch_seconds", "memory_pss_bytes", "trainer_cpu_seconds_per_1000", "disk_bytes"))
        print(f"{way:22} {rate:8.0f}  {spread(ratios):24} {first:9.2f} s {memory / (1 << 20):5.0f} MiB {cpu:20.3f}"
              f" {disk / (1 << 20):5.0f} MiB")
    for way in ("bulkhead", "bulkhead-grpc"):
        compared = [(group["ways"], best_peer(group["ways"])) for group in rounds if way in group["ways"]]
        compared = [(ways, peer) for ways, peer in compared if peer]
        if compared:
            ratios = [ways[way]["images_per_second"] / ways[peer]["images_per_second"] for ways, peer in compared]
            peers = ", ".join(sorted({peer for _, peer in compared}))
            print(f"{way} / fastest peer ({peers}): {spread(ratios).strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="that are measured of each run (6)")
    parser.add_argument("--warm-up", type=float, default=3, metavar="S",
                        help="seconds before them, after the first batch (3)")
    parser.add_argument("--names", type=int, default=100_000, metavar="N",
                        help="each file is met under so many names that there are at least N (100,000)")
    parser.add_argument("--ways", nargs="+", choices=ALL, default=list(WAYS), metavar="WAY")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="W")
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2], metavar="N")
    parser.add_argument("--json", metavar="FILE", help="where every run's figures are written, too")
    arguments = parser.parse_args()
    if max(arguments.cores) > len(os.sched_getaffinity(0)):
        parser.error(f"--cores: this process may use {len(os.sched_getaffinity(0))}")
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as home:
        try:
            groups = measure(arguments, pathlib.Path(home))
        finally:
            kill_leftovers()
    print(f"{machine()}; {arguments.rounds} rounds of {arguments.seconds:g} s; "
          f"bench/peers/run.py {' '.join(sys.argv[1:])}")
    for workload in arguments.workloads:
        for cores in arguments.cores:
            tell([group for group in groups if (group["workload"], group["cores"]) == (workload, cores)])
    if arguments.json:
        told = {"machine": machine(), "command": " ".join(sys.argv), "groups": groups}
        pathlib.Path(arguments.json).write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
