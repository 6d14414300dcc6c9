#!/usr/bin/python3
"""What a pipeline keeps of its speed beside one whose stage spins in threads of its own.

    bench/cpu_share.py [--threads N] [--seconds S] [--rounds N] [--json]

Draws photos, and streams them through `random_resized_crop` with as many workers as CPUs: alone, and beside a stream of
another pipeline of the same service, whose stage has started N spinning threads in each worker (100 by default; a library
that the script compiles, and Python functions). The service allows these threads, so that their share is what is measured.
A fair share is 0.5. The rounds take turns; what is printed are medians, and their range.

Exits with 1 if the stream keeps less than LEAST of its speed, or if workers of a closed pipeline, whose threads go on, are
not gone within LONGEST seconds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from support import ROOT, Service, draw_photos, machine

import bulkhead

LEAST, LONGEST = 0.45, 1.0

LIBRARY = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "bulkhead/stage.h"
static void* Spin(void* nothing) { for (volatile unsigned long turns = 0;; ++turns) {} return nothing; }
static int Create(const BulkheadStageConfig* config, void** state, char* error, uint64_t) {
  pthread_attr_t small;  // a hundred stacks of the usual size would be more than the quota
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 << 10);
  for (int i = atoi(config->arguments[0].value); i > 0; --i) {
    pthread_t thread;
    if (pthread_create(&thread, &small, Spin, NULL) != 0) { strcpy(error, "no more threads"); return 1; }
  }
  *state = NULL;
  return 0;
}
static int Run(void*, BulkheadCall* call) { memcpy(call->outputs[0].data, call->inputs[0].data, 8); return 0; }
static void Destroy(void*) {}
extern "C" BULKHEAD_STAGE_EXPORT const BulkheadStage* bulkhead_stage_v1() {
  static const BulkheadStage stage = {sizeof(BulkheadStage), Create, Run, Destroy};
  return &stage;
}
"""
PYTHON = """
import hashlib, threading
BLOCK = bytes(1 << 20)
def work():
    while True:
        hashlib.sha256(BLOCK).digest()  # without the interpreter's lock
started = []
threading.stack_size(256 << 10)
def spin(index, *, threads):
    while len(started) < threads:
        started.append(threading.Thread(target=work, daemon=True))
        started[-1].start()
    return index
"""


def specs_of(photos, threads):
    calm = {"source": {"image_folder": {"path": str(photos / "folder")}}, "seed": 1, "order": "global", "batch": {"size": 32},
            "stages": ["decode_image", {"random_resized_crop": {"size": 96}}]}
    copy = [{"name": "copy", "dtype": "int64"}]
    stages = {"native": {"native": {"library": "libspin.so", "inputs": ["index"], "outputs": copy,
                                    "arguments": {"threads": threads}}},
              "python": {"python": {"function": "spinning:spin", "inputs": ["index"], "outputs": copy,
                                    "arguments": {"threads": threads}}}}
    return calm, {name: {"source": {"range": {"size": 1 << 30}}, "stages": [stage], "batch": {"size": 8}}
                  for name, stage in stages.items()}


def rate_of(spec, target, seconds):
    """Samples a second, once it runs."""
    with bulkhead.Loader(spec, target, timeout=300) as loader:
        batches = loader.stream()
        for _ in range(4):
            next(batches)
        samples, begin = 0, time.monotonic()
        while time.monotonic() < begin + seconds:
            next(batches)
            samples += 32
        return samples / (time.monotonic() - begin)


def beside(spec, target, measure):
    """`measure()` while another stream is open and taken from."""
    with bulkhead.Loader(spec, target, timeout=300) as loader:
        batches = loader.stream()
        next(batches)
        over = threading.Event()

        def take():
            while not over.wait(0.05):
                next(batches)
        taker = threading.Thread(target=take)
        taker.start()
        try:
            time.sleep(1)  # the service has seen the threads
            return measure()
        finally:
            over.set()
            taker.join()


def seconds_until_ended(pipeline_pids):
    begin = time.monotonic()
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pipeline_pids) and time.monotonic() < begin + 60:
        time.sleep(0.01)
    return time.monotonic() - begin


def workers_of(target):
    return {int(worker["pid"]): worker["pipeline"] for worker in bulkhead.service_status(target)["workers"] if "pid" in worker}


def print_table(result):
    print(result["machine"])
    print(f"alone: {result['samples_per_second_alone']:.0f} samples/s")
    for kind, ratio in result["kept"].items():
        print(f"beside a {kind} stage with {result['threads']} spinning threads a worker: "
              f"{ratio['median']:.2f} of that ({ratio['min']:.2f} to {ratio['max']:.2f})")
    print(f"workers of the closed pipeline ended after {result['seconds_until_ended']['median']:.2f} s "
          f"({result['seconds_until_ended']['max']:.2f} at most)")


def broken_promises(result):
    """In words."""
    found = [f"beside a {kind} stage a stream keeps {ratio['median']:.2f} of its speed; {LEAST} is promised"
             for kind, ratio in result["kept"].items() if ratio["median"] < LEAST]
    if result["seconds_until_ended"]["max"] > LONGEST:
        found.append(f"workers of a closed pipeline went on for {result['seconds_until_ended']['max']:.2f} s; "
                     f"{LONGEST:g} s is promised")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        draw_photos(folder / "photos", 200, "--size", "320x240")
        (folder / "code").mkdir()
        (folder / "code/spinning.py").write_text(PYTHON)
        (folder / "spin.cc").write_text(LIBRARY)
        subprocess.run(["c++", "-O1", "-fPIC", "-shared", "-pthread", "-I", ROOT / "include", "-o", folder / "code/libspin.so",
                        folder / "spin.cc"], check=True)
        calm, spinning = specs_of(folder / "photos", options.threads)
        alone, kept, ended = [], {kind: [] for kind in spinning}, []
        with Service(folder, "--root", folder, "--python-path", folder / "code", "--native-path", folder / "code",
                     "--python", sys.executable, "--worker-extra-threads", options.threads + 8) as service:
            target = service.target
            for _ in range(options.rounds):
                alone.append(rate_of(calm, target, options.seconds))
                calm_pipelines = set(workers_of(target).values())
                for kind, spec in spinning.items():
                    pids = []

                    def measure(pids=pids):
                        pids.extend(pid for pid, pipeline in workers_of(target).items() if pipeline not in calm_pipelines)
                        return rate_of(calm, target, options.seconds)
                    kept[kind].append(beside(spec, target, measure) / alone[-1])
                    ended.append(seconds_until_ended(pids))
    result = {"machine": machine(), "threads": options.threads, "samples_per_second_alone": statistics.median(alone),
              "kept": {kind: {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
                       for kind, ratios in kept.items()},
              "seconds_until_ended": {"median": statistics.median(ended), "max": max(ended)}}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print_table(result)
    broken = broken_promises(result)
    for line in broken:
        print(f"cpu_share: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
