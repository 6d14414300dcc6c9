"""Bulkhead through its Python client, which starts the service; `transport`: shm or grpc.

One worker of one thread for each core. The epoch is a single one and long, for which Bulkhead keeps nothing of a file
that it has decoded. With `later_epochs` the epochs are many and short, and the first is not measured: then Bulkhead
uses what it kept (docs/performance.md), by its default options. With `keeps` the stage `cache` keeps whole decoded photos
beside them, as other loaders do.
"""

import pathlib
import sys
import tempfile

import common

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
import box_records  # noqa: E402
from workloads import OUTPUTS, STAGES  # noqa: E402, which also finds the client

import bulkhead  # noqa: E402

IMAGE = {"name": "image", "dtype": "uint8", "shape": [common.SIZE, common.SIZE, 3]}
# A module of its own, as the documentation of Python stages asks for.
PYTHON = {"python": {"function": "lookup:process", "inputs": ["image"], "outputs": [IMAGE]}}


def spec_of(options):
    stages = STAGES["A" if options.workload == "python" else options.workload]
    if options.keeps:
        stages = [stages[0], {"cache": {}}, *stages[1:]]
    photos = options.short_list if options.later_epochs else options.list
    spec = {
        "source": {"image_list": {"path": photos, "delimiter": "tab", "unlabeled": True, "max_path_bytes": 4096}},
        "stages": [*stages, PYTHON] if options.workload == "python" else stages,
        "outputs": OUTPUTS.get(options.workload, ["image"]), "batch": {"size": common.BATCH, "drop_remainder": True}, "order": "global",
        "epochs": "forever" if options.later_epochs else 1,
    }
    if options.workload in ("C", "detection"):
        files = options.records if options.later_epochs else options.many_records
        spec.update(source={"tfrecord": {"files": files}}, features={"image": {"bytes": {}}})
    if options.workload == "detection":
        spec["features"]["boxes"] = {"float": {"shape": [-1, 4], "max_count": box_records.BOXES}}
        spec["stages"] = [*stages, {"convert_boxes": {"relative": False}}]  # pixels, as of the other loaders
    return spec


def batches(options):
    with tempfile.TemporaryDirectory(dir=options.data) as cache:
        with bulkhead.Loader(spec_of(options), workers=options.cores, threads=1, transport=options.transport,
                             cache_dir=cache) as loader:
            if options.later_epochs:
                for _ in loader:
                    pass
            for batch in loader.stream():
                yield (batch["image"], batch["boxes"]) if options.workload == "detection" else batch["image"]


if __name__ == "__main__":
    common.run(batches)
