"""A small network in PyTorch that learns ten classes from a service, with checkpoints.

    python examples/torch_train.py [--data FOLDER] [--target unix:SOCKET]

Without a target it starts a service of its own. A run that finds a checkpoint in FOLDER goes on
from it. Ends with an error below an accuracy of 0.9 on the validation part.
"""

import argparse
import pathlib
import sys

import bulkhead.torch
import torch
from torch import nn

from patterns import CLASSES, draw

EPOCHS = 4


def spec(images: pathlib.Path, part: str, *augment: object) -> dict:
    return {
        "source": {"image_folder": {"path": str(images)}},
        "split": {"parts": {"train": 0.8, "validation": 0.2}, "use": part},
        "stages": [
            "decode_image",
            *augment,
            {"resize": {"size": 64, "interpolation": "area"}},
            {"normalize": {"divide": 127.5, "subtract": 1}},
            {"layout": {"to": "nchw"}},
        ],
        "order": {"global": {}} if augment else "sequential",
        "batch": {"size": 32, "drop_remainder": bool(augment)},
        "outputs": ["image", "label"],
    }


def accuracy(model: nn.Module, batches: bulkhead.torch.Dataset) -> float:
    right = total = 0
    with torch.no_grad():
        for image, label in batches:
            right += (model(image).argmax(1) == label).sum().item()
            total += len(label)
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("patterns"))
    parser.add_argument("--target")
    arguments = parser.parse_args()
    images = draw(arguments.data / "images", count=1000, size=96)
    augment = [{"random_resized_crop": {"size": 80, "scale": [0.7, 1.0]}}, "random_horizontal_flip"]

    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = nn.Sequential(
        nn.AvgPool2d(8), nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, CLASSES)
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    names = ("image", "label")
    train = bulkhead.torch.Dataset(
        spec(images, "train", *augment), arguments.target, structure=names
    )
    check = bulkhead.torch.Dataset(spec(images, "validation"), arguments.target, structure=names)

    checkpoint = arguments.data / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        train.load_state_dict(saved["loader"])

    with train, check:
        for epoch in range(train.state_dict()["epoch"], EPOCHS):
            for image, label in train:
                loss = nn.functional.cross_entropy(model(image), label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"epoch {epoch} loss {loss.item()!r}")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "loader": train.state_dict()}, checkpoint)
        reached = accuracy(model, check)
        print(f"accuracy {reached!r}")
        checkpoint.unlink()  # the training is over
        print("reconnects", train.loader.reconnects)
    if reached < 0.9:
        sys.exit("the network did not learn")


if __name__ == "__main__":
    main()
