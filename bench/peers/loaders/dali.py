"""NVIDIA's DALI on the CPU.

Only the crop is decoded (decoders.image_random_crop); the floats are made by crop_mirror_normalize, which mirrors, too.
The resize is not antialiased, as those of Bulkhead, tf.data and OpenCV are not; with DALI's default, which is, it was
slower. As many threads as cores, and two batches ahead, which is the default. Batches are handed out as NumPy views.
The Python function runs in DALI's own python_function, which is called for one sample at a time.
"""

import glob
import pathlib
import struct

import common
import numpy as np
from nvidia.dali import fn, pipeline_def, tfrecord, types

TABLE = common.gamma_table()
PREFIX = struct.Struct("<Q4x")  # a record's length, and its checksum
RESIZE = {"size": common.SIZE, "interp_type": types.INTERP_LINEAR, "antialias": False}


def index_of(file):
    """Where DALI's index of a TFRecord file is; DALI's tool tfrecord2idx writes the same lines."""
    index, data, at, lines = pathlib.Path(f"{file}.idx"), pathlib.Path(file).read_bytes(), 0, []
    while at < len(data):
        size = PREFIX.size + PREFIX.unpack_from(data, at)[0] + 4
        lines.append(f"{at} {size}\n")
        at += size
    index.write_text("".join(lines))
    return str(index)


@pipeline_def
def pipeline(options):
    if options.workload in ("C", "detection"):
        files = sorted(glob.glob(options.records))
        features = {"image": tfrecord.FixedLenFeature((), tfrecord.string, "")}
        if options.workload == "detection":
            features["boxes"] = tfrecord.FixedLenFeature((common.BOXES, 4), tfrecord.float32, 0.0)
        data = fn.readers.tfrecord(path=files, index_path=[index_of(file) for file in files], features=features,
                                   random_shuffle=True)
        images = fn.decoders.image(data["image"], output_type=types.RGB)
        if options.workload == "C":
            return fn.resize(images, **RESIZE)
        mirror = fn.random.coin_flip()
        images = fn.resize(fn.flip(images, horizontal=mirror), **{**RESIZE, "size": [common.DETECTION_SIZE] * 2})
        return images, common.DETECTION_SIZE * fn.bb_flip(data["boxes"], ltrb=True, horizontal=mirror)
    data, _ = fn.readers.file(files=common.paths(options.list), random_shuffle=True)
    images = fn.decoders.image_random_crop(data, output_type=types.RGB, random_area=common.AREA,
                                           random_aspect_ratio=common.ASPECT, num_attempts=common.TRIES)
    images = fn.resize(images, **RESIZE)
    mirror = fn.random.coin_flip()
    if options.workload == "B":
        return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=common.MEAN,
                                        std=common.STD, mirror=mirror)
    images = fn.flip(images, horizontal=mirror)
    if options.workload == "python":
        images = fn.python_function(images, function=lambda image: TABLE[image])
    return images


def batches(options):
    made = pipeline(options, batch_size=common.BATCH, num_threads=options.cores, device_id=None, seed=1)
    made.build()
    while True:
        arrays = tuple(np.asarray(output.as_tensor()) for output in made.run())
        yield arrays if options.workload == "detection" else arrays[0]


if __name__ == "__main__":
    common.run(batches)
