"""PyTorch Lightning with a Dataset in the place of its DataLoaders."""

import lightning
import pytest
import torch
from bulkhead.torch import Dataset
from conftest import numbers

SAMPLES, BATCH = 160, 16
BATCHES = SAMPLES // BATCH


class Numbers(lightning.LightningModule):
    """Notes the number of each batch that a step gets."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.trained, self.validated = [], []

    def training_step(self, batch, _):
        self.trained.append(int(batch["index"][0]) // BATCH)
        return self.weight * batch["index"].float().mean()

    def validation_step(self, batch, _):
        self.validated.append(int(batch["index"][0]) // BATCH)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def trainer(**limits):
    quiet = dict.fromkeys(
        ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
    )
    return lightning.Trainer(accelerator="cpu", **quiet, **limits)


@pytest.mark.filterwarnings("ignore")
def test_fit_trains_on_every_epoch_and_validates_on_the_whole_of_one():
    model = Numbers()
    with Dataset(numbers(SAMPLES, BATCH)) as train, Dataset(numbers(SAMPLES, BATCH)) as valid:
        trainer(max_epochs=3).fit(model, train, valid.validation())
    epoch = list(range(BATCHES))
    assert model.trained == 3 * epoch
    assert model.validated == [0, 1] + 3 * epoch  # two are Lightning's own check before it trains


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_amid_an_epoch_goes_on_behind_its_last_step(tmp_path):
    model, goes_on = Numbers(), Numbers()
    with Dataset(numbers(SAMPLES, BATCH)) as train:
        begun = trainer(max_epochs=-1, max_steps=BATCHES + 3)
        begun.fit(model, train)
        begun.save_checkpoint(tmp_path / "c.ckpt")
    with Dataset(numbers(SAMPLES, BATCH)) as train:
        trainer(max_epochs=-1, max_steps=2 * BATCHES + 1).fit(goes_on, train, ckpt_path=tmp_path / "c.ckpt")
    assert model.trained == [*range(BATCHES), 0, 1, 2]
    assert goes_on.trained == [*range(3, BATCHES), 0]
