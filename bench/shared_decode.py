#!/usr/bin/python3
"""Several jobs on one pipeline: with shared batches, and as separate streams, on the same cores.

    bench/shared_decode.py [--data FOLDER] [--pipeline crops|whole] [--jobs N] [--workers N] [--rounds N] [--seconds S]
        [--transport auto|shm|grpc] [--json]

Each job is a process that takes batches as fast as they come and reads one byte of each page. All jobs begin together. Rounds
of both kinds are interleaved, and the figures are the medians of the rounds: samples per second of all jobs together, CPU
seconds of service, workers and jobs for 1,000 samples, and the share of the batches that was shared.

crops  photos are decoded, cropped by random_resized_crop to 224 x 224 and flipped, as in training; of most photos only a
       part is decoded
whole  photos are decoded, resized to 256 pixels and cropped to 224 x 224 in their middle, as in an evaluation

Batches are of 64 images as uint8. Without --data 300 photos are drawn by `bulkhead synth`.
"""

import argparse
import json
import multiprocessing
import pathlib
import statistics
import tempfile
import time

from support import Service, cpu_seconds, crop_spec, descendants, draw_photos, machine

import bulkhead

WARM_UP_BATCHES = 12
PAGE = 4096


WHOLE = ["decode_image", {"resize": {"shorter_side": 256}}, {"center_crop": {"size": [224, 224]}}]


def job(spec, target, options, barrier, seconds, results):
    with bulkhead.Loader(spec, target, timeout=120, **options) as loader:
        batches = loader.stream()
        barrier.wait()  # none reads before all are open
        for _ in range(WARM_UP_BATCHES):
            next(batches)
        barrier.wait()
        began, cpu, samples = time.monotonic(), time.process_time(), 0
        while time.monotonic() - began < seconds:
            batch = next(batches)
            batch["image"].reshape(-1)[::PAGE].sum()
            samples += batch.valid_count
            del batch
        results.put((samples, time.monotonic() - began, time.process_time() - cpu))
        barrier.wait()  # the others' figures are those of all jobs


def batches_of(service):
    """The batches of all streams that were shared, and those that were made alone."""
    shares = [stream["share"] for stream in bulkhead.service_status(service.target)["streams"]]
    return [sum(int(share[kind]) for share in shares) for kind in ("batches_shared", "batches_alone")]


def measure(spec, service, jobs, seconds, options):
    """Samples per second of all jobs, CPU seconds for 1,000 of them, and the shared part of the batches."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(jobs + 1), context.Queue()
    processes = [
        context.Process(target=job, args=(spec, service.target, options, barrier, seconds, results)) for _ in range(jobs)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    barrier.wait()
    begun = batches_of(service)
    before = sum(map(cpu_seconds, descendants(service.process.pid)))
    figures = [results.get(timeout=seconds + 120) for _ in processes]
    cpu = sum(map(cpu_seconds, descendants(service.process.pid))) - before + sum(figure[2] for figure in figures)
    shared, alone = (after - then for then, after in zip(begun, batches_of(service)))
    barrier.wait()
    for process in processes:
        process.join()
    samples = sum(figure[0] for figure in figures)
    rate = sum(figure[0] / figure[1] for figure in figures)
    return rate, 1000 * cpu / samples, shared / max(shared + alone, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--pipeline", choices=("crops", "whole"), default="whole")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds = {"shared": {"share": True}, "separate": {}}
    rounds = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        data = options.data
        if data is None:
            draw_photos(home / "photos", 300, "--size", "500x375", "--seed", "1")
            data = home / "photos" / "folder"
        spec = crop_spec(data.resolve())
        if options.pipeline == "whole":
            spec["stages"] = WHOLE
        spec["source"]["image_folder"]["unlabeled"] = not any(path.is_dir() for path in data.iterdir())
        # Without what is kept of earlier epochs, so that all of them cost the same.
        with Service(home, "--root", data.resolve(), "--workers", options.workers, "--threads", 1,
                     "--coefficient-cache-bytes", 0) as service:
            for _ in range(options.rounds):
                for kind, more in kinds.items():
                    loader = {"transport": options.transport, **more}
                    rounds[kind].append(measure(spec, service, options.jobs, options.seconds, loader))
    medians = {kind: [statistics.median(column) for column in zip(*figures)] for kind, figures in rounds.items()}
    ratio = medians["shared"][0] / medians["separate"][0]
    if options.json:
        names = ("samples_per_second", "cpu_seconds_per_1000", "shared_part")
        print(json.dumps({"machine": machine(), "jobs": options.jobs, "pipeline": options.pipeline, "ratio": ratio,
                          **{kind: dict(zip(names, figures)) for kind, figures in medians.items()}}))
        return
    print(f"machine: {machine()}; data: {data}, {options.pipeline}; {options.jobs} jobs, {options.workers} workers, "
          f"medians of {options.rounds} rounds of {options.seconds:g} s")
    for kind, (rate, cpu, part) in medians.items():
        print(f"{kind:9}{rate:9.0f} samples/s of all jobs,{cpu:8.3f} CPU s for 1,000 samples,{100 * part:4.0f} % of the batches shared")
    print(f"ratio    {ratio:9.2f}; of CPU seconds {medians['separate'][1] / medians['shared'][1]:.2f}")


if __name__ == "__main__":
    main()
