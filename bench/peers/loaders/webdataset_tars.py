"""WebDataset: tars of a hundred photos, whose order is drawn, and a buffer of a thousand files that is shuffled.

With torchvision's decoder and transforms (torch_images.py) in the workers of WebLoader, which assemble the batches,
too. Tars are drawn without end (resampled), as WebDataset recommends for training.
"""

import glob
import io
import pathlib
import tarfile

import common
import torch_images
import webdataset

PHOTOS_IN_A_TAR = 100
SHUFFLED_FILES = 1000


def prepare(options):
    photos = common.paths(options.short_list)
    for begin in range(0, len(photos), PHOTOS_IN_A_TAR):
        with tarfile.open(f"{options.data}/photos-{begin:07}.tar", "w") as tar:
            for number, path in enumerate(photos[begin:begin + PHOTOS_IN_A_TAR]):
                data = pathlib.Path(path).read_bytes()
                member = tarfile.TarInfo(f"{begin + number:07}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def batches(options):
    transform = torch_images.transform_of(options.workload)

    def processed(data):
        return transform(torch_images.decoded(data))

    dataset = webdataset.WebDataset(sorted(glob.glob(f"{options.data}/*.tar")), resampled=True).shuffle(SHUFFLED_FILES)
    dataset = dataset.to_tuple("jpg").map_tuple(processed).batched(common.BATCH, partial=False)
    for [images] in webdataset.WebLoader(dataset, batch_size=None, num_workers=options.cores):
        yield images


if __name__ == "__main__":
    common.run(batches, prepare)
