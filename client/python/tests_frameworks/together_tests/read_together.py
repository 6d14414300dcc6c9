"""Reads the same batches in one process by every adapter: read_together.py FOLDER MODULE…

Imports the modules in their order; `bulkhead` is not only imported there but used, so that gRPC is
loaded and connected before what follows. Then all adapters read at the same time, between steps of
their frameworks. Prints JSON: the digests of the bytes that came, and what the frameworks computed.
"""

import hashlib
import importlib
import json
import pathlib
import sys

import numpy as np

FOLDER, ORDER = pathlib.Path(sys.argv[1]), sys.argv[2:]
SPEC = {
    "source": {"image_folder": {"path": str(FOLDER)}},
    "stages": [
        {"decode_image": {"channels": 3}},
        {"random_resized_crop": {"size": [24, 24]}},
        {"normalize": {"divide": 127.5, "subtract": 1}},
        {"cast": {"input": "label", "dtype": "int32"}},
    ],
    "outputs": ["image", "label"],
    "batch": {"size": 8},
    "order": {"global": {}},
}


class Digest:
    def __init__(self):
        self._hash = hashlib.sha256()
        self.batches = 0

    def add(self, batch):
        for name in ("image", "label"):
            self._hash.update(np.ascontiguousarray(np.asarray(batch[name])).tobytes())
        self.batches += 1

    def facts(self):
        return [self.batches, self._hash.hexdigest()]


def plain():
    import bulkhead

    digest = Digest()
    with bulkhead.Loader(SPEC, workers=1) as loader:
        for batch in loader:
            digest.add(batch)
    return digest.facts()


def compute():
    """A gradient by each framework: theirs is the process, too."""
    import jax
    import tensorflow
    import torch

    x = torch.full((3, 3), 2.0, requires_grad=True)
    (x @ x).sum().backward()
    y = tensorflow.Variable(tensorflow.fill((3, 3), 2.0))
    with tensorflow.GradientTape() as tape:
        total = tensorflow.reduce_sum(y @ y)
    z = jax.jit(jax.grad(lambda z: (z @ z).sum()))(jax.numpy.full((3, 3), 2.0))
    return [float(x.grad.sum()), float(np.sum(tape.gradient(total, y))), float(z.sum())]


def by_all_adapters():
    import bulkhead.jax
    import bulkhead.tf
    import bulkhead.torch

    makers = {
        "torch": bulkhead.torch.Dataset,
        "tf": bulkhead.tf.Loader,
        "jax": bulkhead.jax.Loader,
    }
    digests = {name: Digest() for name in makers}
    loaders = {name: make(SPEC, workers=1) for name, make in makers.items()}
    elements = {name: iter(loader) for name, loader in loaders.items()}
    while elements:
        for name in list(elements):
            batch = next(elements[name], None)
            if batch is None:
                del elements[name]
            else:
                digests[name].add(batch)
                del batch
        compute()
    for loader in loaders.values():
        loader.close()
    return {name: digest.facts() for name, digest in digests.items()}


result = {}
for module in ORDER:
    importlib.import_module(module)
    if module == "bulkhead":
        result["plain"] = plain()
result["before"] = compute()
result["adapters"] = by_all_adapters()
print(json.dumps(result), flush=True)
