#!/usr/bin/python3
"""`bulkhead doctor` on the examples with stages of a user: prints the machine, and each command with its report and time.

    bench/doctor_examples.py [--html FOLDER] [EXAMPLE …]

Builds the libraries of examples/native-drift and examples/native_stage, and draws the photos and faces that the others read. Writes
a page of each report to FOLDER. Takes ten minutes, and three times as long beside other work.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from support import BIN, ROOT, machine

NATIVE = """
source: {image_folder: {path: photos}}
stages:
- decode_image
- resize: {size: 64}
- native:
    library: libchannel_means.so
    inputs: [image]
    outputs: [{name: means, dtype: float32, shape: [3]}]
    arguments: {scale: 0.5, noise: 0.01}
outputs: [means]
order: global
batch: {size: 16}
"""
# By example: the spec in it, and the words after it. The third epoch of native-drift, in which it crashes, begins after 4,000 samples.
EXAMPLES = {
    "native-drift": [("drift.yaml", "--python-path . --samples 5000"), ("drift.yaml", "--python-path . --samples 200")],
    "python_stage": [("noise.yaml", "--python-path .")],
    "native_stage": [("means.yaml", "--native-path .")],
    "runaway": [("ordered.yaml", "--python-path . --samples 1000"), ("large.yaml", "--python-path .")],
    "face": [("train.yaml", "--python-path . --samples 1000")],
}


def prepare(example, folder):
    """A copy of the example with what it reads."""
    shutil.copytree(ROOT / "examples" / example, folder)
    if example == "native-drift":
        compiler = ["cc", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "drift.c", "-o", "libdrift.so", "-lm"]
        subprocess.run(compiler, cwd=folder, check=True)
    if example == "native_stage":
        (folder / "means.yaml").write_text(NATIVE)
        compiler = ["c++", "-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", f"-I{ROOT / 'include'}",
                    "channel_means.cc", "-o", "libchannel_means.so"]
        subprocess.run(compiler, cwd=folder, check=True)
    if example in ("native_stage", "python_stage"):
        synth = [BIN / "bulkhead", "synth", "drawn", "--count", "400", "--size", "256x192", "--seed", "7"]
        subprocess.run(synth, cwd=folder, check=True, capture_output=True)
        (folder / "drawn/folder").rename(folder / "photos")
    if example == "face":
        synth = [BIN / "bulkhead", "synth", "faces", "--schema", "face", "--count", "400"]
        subprocess.run(synth, cwd=folder, check=True, capture_output=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--html", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("examples", nargs="*", choices=[*EXAMPLES, []], metavar="EXAMPLE")
    options = parser.parse_args()
    print(machine())
    for example in options.examples or EXAMPLES:
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent, example)
            prepare(example, folder)
            for number, (spec, words) in enumerate(EXAMPLES[example]):
                page = []
                if options.html:
                    options.html.mkdir(exist_ok=True)
                    page = ["--html", options.html.resolve() / f"{example}-{number}.html"]
                began = time.monotonic()
                python = ["--python", sys.executable] if "--python-path" in words else []
                command = [BIN / "bulkhead", "doctor", spec, *words.split(), *python, *page]
                run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
                print(f"\nexamples/{example}$ bulkhead doctor {spec} {words}\n{run.stdout}"
                      f"exit code {run.returncode}, {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
                if run.returncode == 2:
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
