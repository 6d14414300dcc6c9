#!/usr/bin/python3
"""What windows of frames cost: 9 channels of three overlapping frames against 3 of one, as bytes per second.

    bench/frames.py [FOLDER] [--rounds 7] [--old build/of/before/bin]

FOLDER: JPEG files, each folder a clip; without it 300 photos are drawn. In both pipelines photos are decoded, cropped at random
to 224 x 224, flipped at random and normalized to float32 NCHW, in blocks of 16 neighbours and batches of 30; `nine` reads
windows of 3 frames and joins them. One thread of `bulkhead bench run --in-process` makes one epoch of each in turns. Printed
are medians of delivered MB per second of CPU time, which other work on the machine changes less than the clock's, and median
and range of the ratios within a round; with --old also of the programs of another build, and what this one delivers against it.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from support import BIN, draw_photos, machine, run_json


def write_specs(photos, folder):
    made = ["decode_image", {"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
    normalized = [{"normalize": {"divide": 127.5, "subtract": 1}}, {"layout": {"to": "nchw"}}]
    kinds = {"three": ({}, []), "nine": ({"frames": {"window": 3}}, [{"concat": {"inputs": "image", "output": "image"}}])}
    for name, (frames, joined) in kinds.items():
        spec = {
            "source": {"image_folder": {"path": str(photos), "unlabeled": True, **frames}},
            "stages": made + joined + normalized,
            "outputs": ["image"],
            "batch": {"size": 30, "last": "drop"},
            "order": {"block": {"block_size": 16, "window": 1}},
            "seed": 1,
        }
        (folder / f"{name}.yaml").write_text(json.dumps(spec))
    return {name: folder / f"{name}.yaml" for name in kinds}


def rate(spec, programs):
    """Megabytes per second of CPU time."""
    run = run_json("bench", "run", spec, "--in-process", "--threads", 1, "--no-digest", "--json", programs=programs)
    return run["bytes"] / run["client_cpu_seconds"] / 1e6


def ratio(over, under):
    ratios = [one / other for one, other in zip(over, under)]
    return f"{statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--old", type=pathlib.Path)
    options = parser.parse_args()
    builds = {**({"old": options.old.resolve()} if options.old else {}), "this": BIN}
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        photos = options.folder
        if photos is None:
            draw_photos(home / "drawn", 300, "--classes", "1", "--seed", "1")
            photos = home / "drawn" / "folder"
        print(f"{machine()}; {photos}; {' '.join(sys.argv)}")
        specs = write_specs(photos.resolve(), home)
        rates = {(build, name): [] for build in builds for name in specs}
        for number in range(options.rounds):
            for build, name in list(rates) if number % 2 else reversed(rates):
                rates[build, name].append(rate(specs[name], builds[build]))
        for build in builds:
            nine, three = rates[build, "nine"], rates[build, "three"]
            print(f"{build} build: nine {statistics.median(nine):.0f} MB/s, three {statistics.median(three):.0f} MB/s: {ratio(nine, three)}")
        for name in specs if options.old else ():
            print(f"{name}, this build against the old one: {ratio(rates['this', name], rates['old', name])}")


if __name__ == "__main__":
    main()
