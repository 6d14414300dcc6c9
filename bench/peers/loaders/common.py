"""What the loaders of this folder share: the work, and how it is measured.

A loader is a program that bench/peers/run.py starts in an environment of its own. Its first argument is JSON:

    workload      A, B, C or python (bench/peers/run.py)
    list          a file with the paths of the photos, one a line, in a random order; long enough for the whole run
    short_list    the same with each photo once
    records       a pattern of the TFRecord files for C; each photo is in them once
    many_records  the same with as many names for each file as make an epoch long enough for the whole run
    data          a folder for data in a format of the loader's own
    cores         how many CPU cores it shares with its workers; it cannot use others
    warm_up       seconds that are not measured
    seconds       seconds that are measured
    prepare       whether it shall only write that data

The trainer is a loop that takes batches and reads one number of each. What is measured begins with the first batch
after the warm-up and ends with a batch, so loaders that hand out several batches at once are not favoured by what lies
in their queues.
"""

import json
import math
import os
import pathlib
import sys
import time
import traceback
import types

BATCH, SIZE = 64, 224
DETECTION_SIZE, BOXES = 640, 8
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)  # of a random crop: torchvision's defaults
TRIES = 10
GAMMA = 1.2


class LeakingTable:
    """A table that keeps so many bytes of memory with each look, as bench/peers/pod.py wants it."""

    def __init__(self, table, leak):
        self._table, self._leak, self._kept = table, leak, []

    def __getitem__(self, image):
        self._kept.append(b"x" * self._leak)
        return self._table[image]


def gamma_table():
    """What the function of the workload `python` looks up: for every byte another one."""
    import numpy as np

    table = np.round(255 * (np.arange(256) / 255) ** GAMMA).astype(np.uint8)
    leak = int(os.environ.get("BENCH_LEAK_BYTES", 0))
    return LeakingTable(table, leak) if leak else table


def paths(file):
    return pathlib.Path(file).read_text().splitlines()


def random_box(width, height, rng):
    """x, y, width and height of a random crop, as torchvision's RandomResizedCrop draws it; `rng`: random.Random."""
    for _ in range(TRIES):
        area = width * height * rng.uniform(*AREA)
        aspect = math.exp(rng.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def check(batch, workload):
    """Bytes may be NHWC or NCHW, whichever the loader gives by itself; floats are NCHW."""
    size = DETECTION_SIZE if workload == "detection" else SIZE
    nhwc, nchw = (BATCH, size, size, 3), (BATCH, 3, size, size)
    wanted = ("float32", [nchw]) if workload == "B" else ("uint8", [nhwc, nchw])
    found = str(batch.dtype).rpartition(".")[2], tuple(batch.shape)
    if found[0] != wanted[0] or found[1] not in wanted[1]:
        raise RuntimeError(f"a batch is {found}, not {wanted}")


def check_boxes(boxes):
    left, top, right, bottom = boxes.reshape(-1, 4).T
    ordered = (left <= right).all() and (top <= bottom).all()
    if len(left) != BATCH * BOXES or not ordered or not 0 <= boxes.min() < DETECTION_SIZE / 2 < boxes.max() <= DETECTION_SIZE:
        raise RuntimeError(f"the boxes of a batch are {boxes.shape}, from {boxes.min()} to {boxes.max()}")


def boxes_by_path(options):
    """Corners as shares of the image of each photo, those of the records."""
    import numpy as np

    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
    import box_records

    photos = paths(options.short_list)
    return {path: np.array(box_records.boxes_of(number), np.float32).reshape(BOXES, 4)
            for number, path in enumerate(photos)}


def measured(batches, options):
    began = time.perf_counter()
    first = start = before = None
    count, longest = 0, 0.0
    progress = pathlib.Path(os.environ["BENCH_PROGRESS"]) if "BENCH_PROGRESS" in os.environ else None
    for batch in batches(options):
        now = time.perf_counter()
        longest = max(longest, now - (before or now))
        before = now
        if options.workload == "detection":
            batch, boxes = batch
            check_boxes(boxes)
        batch[-1, -1, -1, -1].item()
        if first is None:
            first = now - began
            check(batch, options.workload)
        elif start:
            count += 1
            if progress:
                progress.write_text(str(count * BATCH))
            if now - start >= options.seconds:
                break
        elif now - began - first >= options.warm_up:
            start, cpu = now, time.process_time()
        del batch
    if not count:
        raise RuntimeError("the list of photos ended before the measurement: give --names a larger number")
    images = count * BATCH
    return {
        "images": images, "seconds": now - start, "images_per_second": images / (now - start),
        "first_batch_seconds": first, "longest_wait_seconds": longest,
        "trainer_cpu_seconds_per_1000": 1000 * (time.process_time() - cpu) / images,
    }


def run(batches, prepare=None):
    """`batches(options)` gives arrays without end, or until the list ends, of the workload `detection` pairs of images and
    boxes, NumPy's, in pixels; `prepare(options)` writes data for them."""
    options = types.SimpleNamespace(**json.loads(sys.argv[1]))
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some loaders print words of their own
    try:
        if options.prepare:
            prepare(options)
        else:
            answer.write(json.dumps(measured(batches, options)) + "\n")
            answer.flush()
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # without waiting for threads that know of no mistake
