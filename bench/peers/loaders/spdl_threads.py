"""SPDL: threads in the trainer's process, whose native functions release the interpreter's lock.

FFmpeg decodes, crops, resizes and flips in one filter graph, as SPDL's own examples of image classification do. A
thread for each core; batches are assembled by the same threads.
"""

import random

import common
import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

TABLE = common.gamma_table()
MEAN, STD = (np.array(values, np.float32)[:, None, None] for values in (common.MEAN, common.STD))


def endless(names):
    while True:
        random.shuffle(names)
        yield from names


def decode(path):
    packets = spdl.io.demux_image(path)
    x, y, width, height = common.random_box(packets.width, packets.height, random)
    flip = ",hflip" if random.random() < 0.5 else ""
    graph = f"crop={width}:{height}:{x}:{y},scale={common.SIZE}:{common.SIZE}:flags=bilinear{flip},format=rgb24"
    return spdl.io.decode_packets(packets, filter_desc=graph)


def look_up(frames):
    return TABLE[spdl.io.to_numpy(spdl.io.convert_frames(frames))]


def collate(frames):
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def normalize(frames):
    images = np.ascontiguousarray(collate(frames).transpose(0, 3, 1, 2), dtype=np.float32)
    images -= MEAN
    images /= STD
    return images


def batches(options):
    photos = common.paths(options.list)
    decode(photos[0])  # which loads FFmpeg's libraries: if they are missing, the pipeline would never end
    builder = PipelineBuilder().add_source(endless(photos)).pipe(decode, concurrency=options.cores)
    if options.workload == "python":
        builder = builder.pipe(look_up, concurrency=options.cores)
    assemble = {"A": collate, "B": normalize, "python": np.stack}[options.workload]
    builder = builder.aggregate(common.BATCH, drop_last=True).pipe(assemble, concurrency=options.cores).add_sink(2)
    pipeline = builder.build(num_threads=options.cores)
    with pipeline.auto_stop():
        yield from pipeline


if __name__ == "__main__":
    common.run(batches)
