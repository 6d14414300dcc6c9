"""Trains on nothing: makes clips, streams windows of three frames, and compares their speed with that of single frames."""

import argparse
import json
import pathlib
import tempfile
import time

import bulkhead
import cv2
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SIZE, FRAMES = (360, 640), 64


def make_clips(folder, clips):
    """A noisy background with a square that moves, as JPEG."""
    random = np.random.default_rng(1)
    for clip in range(clips):
        place = folder / f"clip{clip:02}"
        place.mkdir(parents=True)
        small = random.integers(0, 256, (SIZE[0] // 8, SIZE[1] // 8, 3), np.uint8)
        background = cv2.resize(small, SIZE[::-1], interpolation=cv2.INTER_CUBIC)
        for i in range(FRAMES):
            image = background.copy()
            cv2.rectangle(image, (i * 8, 150), (i * 8 + 60, 210), (0, 0, 255), -1)
            cv2.imwrite(str(place / f"{i:04}.jpg"), image)


def spec_of(folder, windows, order):
    """The spec of this folder on the clips; or that of single frames with the same stages."""
    pipeline = bulkhead.Pipeline.from_yaml(HERE / "train.yaml").to_dict()
    source = pipeline["source"]["image_folder"]
    source["path"] = str(folder)
    pipeline["order"] = order
    pipeline["epochs"] = 1
    if not windows:
        del source["frames"]
        pipeline["stages"] = [stage for stage in pipeline["stages"] if "concat" not in stage]
    return pipeline


def speed(folder, windows, order):
    """Images that samples hold, a second, with one thread; the second epoch's worth counts."""
    with bulkhead.Loader({**spec_of(folder, windows, order), "epochs": 3}, workers=1, threads=1) as loader:
        stream = loader.stream()
        samples, began = 0, 0.0
        for batch in stream:
            if batch.epoch == 0:
                began = time.monotonic()
            else:
                samples += len(batch["image"])
        return samples * (3 if windows else 1) / (time.monotonic() - began)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clips", type=int, default=12)
    arguments.add_argument("--json", type=pathlib.Path)
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made) / "clips"
        make_clips(folder, arguments.clips)
        with bulkhead.Loader(spec_of(folder, True, {"sequential": {}})) as loader:
            batch = next(iter(loader))
            shape, first = list(batch["image"].shape), batch["path"][0].decode()
            print("a batch:", shape, batch["image"].dtype, "from", first)
        shuffled = {"global": {}}
        found = {
            "shape": shape,
            "single": speed(folder, False, shuffled),
            "windows": speed(folder, True, shuffled),
            "overlapping": speed(folder, True, {"block": {"block_size": 16, "window": 1}}),
        }
    print(f"single frames             {found['single']:7.0f} frames a second")
    print(f"windows of three          {found['windows']:7.0f}")
    print(f"overlapping, in blocks    {found['overlapping']:7.0f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
