"""What one resize to 640 × 640 costs in a worker: by the stage `resize`, by OpenCV in Python, and by scikit-image's way.

    python examples/face/resize_cost.py FOLDER [--samples 100]

FOLDER holds the records that `bulkhead synth FOLDER --schema face` writes. Each way is a pipeline of its own: decode_image, then the
resize. The worker's own clock says how long each stage took; the service passes it on (bulkhead.service_status).

scikit-image itself is measured when this interpreter has it. Needs the `bulkhead` package on the path, cv2, and
bulkheadd on the PATH or named by $BULKHEAD_SERVER.
"""

import argparse
import importlib.util
import pathlib

import bulkhead

BATCH = 10
OUTPUT = [{"name": "image", "dtype": "uint8", "shape": [640, 640, 3]}]


def python_stage(function):
    return {"python": {"function": f"resizing:{function}", "outputs": OUTPUT}}


def ways():
    """Names of the ways and their stages."""
    found = {
        "stage `resize` (OpenCV in C++)": {"resize": {"size": 640}},
        "OpenCV in a Python stage": python_stage("opencv"),
        "scikit-image's way, in NumPy": python_stage("numpy_float64"),
    }
    if importlib.util.find_spec("skimage"):
        found["scikit-image itself"] = python_stage("scikit_image")
    return found


def stage_seconds(loader, name):
    """(seconds, samples) that all workers so far spent in the stage that is called `name`."""
    stages = [
        stage
        for worker in bulkhead.service_status(loader.target)["workers"]
        for stage in worker["stages"]
        if stage["stage"] == name
    ]
    return sum(stage["busy_seconds"] for stage in stages), sum(stage["runs"] for stage in stages)


def cost(folder, stage, samples):
    """Seconds a sample in `stage`, without those of the first batch, in which modules and caches warm up."""
    spec = {
        "source": {"tfrecord": {"files": [str(folder / "pos-*.tfrecord"), str(folder / "neg-*.tfrecord")]}},
        "features": {"image": {"key": "img_raw", "bytes": {}}},
        "stages": ["decode_image", stage],
        "batch": {"size": BATCH},
    }
    name = f"stages[1] {next(iter(stage))}"
    with bulkhead.Loader(spec, workers=1, credits=1) as loader:
        loader.next_batch()
        warm_seconds, warm_runs = stage_seconds(loader, name)
        runs = warm_runs
        while runs < warm_runs + samples:
            loader.next_batch()
            seconds, runs = stage_seconds(loader, name)
    return (seconds - warm_seconds) / (runs - warm_runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=100)
    arguments = parser.parse_args()

    costs = {
        name: cost(arguments.folder.resolve(), stage, arguments.samples) for name, stage in ways().items()
    }
    least = costs["OpenCV in a Python stage"]
    for name, seconds in costs.items():
        print(f"{name:32} {seconds * 1e3:8.2f} ms a sample {seconds / least:8.1f} x")


if __name__ == "__main__":
    main()
