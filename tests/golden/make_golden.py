"""Writes the golden data: records by TensorFlow, and what TensorFlow, OpenCV and NumPy make of them.

    python3 -m venv env && env/bin/pip install tensorflow-cpu "opencv-python-headless<5"
    env/bin/python make_golden.py data

golden_source_test.cc and golden_pixels_test.cc reads the records through Bulkhead and compares bit for bit. Everything is seeded; the
JPEGs are encoded by OpenCV, so another version may write other (equally valid) files.

data/<name>.tfrecord      the same records uncompressed, GZIP and ZLIB
data/<record>.<what>.bin  little-endian arrays, row-major
data/manifest.txt         one line an array: record, feature or picture, dtype, shape, file
data/versions.txt         what wrote this
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import cv2
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

# name: height, width, channels, JPEG quality, sampling factor (OpenCV's)
PICTURES = [
    ("rgb420", 37, 53, 3, 85, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420),
    ("rgb444", 41, 30, 3, 92, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
    ("gray", 29, 47, 1, 90, None),
    ("rgb422", 48, 33, 3, 80, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422),
]
RESIZE = (24, 32)  # height, width
INTERPOLATIONS = {
    "linear": cv2.INTER_LINEAR,
    "area": cv2.INTER_AREA,
    "nearest": cv2.INTER_NEAREST,
    "cubic": cv2.INTER_CUBIC,
}


def picture(height, width, channels, rng):
    """Smooth gradients, an edge and some noise: every frequency a photo has."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = []
    for c in range(channels):
        plane = 128 + 80 * np.sin(x / (5 + 2 * c)) * np.cos(y / (7 - c)) + 30 * (x > width / 2)
        planes.append(plane + rng.normal(0, 8, plane.shape))
    return np.clip(np.stack(planes, axis=-1), 0, 255).astype(np.uint8)


def jpeg(height, width, channels, quality, sampling, rng):
    options = [cv2.IMWRITE_JPEG_QUALITY, quality]
    if sampling is not None:
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
    ok, encoded = cv2.imencode(".jpg", picture(height, width, channels, rng), options)
    assert ok
    return encoded.tobytes()


def bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def int64_feature(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def float_feature(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def tensor_feature(tensor):
    return bytes_feature(tf.io.serialize_tensor(tensor).numpy())


def typed_tensor_feature(array):
    """A tensor whose values stand in the typed fields, not in tensor_content."""
    proto = tf.make_tensor_proto(array)
    typed = tensor_pb2.TensorProto(dtype=proto.dtype, tensor_shape=proto.tensor_shape)
    field = {np.dtype("float32"): typed.float_val, np.dtype("float64"): typed.double_val}[array.dtype]
    field.extend(array.ravel().tolist())
    return bytes_feature(typed.SerializeToString())


def records(rng):
    """(name, tf.train.Example) in order."""
    boxes = [
        lambda: tensor_feature(tf.constant(rng.random((3, 4)), tf.float32)),
        lambda: tensor_feature(tf.zeros([0], tf.float32)),
        lambda: tensor_feature(tf.zeros([0, 4], tf.float32)),
        lambda: tensor_feature(tf.constant(rng.random((2, 4)), tf.float64)),
    ]
    for i, (name, *form) in enumerate(PICTURES):
        feature = {
            "image": bytes_feature(jpeg(*form, rng)),
            "label": int64_feature([i - 1]),
            "ids": int64_feature([int(v) for v in rng.integers(-(2**62), 2**62, size=i)]),
            "weights": float_feature([float(np.float32(v)) for v in rng.normal(size=3)]),
            "boxes": boxes[i](),
            "typed": typed_tensor_feature(rng.normal(size=(2, 2)).astype(np.float32)),
            "splat": tensor_feature(tf.fill([2, 3], np.int32(-5 - i))),
            "half": tensor_feature(tf.constant(rng.normal(size=4), tf.float16)),
            "undeclared": float_feature([1.0]),
        }
        if i != 2:
            feature["name"] = bytes_feature(name.encode())
        yield name, tf.train.Example(features=tf.train.Features(feature=feature))


def parse(serialized):
    """What TensorFlow's own parser gives for the features that golden_source_test.cc and golden_pixels_test.cc declares."""
    parsed = tf.io.parse_single_example(
        serialized,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
            "ids": tf.io.VarLenFeature(tf.int64),
            "weights": tf.io.FixedLenFeature([3], tf.float32),
            "boxes": tf.io.FixedLenFeature([], tf.string),
            "typed": tf.io.FixedLenFeature([], tf.string),
            "splat": tf.io.FixedLenFeature([], tf.string),
            "half": tf.io.FixedLenFeature([], tf.string),
            "name": tf.io.FixedLenFeature([], tf.string, default_value="nobody"),
        },
    )
    # The boxes' element type differs from record to record: only the tensor itself knows it.
    boxes = tensor_pb2.TensorProto.FromString(parsed["boxes"].numpy())
    boxes = tf.io.parse_tensor(parsed["boxes"], tf.dtypes.as_dtype(boxes.dtype))
    return {
        "image": np.frombuffer(parsed["image"].numpy(), np.uint8),
        "label": parsed["label"].numpy(),
        "ids": parsed["ids"].values.numpy(),
        "weights": parsed["weights"].numpy(),
        "boxes": tf.cast(boxes, tf.float32).numpy(),
        "typed": tf.io.parse_tensor(parsed["typed"], tf.float32).numpy(),
        "splat": tf.io.parse_tensor(parsed["splat"], tf.int32).numpy(),
        "half": tf.io.parse_tensor(parsed["half"], tf.float16).numpy(),
        "name": np.frombuffer(parsed["name"].numpy(), np.uint8),
    }


def pixels(encoded):
    """Decoded, resized and normalized pixels by TensorFlow, OpenCV and NumPy."""
    rgb = tf.io.decode_jpeg(
        encoded, channels=3, dct_method="INTEGER_ACCURATE", fancy_upscaling=True
    ).numpy()
    buffer = np.frombuffer(encoded, np.uint8)
    bgr = cv2.imdecode(buffer, cv2.IMREAD_COLOR)
    result = {
        "tf_rgb": rgb,
        "cv_bgr": bgr,
        "cv_gray": cv2.imdecode(buffer, cv2.IMREAD_GRAYSCALE)[:, :, None],
    }
    for name, flag in INTERPOLATIONS.items():
        result[f"cv_{name}"] = cv2.resize(bgr, (RESIZE[1], RESIZE[0]), interpolation=flag)
    linear = result["cv_linear"]
    result["np_normalized"] = linear.astype(np.float32) / np.float32(127.5) - np.float32(1)
    assert result["np_normalized"].dtype == np.float32
    return result


def main(folder):
    # PyPI's x86 OpenCV hands cubic resizing to Intel's IPP, which rounds some pixels otherwise; the
    # reference is OpenCV's own code, the same on every machine.
    cv2.ipp.setUseIPP(False)
    os.makedirs(folder, exist_ok=True)
    written = [(name, e.SerializeToString(deterministic=True)) for name, e in records(np.random.default_rng(20))]
    for name, compression in [("plain", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")]:
        path = os.path.join(folder, name + ".tfrecord")
        with tf.io.TFRecordWriter(path, compression) as writer:
            for _, serialized in written:
                writer.write(serialized)
    lines = []
    plain = tf.data.TFRecordDataset(os.path.join(folder, "plain.tfrecord"))
    for (record, serialized), read in zip(written, plain, strict=True):
        assert read.numpy() == serialized
        arrays = parse(read)
        arrays |= pixels(arrays["image"].tobytes())
        for what, array in arrays.items():
            array = np.ascontiguousarray(array)
            file = f"{record}.{what}.bin"
            with open(os.path.join(folder, file), "wb") as out:
                out.write(array.astype(array.dtype.newbyteorder("<")).tobytes())
            shape = "x".join(map(str, array.shape)) or "-"
            lines.append(f"{record} {what} {array.dtype} {shape} {file}")
    with open(os.path.join(folder, "manifest.txt"), "w") as out:
        out.write("\n".join(lines) + "\n")
    with open(os.path.join(folder, "versions.txt"), "w") as out:
        out.write(f"tensorflow {tf.__version__}\nopencv {cv2.__version__}\nnumpy {np.__version__}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
