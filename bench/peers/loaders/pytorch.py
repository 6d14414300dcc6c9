"""PyTorch's DataLoader over a dataset of files, decoded by torchvision.io or by Pillow (`pil`); see torch_images.py."""

import common
import torch_images
from PIL import Image
from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, decode_image


class Photos(Dataset):
    def __init__(self, options):
        self.paths, self.pil = common.paths(options.list), options.pil
        self.transform = torch_images.transform_of(options.workload, options.pil)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if self.pil:
            with Image.open(self.paths[index]) as file:
                return self.transform(file.convert("RGB"))
        return self.transform(decode_image(self.paths[index], ImageReadMode.RGB))


def batches(options):
    return torch_images.loaded(Photos(options), options, shuffle=True)


if __name__ == "__main__":
    common.run(batches)
