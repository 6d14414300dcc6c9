"""A small network that Ray Train trains with two workers, from a fleet of Bulkhead's services in the same cluster.

    python examples/ray-train/train.py [--folder FOLDER] [--replicas 1] [--die-at STEP]

Uses the Ray cluster of $RAY_ADDRESS, or begins one on this machine. FOLDER, for images and checkpoints, is on storage that
all nodes share. A checkpoint is saved every 10 steps, in mid-epoch. With --die-at a worker ends itself at that step; Ray Train
starts both again, and they go on from the last checkpoint with the very batches of an undisturbed run.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys
import tempfile
from typing import Any, Dict

import ray
import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

import bulkhead.ray
import bulkhead.torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from patterns import CLASSES, draw  # noqa: E402

EPOCHS = 3
SAVED_EVERY = 10  # steps; not a divisor of an epoch's 25
WORKERS = 2


def spec(images: str) -> Dict[str, Any]:
    return {
        "source": {"image_folder": {"path": images}},
        "stages": [
            "decode_image",
            {"random_resized_crop": {"size": 64, "scale": [0.7, 1.0]}},
            "random_horizontal_flip",
            {"normalize": {"divide": 127.5, "subtract": 1}},
            {"layout": {"to": "nchw"}},
        ],
        "order": "global",
        "batch": {"size": 20, "drop_remainder": True},
        "outputs": ["image", "label"],
    }


def train(config: Dict[str, Any]) -> None:
    """What each worker runs, from the beginning or from the last checkpoint."""
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    network = nn.Sequential(nn.AvgPool2d(8), nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, CLASSES))
    model = prepare_model(network)
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    # Rank and world size are those of the process group that Ray Train has made.
    batches = bulkhead.torch.Dataset(config["spec"], config["target"], structure=("image", "label"))
    losses, began = [], []
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "state.pt"))
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        batches.load_state_dict(saved["loader"])
        losses, began = saved["losses"], saved["began"]
    began.append(len(losses))

    def save() -> None:
        state = {"model": network.state_dict(), "optimizer": optimizer.state_dict(), "loader": batches.state_dict()}
        with tempfile.TemporaryDirectory() as folder:
            here = None
            if rank == 0:  # the cursors of all ranks are equal
                torch.save({**state, "losses": losses, "began": began}, os.path.join(folder, "state.pt"))
                here = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"loss": losses[-1]}, checkpoint=here)

    with batches:
        for _ in range(batches.state_dict()["epoch"], EPOCHS):
            for image, label in batches:
                loss = nn.functional.cross_entropy(model(image), label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if len(losses) % SAVED_EVERY == 0:
                    save()
                if rank == 1 and checkpoint is None and len(losses) == config["die_at"]:
                    os.kill(os.getpid(), signal.SIGKILL)
        save()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("ray-train"))
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--die-at", type=int, default=0)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    images = draw(folder / "images", count=1000, size=96)

    with bulkhead.ray.Fleet(arguments.replicas, root=folder, resources={"CPU": 0.5}) as fleet:
        trainer = TorchTrainer(
            train,
            train_loop_config={"spec": spec(str(images)), "target": fleet.target, "die_at": arguments.die_at},
            scaling_config=ray.train.ScalingConfig(num_workers=WORKERS, resources_per_worker={"CPU": 0.5}),
            run_config=ray.train.RunConfig(
                storage_path=str(folder), failure_config=ray.train.FailureConfig(max_failures=2)
            ),
        )
        result = trainer.fit()
    with result.checkpoint.as_directory() as last:
        saved = torch.load(os.path.join(last, "state.pt"))
    for step, loss in enumerate(saved["losses"], start=1):
        print(f"step {step} loss {loss!r}")
    print("began at steps", *saved["began"])
    if saved["losses"][-1] > 0.5 * saved["losses"][0]:
        sys.exit("the network did not learn")


if __name__ == "__main__":
    main()
