"""PyTorch imported by a Python stage, at a service's default settings."""

import bulkhead
import numpy as np
from conftest import numbers

CODE = """
import torch


def double(index):
    assert torch.get_num_threads() == 1
    return (torch.tensor(int(index)) * 2).numpy()[()]
"""


def test_torch_in_a_stage(tmp_path, monkeypatch):
    (tmp_path / "torch_stage.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    stage = {"function": "torch_stage:double", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    with bulkhead.Loader(numbers(8, 8, epochs=1, stages=[{"python": stage}]), timeout=300) as loader:
        [batch] = [np.array(batch["index"]) for batch in loader]
    assert batch.tolist() == list(range(0, 16, 2))
