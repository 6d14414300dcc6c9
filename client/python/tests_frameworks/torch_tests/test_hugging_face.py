"""Hugging Face's Trainer and Accelerate with a bulkhead.torch.DataLoader."""

import json
import os
import sys

import bulkhead
import pytest
import torch
from bulkhead.torch import DataLoader


def test_trainer_goes_on_amid_an_epoch(tmp_path, monkeypatch, capsys):
    import hugging_face_train

    def steps(*options):
        monkeypatch.setattr(sys, "argv", ["hugging_face_train.py", str(tmp_path), *options])
        hugging_face_train.main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("[")]

    begun = steps("--steps", "15")
    ended = steps("--resume")
    assert len(begun) == 15 and len(ended) == 9
    for epoch in (begun[:12], begun[12:] + ended):
        assert sorted(sum(epoch, [])) == list(range(96))


@pytest.fixture
def own(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    import own_datasets

    return own_datasets


def test_accelerate_leaves_the_loader_as_it_is(own, tmp_path):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    with DataLoader(own.Numbers(), batch_size=8) as loader:
        prepared = accelerator.prepare(loader)
        assert prepared is loader
        assert torch.cat(list(prepared)).tolist() == list(range(24))
        accelerator.save_state(tmp_path / "state")
        accelerator.load_state(tmp_path / "state")


def test_a_loader_that_accelerate_would_not_split_is_refused(own, monkeypatch):
    from accelerate.state import PartialState

    monkeypatch.setattr(PartialState(cpu=True), "num_processes", 2)
    with DataLoader(own.Numbers(), batch_size=8) as loader:
        with pytest.raises(bulkhead.InvalidArgument, match="there are 2 processes, .* sampler=DistributedSampler"):
            loader._is_accelerate_prepared
    sampler = torch.utils.data.distributed.DistributedSampler(own.Numbers(), num_replicas=2, rank=1)
    with DataLoader(own.Numbers(), batch_size=6, sampler=sampler) as loader:
        assert loader._is_accelerate_prepared
