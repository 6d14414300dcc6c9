#!/usr/bin/python3
"""Whether another allocator would make workers faster: pipelines in one process, one thread, under each in turns.

    bench/allocator.py FOLDER [--rounds N] [--epochs N] [--json]        FOLDER: JPEG files, at any depth

    plain     random_resized_crop 224, random flip: our own decoder and resize
    opencv    the same with affine, color_jitter and gaussian_blur, whose buffers are OpenCV's

The allocators: glibc's as it is, with one arena, with its heap in huge pages, and jemalloc where libjemalloc.so.2 is
installed (Debian's libjemalloc2). Printed are medians over the rounds of the speed against glibc's in the same round.
"""

import argparse
import ctypes.util
import json
import pathlib
import statistics
import sys
import tempfile

from support import machine, run_json

STAGES = {
    "plain": ["decode_image", {"random_resized_crop": {"size": 224}}, "random_horizontal_flip"],
    "opencv": ["decode_image", {"random_resized_crop": {"size": 224}}, "random_horizontal_flip",
               {"random_affine": {"degrees": 10}}, {"color_jitter": {"brightness": 0.4, "contrast": 0.4}},
               {"gaussian_blur": {"kernel": 5}}],
}


def allocators():
    """The environment of each."""
    found = {
        "glibc": {},
        "glibc, one arena": {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"},
        "glibc, huge pages": {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1"},
    }
    jemalloc = ctypes.util.find_library("jemalloc")
    if jemalloc:
        found["jemalloc"] = {"LD_PRELOAD": jemalloc}
    else:
        sys.stderr.write("no jemalloc here: install Debian's libjemalloc2 to compare it, too\n")
    return found


def measure(spec, environment):
    words = ["--spec", spec, "--in-process", "--threads", 1, "--no-digest", "--json"]
    return run_json("bench", "run", *words, **environment)["samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ways, ratios = allocators(), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, stages in STAGES.items():
            spec = pathlib.Path(folder) / f"{name}.json"
            source = {"image_folder": {"path": str(arguments.folder.resolve()), "unlabeled": True}}
            spec.write_text(json.dumps({"source": source, "stages": stages, "batch": {"size": 64},
                                        "epochs": arguments.epochs, "outputs": ["image"], "order": "global"}))
            for number in range(arguments.rounds):
                speeds = {way: measure(spec, environment) for way, environment in ways.items()}
                for way, speed in speeds.items():
                    ratios.setdefault(f"{name}, {way}", []).append(speed / speeds["glibc"])
                sys.stderr.write(f"{name}: round {number + 1} of {arguments.rounds}\n")
    if arguments.json:
        print(json.dumps({"machine": machine(), "command": " ".join(sys.argv), "ratios": ratios}))
        return
    print(f"{machine()}; bench/allocator.py {' '.join(sys.argv[1:])}")
    for way, values in ratios.items():
        print(f"  {way:26} {statistics.median(values):6.3f}   ({min(values):.3f} to {max(values):.3f})")


if __name__ == "__main__":
    main()
