"""What the loaders around PyTorch share: torchvision's transforms v2, and PyTorch's DataLoader over them.

An image is decoded to bytes and stays bytes until it is normalized, because torchvision resizes bytes fastest; the crop
is antialiased, which is torchvision's default. As many workers as cores; they stay over the epochs.
"""

import common
import torch
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision import tv_tensors
from torchvision.transforms import v2

TABLE = common.gamma_table()


def look_up(image):
    return torch.from_numpy(TABLE[image.numpy()])


def decoded(file):
    """RGB, of a file's bytes."""
    return decode_jpeg(torch.frombuffer(bytearray(file), dtype=torch.uint8), mode=ImageReadMode.RGB)


def with_boxes(boxes):
    """A transform of an image and its boxes, `boxes` as shares of it."""
    steps = v2.Compose([v2.RandomHorizontalFlip(), v2.Resize([common.DETECTION_SIZE] * 2, antialias=True)])

    def transform(image, path):
        height, width = image.shape[-2:]
        corners = torch.from_numpy(boxes[path]) * torch.tensor([width, height, width, height])
        return steps(image, tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=(height, width)))

    return transform


def transform_of(workload, pil=False):
    steps = [v2.RandomResizedCrop(common.SIZE, antialias=True), v2.RandomHorizontalFlip()]
    if pil:
        steps.append(v2.PILToTensor())
    if workload == "B":
        mean, std = ([value / 255 for value in values] for values in (common.MEAN, common.STD))
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    if workload == "python":
        steps.append(look_up)
    return v2.Compose(steps)


def loaded(dataset, options, **more):
    """Batches of a map-style dataset, epoch after epoch."""
    loader = torch.utils.data.DataLoader(dataset, batch_size=common.BATCH, num_workers=options.cores, drop_last=True,
                                         persistent_workers=True, **more)
    while True:
        yield from loader
