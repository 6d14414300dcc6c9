"""Specs whose stage is a function of user_functions.py, and what comes of them."""

import numpy as np

import bulkhead
from conftest import write_spec


def over_range(folder, function, outputs, size=40, batch=4, **more):
    """A spec whose function gets `index`."""
    stage = {"function": f"user_functions:{function}", "inputs": ["index"], "outputs": outputs}
    stage.update(more.pop("stage", {}))
    return write_spec(folder / f"{function}.json", source={"range": {"size": size}}, stages=[{"python": stage}],
                      batch={"size": batch}, **{"epochs": 1, **more})


def number(name="index", dtype="int64"):
    return {"name": name, "dtype": dtype}


def read(service, spec, epochs=1):
    with bulkhead.Loader(spec, service.target, timeout=120) as loader:
        return [{name: np.array(batch[name]) for name in batch} for _ in range(epochs) for batch in loader]
