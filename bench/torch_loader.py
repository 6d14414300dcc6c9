#!/usr/bin/env python3
"""bulkhead.torch.DataLoader beside PyTorch's own, over the same dataset: what do the quota, the seeds and the sandbox cost?

    bench/torch_loader.py FOLDER [--workers 1] [--rounds 7] [--batch-size 32] [--cores 1] [--times 4]

FOLDER: images in folders of classes (torchvision's ImageFolder). The dataset is ImageFolder with torchvision's transforms v2:
random resized crop to 224, flip, float32, normalize. Both loaders have as many workers, which stay over the epochs; the
processes share --cores CPUs. The loaders take turns, an epoch of every file --times over each; the first is not counted. Of
an epoch the batches from the 10th to the 10th last are timed, in which each loader makes as many as it delivers. Printed are
images a second and CPU seconds of the trainer's process for 1,000 images: medians, and the median and range of the ratios
within a round. Needs torch and torchvision.
"""

import argparse
import os
import statistics
import sys
import time

from support import machine

import torch
import torch.utils.data
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import bulkhead.torch

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def images(folder):
    steps = [
        v2.ToImage(), v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD),
    ]
    return ImageFolder(folder, v2.Compose(steps))


ASIDE = 10  # batches at each end of an epoch that are not timed


def epoch(loader):
    """Seconds, CPU seconds of this process, samples: of the batches in the middle."""
    clocks, samples = [], 0
    for number, (batch, _) in enumerate(loader):
        if number in (ASIDE, len(loader) - ASIDE):
            clocks.append((time.perf_counter(), time.process_time()))
        samples += len(batch) if len(clocks) == 1 and number > ASIDE else 0
        del batch
    (begin, cpu_begin), (end, cpu_end) = clocks
    time.sleep(3)  # in which what was begun of the next epoch is made, and nobody is timed
    return end - begin, cpu_end - cpu_begin, samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--times", type=int, default=4)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    torch.set_num_threads(1)
    print(f"{machine()}; PyTorch {torch.__version__}; {' '.join(sys.argv)}")
    dataset = torch.utils.data.ConcatDataset([images(options.folder)] * options.times)
    common = {"batch_size": options.batch_size, "shuffle": True, "num_workers": options.workers}
    loaders = {
        "PyTorch": torch.utils.data.DataLoader(dataset, persistent_workers=True, **common),
        "Bulkhead": bulkhead.torch.DataLoader(dataset, **common),
    }
    taken = {name: [] for name in loaders}
    for name, loader in loaders.items():
        begin = time.perf_counter()
        next(iter(loader))
        print(f"{name}: the first batch came after {time.perf_counter() - begin:.1f} s", flush=True)
        epoch(loader)
    for number in range(options.rounds):
        for name in sorted(loaders, reverse=bool(number % 2)):
            seconds, cpu, samples = epoch(loaders[name])
            taken[name].append((samples / seconds, 1000 * cpu / samples))
        both = ", ".join(f"{name} {rounds[-1][0]:.1f}/s, {rounds[-1][1]:.3f} CPU-s" for name, rounds in taken.items())
        print(f"round {number + 1}: {both}", flush=True)
    for place, what in enumerate(["images a second", "trainer's CPU seconds for 1,000 images"]):
        ours, theirs = ([one[place] for one in taken[name]] for name in ("Bulkhead", "PyTorch"))
        ratios = [mine / its for mine, its in zip(ours, theirs)]
        print(
            f"{what}: Bulkhead {statistics.median(ours):.3f}, PyTorch {statistics.median(theirs):.3f}, "
            f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        )
    loaders["Bulkhead"].close()


if __name__ == "__main__":
    main()
