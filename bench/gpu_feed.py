#!/usr/bin/env python3
"""Images that a GPU trains on, by loader: who keeps it busy, and what does the trainer's process pay?

    bench/gpu_feed.py FOLDER [--workers 14] [--batch-size 128] [--batches 60]

FOLDER: images in folders of classes. ResNet-18 in bfloat16 on crops of 224 x 224, with random flips. Each loader runs alone; 20
batches are not counted, then --batches are. The first row trains on one batch that lies on the GPU. Needs a GPU, torch and
torchvision. BULKHEAD_BIN_DIR: the folder of the programs.
"""

import argparse
import os
import sys
import time

from support import machine

import torch
import torch.utils.data
import torchvision
from torch_loader import MEAN, STD, images

import bulkhead.torch

UNCOUNTED = 20


class Training:
    def __init__(self, batches):
        self.batches = batches
        self.model = torchvision.models.resnet18(num_classes=10).cuda().to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self.mean, self.std = (torch.tensor(values, device="cuda").view(1, 3, 1, 1) * 255 for values in (MEAN, STD))

    def step(self, image, label):
        if image.dtype == torch.uint8:
            image = (image.permute(0, 3, 1, 2).float() - self.mean) / self.std
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(image), label)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def measure(self, name, elements):
        samples = 0
        for number, (image, label) in enumerate(elements):
            if number == UNCOUNTED:
                torch.cuda.synchronize()
                begin, cpu = time.perf_counter(), time.process_time()
            self.step(image, label)
            samples += len(image) if number >= UNCOUNTED else 0
            del image, label
            if number == UNCOUNTED + self.batches - 1:
                break
        torch.cuda.synchronize()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        print(f"{name}: {samples / seconds:.0f} images/s, {1000 * cpu / samples:.3f} CPU-s of the trainer for 1,000", flush=True)


def on_the_gpu(loader):
    for image, label in loader:
        yield image.cuda(non_blocking=True), label.cuda(non_blocking=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--batches", type=int, default=60)
    options = parser.parse_args()
    print(f"{machine()}; {torch.cuda.get_device_name()}; PyTorch {torch.__version__}; {' '.join(sys.argv)}")
    training = Training(options.batches)
    size = options.batch_size
    image = torch.randint(0, 255, (size, 224, 224, 3), dtype=torch.uint8, device="cuda")
    label = torch.zeros(size, dtype=torch.long, device="cuda")
    training.measure("one batch on the GPU", ((image, label) for _ in range(UNCOUNTED + options.batches)))
    spec = {
        "source": {"image_folder": {"path": os.path.abspath(options.folder)}},
        "stages": [{"decode_image": {}}, {"random_resized_crop": {"size": 224}}, {"random_horizontal_flip": {}}],
        "batch": {"size": size, "drop_remainder": True},
        "order": {"global": {}},
    }
    more = {"structure": ("image", "label"), "workers": options.workers, "credits": 8, "in_flight": 3, "device": "cuda"}
    for from_arena in (True, False):
        with bulkhead.torch.Dataset(spec, from_arena=from_arena, **more) as dataset:
            training.measure(f"bulkhead.torch.Dataset, from_arena={from_arena}", dataset.stream())
    torch.set_num_threads(4)
    dataset = images(options.folder)
    times = -(-(UNCOUNTED + options.batches + 8 * options.workers) * size // len(dataset))
    dataset = torch.utils.data.ConcatDataset([dataset] * times)
    common = {"batch_size": size, "shuffle": True, "num_workers": options.workers, "pin_memory": True}
    training.measure("PyTorch's DataLoader", on_the_gpu(torch.utils.data.DataLoader(dataset, **common)))
    with bulkhead.torch.DataLoader(dataset, **common) as loader:
        training.measure("bulkhead.torch.DataLoader", on_the_gpu(loader))


if __name__ == "__main__":
    main()
