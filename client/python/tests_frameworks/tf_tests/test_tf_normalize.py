"""`normalize: {at: trainer}` by the framework."""

import bulkhead.tf
import pytest
import tensorflow as tf
from conftest import CONSTANTS, NORMALIZED, check_normalized


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("constants", CONSTANTS, ids=["mean", "divide"])
@pytest.mark.parametrize("kind", NORMALIZED)
def test_elements_are_normalized(tmp_path, kind, constants, copy):
    def bits_of_first(spec):
        with bulkhead.tf.Loader(spec, structure=({"x": "image"}, "label"), copy=copy) as loader:
            (features, label), signature = next(iter(loader)), loader.stream().element_spec
            image = features["x"]
            assert signature[0]["x"].is_compatible_with(image) and signature[1].is_compatible_with(label)
            assert None not in signature[0]["x"].shape[1:]
            assert label.numpy().tolist() == next(iter(loader.validation()))[1].numpy().tolist()
            return tf.bitcast(image, tf.uint32 if image.dtype == tf.float32 else tf.uint16).numpy()

    check_normalized(tmp_path, kind, constants, bits_of_first)
