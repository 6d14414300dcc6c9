"""`normalize: {at: trainer}` by the framework."""

import bulkhead.jax
import jax
import numpy as np
import pytest
from conftest import CONSTANTS, NORMALIZED, check_normalized
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MESH = Mesh(np.array(jax.devices()[:1]), ("data",))
PLACES = {
    "default": {},
    "device": {"device": jax.devices()[0]},
    "sharding": {"sharding": NamedSharding(MESH, PartitionSpec("data"))},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("constants", CONSTANTS, ids=["mean", "divide"])
@pytest.mark.parametrize("kind", NORMALIZED)
def test_arrays_are_normalized_where_they_are(tmp_path, kind, constants, place):
    def bits_of_first(spec):
        with bulkhead.jax.Loader(spec, structure=("image", "label"), **PLACES[place]) as loader:
            image, label = next(iter(loader))
            assert label.shape == (8,)
            if place == "sharding":
                assert image.sharding.is_equivalent_to(PLACES[place]["sharding"], image.ndim)
            return np.asarray(image)

    check_normalized(tmp_path, kind, constants, bits_of_first)
