"""PyTorch, TensorFlow and JAX in one process with Bulkhead, whichever was imported first.

Each brings its own gRPC or protobuf in its shared libraries; Bulkhead uses those of Python.
"""

import json
import pathlib

import pytest
from conftest import orders, run_python, two_at_a_time

PROGRAM = pathlib.Path(__file__).with_name("read_together.py")
ORDERS = orders("bulkhead", "torch", "tensorflow", "jax")
IMAGES, BATCH = 40, 8


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What each order's process prints, of two that run at a time."""
    from patterns import draw

    folder = draw(tmp_path_factory.mktemp("images"), IMAGES, 32)
    cache = str(tmp_path_factory.mktemp("cache"))

    def run(*order):
        return run_python(PROGRAM, folder, *order, XDG_CACHE_HOME=cache)

    with two_at_a_time(run, ORDERS) as running:
        yield running


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_every_adapter_gets_the_same_bytes_whatever_was_imported_first(runs, order):
    result = json.loads(runs[order].result().splitlines()[-1])
    expected = result["plain"]
    assert expected[0] == IMAGES // BATCH
    assert result["adapters"] == {"torch": expected, "tf": expected, "jax": expected}
    assert result["before"] == [108.0, 108.0, 108.0]


def test_all_orders_give_the_same_bytes(runs):
    digests = {json.loads(run.result().splitlines()[-1])["plain"][1] for run in runs.values()}
    assert len(digests) == 1
