#!/usr/bin/python3
"""Later epochs whose coefficients lie on a disk of a limited rate: they must not make them slower than without.

    bench/slow_cache.py FOLDER [--rates MB …] [--rounds N]       FOLDER: JPEG files, at any depth

The coefficients of all photos are made ahead, and seek entries by some epochs. Then the files of coefficients are mounted
through FUSE, which reads so many MB a second and keeps nothing in memory; all else stays on the fast disk. Random crops of
224 (workload A), one worker of one thread; for each rate a service with coefficients and one without take turns, and the
median of the ratios within a round is told. Needs root, for it mounts, and python3-fusepy.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from support import ROOT, Service, machine, run_json
from workloads import STAGES, link_copies

COPIES = 4
EPOCHS = 6


@contextlib.contextmanager
def slow(files, folder, rate):
    """While it is entered, these files are read through a file system of `rate` bytes a second; they lie in `folder`/slow."""
    backing, place = folder / "slow", folder / "mount"
    place.mkdir(exist_ok=True)
    serving = subprocess.Popen(["/usr/bin/python3", ROOT / "tests/e2e/stalling_fs.py", backing, place, folder / "never", str(rate)])
    try:
        while not os.path.ismount(place):
            if serving.poll() is not None:
                sys.exit("slow_cache.py: the file system could not be mounted")
            time.sleep(0.01)
        for file in files:
            subprocess.run(["mount", "--bind", place / file.name, file], check=True)
        yield
    finally:
        serving.kill()
        serving.wait()
        for mounted in (*files, place):
            subprocess.run(["umount", "-l", mounted], check=False)


def samples_a_second(spec, folder, coefficients):
    options = ["--root", "/", "--workers", 1, "--threads", 1, "--coefficient-cache-bytes", "8GiB" if coefficients else 0]
    with Service(folder, *options) as service:
        return run_json("bench", "run", spec, "--target", service.target, "--no-digest", "--json")["samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rates", type=float, nargs="+", default=[20, 100, 400], metavar="MB", help="MB a second (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        link_copies(arguments.folder, folder / "photos", COPIES)
        spec, cache = folder / "spec.json", folder / "cache"
        cache.mkdir(mode=0o700)
        spec.write_text(json.dumps({
            "source": {"image_folder": {"path": str(folder / "photos"), "unlabeled": True}}, "stages": STAGES["A"], "outputs": ["image"],
            "batch": {"size": 64}, "order": "global", "epochs": EPOCHS,
        }))
        run_json("index", spec, "--coefficients", "--workers", 1, "--json", "--cache-dir", cache)
        samples_a_second(spec, folder, False)  # makes seek entries
        (folder / "slow").mkdir(mode=0o700)
        files = list(cache.glob("coefficients-*.segment"))
        for file in files:
            file.rename(folder / "slow" / file.name)
            file.touch(mode=0o600)
        print(f"{machine()}; medians of {arguments.rounds} rounds; {' '.join(sys.argv)}")
        for rate in arguments.rates:
            with slow(files, folder, 1e6 * rate):
                rounds = [{kept: samples_a_second(spec, folder, kept) for kept in ((True, False), (False, True))[number % 2]}
                          for number in range(arguments.rounds)]
            ratios = [both[True] / both[False] for both in rounds]
            print(f"{rate:6.0f} MB/s: with coefficients {statistics.median(both[True] for both in rounds):6.0f} images/s, "
                  f"without {statistics.median(both[False] for both in rounds):6.0f}; "
                  f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


if __name__ == "__main__":
    main()
