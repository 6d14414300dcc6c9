"""TensorFlow, Keras and Albumentations imported by Python stages, at a service's default settings."""

import importlib.util

import bulkhead
import numpy as np
import pytest
from conftest import numbers

CODE = {
    "tensorflow": "import tensorflow as tf\n\n\ndef double(index):\n    return (tf.constant(int(index), tf.int64) * 2).numpy()\n",
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
