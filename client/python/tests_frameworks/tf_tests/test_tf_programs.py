"""Whole programs: the example, and TensorFlow beside gRPC and protobuf in every order of import."""


import pytest
from conftest import EXTENDED, ROOT, orders, run_python, stream_after_imports

IMPORTS = orders("tensorflow", "bulkhead.tf", "grpc")


@pytest.mark.parametrize("color", ["bgr", "gray"] if EXTENDED else ["bgr"])
def test_the_example_learns_the_same_when_its_service_is_killed(color):
    examples = ROOT / "examples"
    output = run_python(examples / "twice.py", examples / "keras_train.py", "--color", color)
    lines = output.splitlines()
    assert "the second time" not in "".join(line for line in lines if "loss" in line)
    losses = [float(line.split()[-1]) for line in lines if line.startswith("epoch ")]
    assert len(losses) >= 3 and min(losses) < 0.1
    assert "equal: " in output


def run_after_imports(*imports):
    then = "print(float(tensorflow.reduce_sum(tensorflow.ones((3, 3)) @ tensorflow.ones((3, 3)))))"
    return stream_after_imports(imports, then)


@pytest.mark.parametrize("imports", IMPORTS, ids="-".join)
def test_any_order_of_imports_works(import_runs, imports):
    assert import_runs[imports].result() == ["[0, 8, 16] 1", "27.0"]
