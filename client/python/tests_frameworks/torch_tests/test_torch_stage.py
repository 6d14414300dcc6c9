"""PyTorch, alone and beside Albumentations, imported by a Python stage, at a service's default settings."""

import bulkhead
import numpy as np
import pytest
from conftest import numbers

CODE = {
    "alone": """
import torch


def double(index):
    assert torch.get_num_threads() == 1
    return (torch.tensor(int(index)) * 2).numpy()[()]
""",
    "beside albumentations": """
import albumentations
import cv2
import numpy as np
import torch

FLIP = albumentations.Compose([albumentations.HorizontalFlip(p=1)])


def double(index):
    assert torch.get_num_threads() == cv2.getNumThreads() == 1
    image = np.zeros((4, 6, 3), np.uint8)
    image[:, 0] = index
    flipped = torch.from_numpy(FLIP(image=image)["image"].copy())
    return 2 * flipped[0, -1, 0].numpy().astype(np.int64)[()]
""",
}


@pytest.mark.parametrize("code", CODE.values(), ids=CODE)
def test_torch_in_a_stage(code, tmp_path, monkeypatch):
    (tmp_path / "torch_stage.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    stage = {"function": "torch_stage:double", "inputs": ["index"], "outputs": [{"name": "index", "dtype": "int64"}]}
    with bulkhead.Loader(numbers(8, 8, epochs=1, stages=[{"python": stage}]), timeout=300) as loader:
        [batch] = [np.array(batch["index"]) for batch in loader]
    assert batch.tolist() == list(range(0, 16, 2))
