"""Whole programs: the example, JAX beside gRPC in any order of import."""


import pytest
from conftest import ROOT, orders, run_python, stream_after_imports

IMPORTS = orders("jax", "bulkhead.jax", "grpc", "google.protobuf")


def test_the_example_learns_the_same_when_its_service_is_killed():
    examples = ROOT / "examples"
    output = run_python(examples / "twice.py", examples / "jax_train.py")
    losses = [line for line in output.splitlines() if line.startswith("epoch ")]
    assert len(losses) > 90 and "the second time" not in "".join(losses)
    assert float(losses[-1].split()[-1]) < float(losses[0].split()[-1]) / 10
    assert "equal: " in output


def run_after_imports(*imports):
    then = "print(float((jax.numpy.ones((3, 3)) @ jax.numpy.ones((3, 3))).sum()))"
    return stream_after_imports(imports, then)


@pytest.mark.parametrize("imports", IMPORTS, ids="-".join)
def test_any_order_of_imports_works(import_runs, imports):
    assert import_runs[imports].result() == ["[0, 8, 16] 1", "27.0"]
