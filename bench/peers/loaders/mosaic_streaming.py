"""MosaicML Streaming: its own shards (MDS) of JPEG files, written once, with torchvision's transforms
(torch_images.py).

An epoch is as long as the list of photos (epoch_size), so that it does not end while it is measured.
"""

import pathlib

import common
import torch_images
from streaming import MDSWriter, StreamingDataset


def prepare(options):
    with MDSWriter(out=options.data, columns={"image": "bytes"}, size_limit="16mb") as writer:
        for path in common.paths(options.short_list):
            writer.write({"image": pathlib.Path(path).read_bytes()})


class Photos(StreamingDataset):
    def __init__(self, options):
        names = len(common.paths(options.list))
        super().__init__(local=options.data, shuffle=True, batch_size=common.BATCH, epoch_size=names)
        self.transform = torch_images.transform_of(options.workload)

    def __getitem__(self, index):
        return self.transform(torch_images.decoded(super().__getitem__(index)["image"]))


def batches(options):
    return torch_images.loaded(Photos(options), options)


if __name__ == "__main__":
    common.run(batches, prepare)
