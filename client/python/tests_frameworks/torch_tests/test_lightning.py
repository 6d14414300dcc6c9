"""PyTorch Lightning with a Dataset, or a DataLoader of ours, in the place of its DataLoaders."""

import os

import bulkhead
import lightning
import pytest
import torch
from bulkhead.torch import DataLoader, Dataset
from conftest import numbers
from lightning.pytorch.loggers import CSVLogger

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


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_of_a_dataloader_goes_on_amid_an_epoch_too(tmp_path, monkeypatch):
    """Shuffled: of an epoch no sample is lost, and none is seen twice."""
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    import own_datasets as own

    def loader():
        return DataLoader(own.Everything(SAMPLES), batch_size=BATCH, shuffle=True, seed=7)

    class Labels(Numbers):
        def training_step(self, batch, _):
            self.trained.append(batch["label"].tolist())
            return self.weight * batch["image"].mean()

    model, goes_on, straight = Labels(), Labels(), Labels()
    with loader() as train:
        trainer(max_epochs=-1, max_steps=2 * BATCHES).fit(straight, train)
    with loader() as train:
        begun = trainer(max_epochs=-1, max_steps=BATCHES + 3)
        begun.fit(model, train)
        begun.save_checkpoint(tmp_path / "c.ckpt")
    with loader() as train:
        trainer(max_epochs=-1, max_steps=2 * BATCHES).fit(goes_on, train, ckpt_path=tmp_path / "c.ckpt")
    assert model.trained + goes_on.trained == straight.trained
    for epoch in (straight.trained[:BATCHES], straight.trained[BATCHES:]):
        assert sorted(sum(epoch, [])) == list(range(SAMPLES))


def test_a_logger_of_lightning_gets_the_curves_of_a_loader(tmp_path):
    curves = CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    with bulkhead.Loader(numbers(SAMPLES, BATCH)) as loader:
        log = bulkhead.MeterLog(loader, curves, every=2)
        for step, _ in enumerate(loader):
            log(step)
    curves.save()
    header, *rows = (tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()
    assert len(rows) == BATCHES // 2
    assert {"loader/samples_per_second", "loader/wait_share", "loader/growth_bytes_per_sample"} <= set(header.split(","))
