"""tf.data, in the trainer's process or in a tf.data service of its own (`service`).

As TensorFlow's guide to the performance of tf.data says: parallel map with AUTOTUNE, batches after it, prefetch, and an
order that need not be deterministic. Only the crop is decoded (decode_and_crop_jpeg). Threads: a private pool with one
for each core, and no second level of threads inside an operation. Floats are made of bytes that were transposed, which
was the fastest of several ways to write it: half as fast again as normalizing before the transposition. The service has
one dispatcher and one worker, on the same cores; its batches travel uncompressed, since on one machine compression only
costs.

With `keeps`, memory or disk, whole decoded photos are kept by Dataset.cache, as the guide says for work that is the same
in each epoch; the crop is cut from them. The first epoch is not measured.
"""

import glob
import subprocess
import sys

import common
import tensorflow as tf

SHUFFLED_RECORDS = 1024
# For each channel, so that a product and a sum normalize it.
SCALE = tf.constant([[[1 / std]] for std in common.STD])
OFFSET = tf.constant([[[-mean / std]] for mean, std in zip(common.MEAN, common.STD)])
# A dispatcher, or a worker of the dispatcher that the argument names; prints its address.
SERVER = """
import sys
from tensorflow.data.experimental import service
if sys.argv[1:]:
    server = service.WorkerServer(service.WorkerConfig(dispatcher_address=sys.argv[1]))
    print("ready", flush=True)
else:
    server = service.DispatchServer()
    print(server.target.partition("://")[2], flush=True)
server.join()
"""


def start(*arguments):
    process = subprocess.Popen([sys.executable, "-c", SERVER, *arguments], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def random_crop(path):
    data = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(data), tf.zeros([1, 0, 4]), min_object_covered=0, area_range=common.AREA,
        aspect_ratio_range=common.ASPECT, max_attempts=common.TRIES, use_image_if_no_bounding_boxes=True,
    )
    image = tf.io.decode_and_crop_jpeg(data, tf.concat([begin[:2], size[:2]], 0), channels=3)
    return tf.image.resize(image, [common.SIZE, common.SIZE])


def whole(path):
    return tf.io.decode_jpeg(tf.io.read_file(path), channels=3)


def crop_of_whole(image):
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.shape(image), tf.zeros([1, 0, 4]), min_object_covered=0, area_range=common.AREA,
        aspect_ratio_range=common.ASPECT, max_attempts=common.TRIES, use_image_if_no_bounding_boxes=True,
    )
    resized = tf.image.resize(tf.slice(image, begin, size), [common.SIZE, common.SIZE])
    return tf.image.random_flip_left_right(tf.cast(resized, tf.uint8))


def as_bytes(path):
    return tf.image.random_flip_left_right(tf.cast(random_crop(path), tf.uint8))


def as_floats(path):
    channels = tf.cast(tf.transpose(as_bytes(path), [2, 0, 1]), tf.float32)
    return channels * SCALE + OFFSET


def looked_up(path):
    table = common.gamma_table()
    image = tf.numpy_function(lambda pixels: table[pixels], [as_bytes(path)], tf.uint8)
    return tf.ensure_shape(image, [common.SIZE, common.SIZE, 3])


def from_record(record):
    data = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
    return tf.cast(tf.image.resize(tf.io.decode_jpeg(data, channels=3), [common.SIZE, common.SIZE]), tf.uint8)


def with_boxes(record):
    parts = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string), "boxes": tf.io.FixedLenFeature([common.BOXES, 4], tf.float32)})
    image, boxes = tf.io.decode_jpeg(parts["image"], channels=3), common.DETECTION_SIZE * parts["boxes"]
    if tf.random.uniform([]) < 0.5:
        left, top, right, bottom = tf.unstack(boxes, axis=1)
        image = tf.image.flip_left_right(image)
        boxes = tf.stack([common.DETECTION_SIZE - right, top, common.DETECTION_SIZE - left, bottom], axis=1)
    return tf.cast(tf.image.resize(image, [common.DETECTION_SIZE] * 2), tf.uint8), boxes


def records_of(options):
    files = sorted(glob.glob(options.records))
    records = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat().interleave(
        tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    return records.shuffle(SHUFFLED_RECORDS)


def kept(options):
    """The decoded photos, without end; an epoch of them has been made."""
    photos = common.paths(options.short_list)
    file = f"{options.data}/decoded" if options.keeps == "disk" else ""
    dataset = tf.data.Dataset.from_tensor_slices(photos).map(whole, num_parallel_calls=tf.data.AUTOTUNE).cache(file)
    for _ in dataset:
        pass
    return dataset.shuffle(len(photos)).repeat()


def batches(options):
    if options.keeps:
        dataset, process = kept(options), crop_of_whole
    elif options.workload in ("C", "detection"):
        dataset, process = records_of(options), {"C": from_record, "detection": with_boxes}[options.workload]
    else:
        photos = common.paths(options.list)
        dataset = tf.data.Dataset.from_tensor_slices(photos).shuffle(len(photos))
        process = {"A": as_bytes, "B": as_floats, "python": looked_up}[options.workload]
    dataset = dataset.map(process, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(common.BATCH, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    servers = []
    if options.service:
        dispatcher, address = start()
        servers = [dispatcher, start(address)[0]]
        dataset = dataset.apply(tf.data.experimental.service.distribute(
            tf.data.experimental.service.ShardingPolicy.OFF, f"grpc://{address}", compression=None))
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
    choices = tf.data.Options()
    choices.deterministic = False
    choices.autotune.cpu_budget = options.cores
    choices.threading.private_threadpool_size = options.cores
    choices.threading.max_intra_op_parallelism = 1
    yield from dataset.with_options(choices).as_numpy_iterator()
    for server in servers:
        server.kill()


if __name__ == "__main__":
    common.run(batches)
