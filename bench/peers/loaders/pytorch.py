"""PyTorch's DataLoader over a dataset of files, decoded by torchvision.io or by Pillow (`pil`); see torch_images.py."""

import common
import torch_images
from PIL import Image
from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, decode_image


class Photos(Dataset):
    def __init__(self, options):
        self.paths, self.pil = common.paths(options.list), options.pil
        self.with_boxes = None
        if options.workload == "detection":
            self.with_boxes = torch_images.with_boxes(common.boxes_by_path(options))
        else:
            self.transform = torch_images.transform_of(options.workload, options.pil)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if self.pil:
            with Image.open(self.paths[index]) as file:
                return self.transform(file.convert("RGB"))
        image = decode_image(self.paths[index], ImageReadMode.RGB)
        return self.with_boxes(image, self.paths[index]) if self.with_boxes else self.transform(image)


def batches(options):
    loaded = torch_images.loaded(Photos(options), options, shuffle=True)
    return ((images, boxes.numpy()) for images, boxes in loaded) if options.workload == "detection" else loaded


if __name__ == "__main__":
    common.run(batches)
