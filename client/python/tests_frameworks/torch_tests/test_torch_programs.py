"""Whole programs: the example, and PyTorch beside gRPC in every order of import."""

import re
import subprocess

import pytest
import torch
from conftest import BIN, ROOT, orders, run_python, stream_after_imports

IMPORTS = orders("torch", "bulkhead.torch", "grpc", "google.protobuf")


def test_the_example_learns_the_same_when_its_service_is_killed():
    examples = ROOT / "examples"
    output = run_python(examples / "twice.py", examples / "torch_train.py")
    losses = [line for line in output.splitlines() if line.startswith("epoch ")]
    assert len(losses) > 90 and "the second time" not in "".join(losses)
    assert float(losses[-1].split()[-1]) < float(losses[0].split()[-1]) / 10
    assert "equal: " in output


def test_the_program_of_the_first_hour_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/first-hour.md").read_text()
    files = dict(re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    for name in ("train.yaml", "torch_train.py"):
        (tmp_path / name).write_text(files[name])
    [drawn] = re.findall(r"^\$ bulkhead (synth .*) 2>", page, re.MULTILINE)
    subprocess.run([BIN / "bulkhead", *drawn.split()], check=True, capture_output=True)
    losses = [float(line.split()[-1]) for line in run_python("torch_train.py").splitlines()]
    assert len(losses) == 3 and max(losses) < 3
    assert torch.load("checkpoint.pt")["loader"]["epoch"] == 3


def run_after_imports(*imports):
    then = "print(torch.ones(3, 3).matmul(torch.ones(3, 3)).sum().item())"
    return stream_after_imports((*imports, "torch"), then)


@pytest.mark.parametrize("imports", IMPORTS, ids="-".join)
def test_any_order_of_imports_works(import_runs, imports):
    assert import_runs[imports].result() == ["[0, 8, 16] 1", "27.0"]
