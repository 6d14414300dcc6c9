"""LitData: its own chunks of JPEG files, written once by optimize, with torchvision's transforms (torch_images.py)."""

import pathlib

import common
import torch_images
from litdata import ParallelStreamingDataset, StreamingDataLoader, StreamingDataset, optimize


def read(path):
    return {"image": pathlib.Path(path).read_bytes()}


def prepare(options):
    optimize(read, common.paths(options.short_list), options.data, chunk_bytes="16MB", num_workers=1)


def batches(options):
    transform = torch_images.transform_of(options.workload)

    def processed(sample):
        return transform(torch_images.decoded(sample["image"]))

    photos = StreamingDataset(options.data, shuffle=True, drop_last=True, transform=processed)
    # An epoch of few photos ends often; this dataset begins the next one inside the workers.
    dataset = ParallelStreamingDataset([photos], length=len(common.paths(options.list)))
    for [images] in StreamingDataLoader(dataset, batch_size=common.BATCH, num_workers=options.cores, drop_last=True):
        yield images


if __name__ == "__main__":
    common.run(batches, prepare)
