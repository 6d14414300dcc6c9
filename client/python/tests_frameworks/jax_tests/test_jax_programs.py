"""Whole programs: the example, two processes of a job, JAX beside gRPC in any order of import."""

import itertools
import json
import os
import socket
import subprocess
import sys

import pytest
from conftest import ROOT, numbers, run_python, stream_after_imports


def test_the_example_learns_the_same_when_its_service_is_killed():
    examples = ROOT / "examples"
    output = run_python(examples / "twice.py", examples / "jax_train.py")
    losses = [line for line in output.splitlines() if line.startswith("epoch ")]
    assert len(losses) > 90 and "the second time" not in "".join(losses)
    assert float(losses[-1].split()[-1]) < float(losses[0].split()[-1]) / 10
    assert "equal: " in output


PROCESS = """
import json, sys, jax, numpy
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
import bulkhead.jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(numpy.array(jax.devices()), ("data",))
with bulkhead.jax.Loader({spec}, sharding=NamedSharding(mesh, PartitionSpec("data"))) as loader:
    batches = [batch["index"] for batch in loader]
parts = [[shard.data.tolist() for shard in batch.addressable_shards] for batch in batches]
print(json.dumps(list(zip([batch.shape for batch in batches], parts))))
"""


def test_two_processes_put_their_parts_together():
    program = PROCESS.format(spec=json.dumps(numbers(16, 4)))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, address, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        for number in range(2)
    ]
    parts = []
    try:
        for process in processes:
            output, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            parts.append(json.loads(output.splitlines()[-1]))
    finally:
        for process in processes:
            process.kill()
    assert parts == [
        [[[8], [[0, 1, 2, 3]]], [[8], [[8, 9, 10, 11]]]],
        [[[8], [[4, 5, 6, 7]]], [[8], [[12, 13, 14, 15]]]],
    ]


@pytest.mark.parametrize(
    "imports", list(itertools.permutations(["jax", "bulkhead.jax", "grpc", "google.protobuf"]))
)
def test_any_order_of_imports_works(imports):
    then = "print(float((jax.numpy.ones((3, 3)) @ jax.numpy.ones((3, 3))).sum()))"
    assert stream_after_imports(imports, then) == ["[0, 8, 16] 1", "27.0"]
