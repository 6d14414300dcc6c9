"""TensorFlow, Keras and Albumentations imported by Python stages, at a service's default settings."""

import importlib.util

import bulkhead
import numpy as np
import pytest
from conftest import numbers

CODE = {
    "tensorflow": """
import os
import tensorflow as tf


def threads():
    return len(os.listdir("/proc/self/task"))


BEFORE = threads()
TOTAL = tf.function(lambda a: tf.reduce_sum(tf.matmul(a, a)))


def double(index):
    # Not asked for in the process: what TensorFlow takes by itself is decided by the worker's environment.
    assert tf.config.threading.get_intra_op_parallelism_threads() == 0
    assert tf.config.threading.get_inter_op_parallelism_threads() == 0
    assert TOTAL(tf.ones((300, 300))).numpy() == 300**3
    # The worker's decode thread; of TensorFlow one that runs graphs, and one in each of its two pools.
    assert threads() <= BEFORE + 4, threads()
    return (tf.constant(int(index), tf.int64) * 2).numpy()
""",
    "keras": "import keras\n\n\ndef double(index):\n    return keras.ops.convert_to_numpy(keras.ops.multiply(index, 2))[()]\n",
    "albumentations": "import albumentations\n\n\ndef double(index):\n    return index * 2\n",
}


@pytest.mark.parametrize("package", CODE)
def test_it_is_imported_in_a_stage(package, tmp_path, monkeypatch):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not in this environment")
    (tmp_path / f"{package}_stage.py").write_text(CODE[package])
    monkeypatch.syspath_prepend(str(tmp_path))
    stage = {"function": f"{package}_stage:double", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    with bulkhead.Loader(numbers(8, 8, epochs=1, stages=[{"python": stage}]), timeout=300) as loader:
        [batch] = [np.array(batch["index"]) for batch in loader]
    assert batch.tolist() == list(range(0, 16, 2))
