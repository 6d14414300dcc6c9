#!/usr/bin/python3
"""How often a worker whose stage leaks with every sample meets its quota all the same, over many replacements.

    bench/leak_run.py [--replacements N] [--leak SIZE] [--quota SIZE] [--workers N]

Draws photos, and streams them through `random_resized_crop` and a stage that keeps --leak bytes of each sample, in workers
of --quota bytes, until N planned replacements are done. A line every 1,000 tells how often a quota bit so far (refused
allocations, kills), and which deaths there were. The exit status is 1 if there was one.
"""

import argparse
import pathlib
import sys
import tempfile
import threading
import time

from support import Service, draw_photos, machine

import bulkhead


def spec_of(photos, leak):
    return {"source": {"image_folder": {"path": str(photos)}}, "seed": 1, "order": "global",
            "stages": ["decode_image", {"random_resized_crop": {"size": 224}}, "random_horizontal_flip", {"fault": {"leak": leak}}],
            "batch": {"size": 64}}


def watch(target, wanted):
    """Until `wanted` workers were replaced: how often a quota bit, and the deaths that show themselves."""
    told, begin, deaths = 0, time.monotonic(), {}
    while True:
        status = bulkhead.service_status(target)
        done = sum(worker["generation"] - 1 for worker in status.get("workers", []) if worker["role"] == "pipeline")
        deaths.update({death["pid"]: death for death in status.get("recent_exits", [])})
        events = status.get("limit_events", 0)
        if done >= min(told + 1000, wanted):
            told = done
            print(f"{done:7} replacements, {events} limit events, {len(deaths)} deaths, "
                  f"{time.monotonic() - begin:.0f} s", flush=True)
        if done >= wanted:
            return events, deaths
        time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replacements", type=int, default=14130)
    parser.add_argument("--leak", default="1MiB", help="memory that leaks with a sample")
    parser.add_argument("--quota", default="128MiB", help="quota of each worker")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    print(f"{machine()}; {options.leak} a sample, {options.workers} workers of {options.quota}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        draw_photos(folder / "photos", 400)
        with Service(folder, "--root", folder, "--workers", options.workers, "--worker-quota", options.quota,
                     "--allow-fault-stages") as service:
            spec = spec_of(folder / "photos/folder", options.leak)
            with bulkhead.Loader(spec, service.target, timeout=300) as loader:
                over = threading.Event()

                def take():
                    for _ in loader.stream():
                        if over.is_set():
                            break
                taker = threading.Thread(target=take)
                taker.start()
                try:
                    events, deaths = watch(service.target, options.replacements)
                finally:
                    over.set()
                    taker.join()
    for pid, death in deaths.items():
        print(f"worker {pid}, generation {death['generation']}, after {death.get('samples', 0)} samples: {death['reason']}")
    sys.exit(1 if events or deaths else 0)


if __name__ == "__main__":
    main()
