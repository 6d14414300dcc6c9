#!/usr/bin/python3
"""Epochs over data that fit into the machine's memory, but not into a worker's quota: do later ones come from memory?

    bench/page_cache.py FOLDER [--copies N] [--epochs N] [--quota SIZE]        FOLDER: JPEG files, at any depth

Copies the photos N times as files of their own, empties the page cache of them, and reads epochs of workload A (random crops of
224, no coefficients) by one worker of one thread; then the same with coefficients, made ahead, whose files are read in place of the
photos, and by one more service that finds them as the last one left them. Of each epoch: images a second, and what the service
and its workers read from the disk. With BULKHEAD_BIN_DIR=FOLDER other programs do it. Where workers cannot have cgroups there is nothing to see.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from support import ROOT, Service, descendants, machine, run_json
from workloads import STAGES, images_of

sys.path.insert(0, str(ROOT / "client/python"))
import bulkhead  # noqa: E402

BATCH = 64


def copy_photos(photos, folder, copies):
    for number in range(copies):
        (folder / str(number)).mkdir(parents=True)
        for place, path in enumerate(images_of(photos)):
            shutil.copyfile(path, folder / f"{number}/{place:05}.jpg")


def forget(folder):
    """Empties the page cache of all files of the folder."""
    for path in images_of(folder):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def read_from_disk(pids):
    counts = (pathlib.Path(f"/proc/{pid}/io").read_text() for pid in pids)
    return sum(int(re.search(r"^read_bytes: (\d+)$", text, re.MULTILINE)[1]) for text in counts)


def tell_epochs(title, spec, folder, samples, epochs, *options):
    with Service(folder, "--root", "/", "--workers", 1, "--threads", 1, *options) as service, \
            bulkhead.Loader(str(spec), service.target) as loader:
        batches = iter(loader.stream())
        before = read_from_disk(descendants(service.process.pid))
        for epoch in range(1, epochs + 1):
            begin = time.monotonic()
            for _ in range(samples // BATCH):
                next(batches)
            rate = samples / (time.monotonic() - begin)
            now = read_from_disk(descendants(service.process.pid))
            print(f"{title}, epoch {epoch}: {rate:6.0f} images/s, {(now - before) / 1e6:6.0f} MB from the disk", flush=True)
            before = now


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--copies", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quota", default="256MiB", help="of the worker (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        photos, cache, spec = folder / "photos", folder / "cache", folder / "spec.json"
        copy_photos(arguments.folder, photos, arguments.copies)
        cache.mkdir(mode=0o700)
        paths = images_of(photos)
        samples = len(paths) // BATCH * BATCH
        spec.write_text(json.dumps({
            "source": {"image_folder": {"path": str(photos), "unlabeled": True}}, "stages": STAGES["A"], "outputs": ["image"],
            "batch": {"size": BATCH}, "order": "global",
        }))
        print(f"{machine()}; {len(paths)} files of {sum(path.stat().st_size for path in paths) / 1e6:.0f} MB; worker's quota "
              f"{arguments.quota}; {' '.join(sys.argv)}")
        quota = ("--worker-quota", arguments.quota)
        forget(photos)
        tell_epochs("photos", spec, folder, samples, arguments.epochs, *quota, "--coefficient-cache-bytes", 0)
        run_json("index", spec, "--coefficients", "--workers", 1, "--json", "--cache-dir", cache)
        forget(cache)
        forget(photos)
        for title in ("coefficients", "coefficients, the next service"):
            tell_epochs(title, spec, folder, samples, arguments.epochs, *quota, "--coefficient-cache-bytes", "16GiB")


if __name__ == "__main__":
    main()
