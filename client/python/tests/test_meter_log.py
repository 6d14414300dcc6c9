"""What a training run's logger gets, by the interface that it has."""

import bulkhead
import pytest
from bulkhead import LoaderStats, MeterLog, _meter_log


class Fake:
    name, rank = "train", 0
    stats = LoaderStats(1, 8, 800, 0.0, 0, 0, 0)
    verdict = "stages[1] python keeps 24 KiB more with each sample"
    answers = True
    asked = 0

    def status(self, timeout):
        self.asked += 1
        if not self.answers:
            raise bulkhead.ServiceUnavailable("nobody is there")
        other = {"name": "train", "rank": 1, "pipeline": "cd", "why": "waits for the trainer"}
        mine = {"name": "train", "rank": 0, "pipeline": "ab", "why": "waits for workers 31 %"}
        return {
            "streams": [other, mine],
            "verdicts": [
                {"pipeline": "cd", "bytes_per_sample": 1.0, "text": "another's"},
                {"pipeline": "ab", "bytes_per_sample": 24576.0, "text": self.verdict},
            ],
        }


class Writer:
    """As torch.utils.tensorboard.SummaryWriter."""

    def __init__(self):
        self.scalars, self.texts = {}, []

    def add_scalar(self, tag, value, global_step=None):
        self.scalars[tag, global_step] = value

    def add_text(self, tag, text, global_step=None):
        self.texts.append((tag, text, global_step))


class Mlflow:
    """As the module mlflow."""

    def __init__(self):
        self.metrics, self.tags = [], {}

    def log_metrics(self, metrics, step=None):
        self.metrics.append((metrics, step))

    def set_tag(self, key, value):
        self.tags[key] = value


class Wandb:
    """As a run of wandb."""

    def __init__(self):
        self.logged = []

    def log(self, data, step=None):
        self.logged.append((data, step))


def test_tensorboard_gets_figures_every_so_often_and_texts_when_they_change(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(_meter_log.time, "monotonic", lambda: clock[0])
    loader, writer = Fake(), Writer()
    log = MeterLog(loader, writer, every=2)
    for step in range(4):
        log(step)
    assert {step for _, step in writer.scalars} == {1, 3}
    assert writer.scalars["loader/growth_bytes_per_sample", 1] == 24576.0
    assert ("loader/wait_share", 3) in writer.scalars
    assert loader.asked == 1, "half a minute has not passed"
    assert writer.texts == [
        ("loader/why", "waits for workers 31 %", 1),
        ("loader/verdict", loader.verdict, 1),
    ]
    clock[0] = 131.0
    loader.verdict = "memory does not grow"
    log(4), log(5)
    assert writer.texts[2:] == [("loader/verdict", "memory does not grow", 5)]


def test_mlflow_and_wandb_get_theirs():
    mlflow, wandb = Mlflow(), Wandb()
    MeterLog(Fake(), mlflow, every=1)(7)
    MeterLog(Fake(), wandb, every=1)(7)
    [(metrics, step)] = mlflow.metrics
    assert step == 7 and metrics["loader/growth_bytes_per_sample"] == 24576.0
    assert mlflow.tags["loader/verdict"] == Fake.verdict
    figures, *texts = wandb.logged
    assert figures[0]["loader/reconnects"] == 0.0 and figures[1] == 7
    assert ({"loader/verdict": Fake.verdict}, 7) in texts


def test_a_service_that_does_not_answer_costs_no_curve():
    loader, wandb = Fake(), Wandb()
    loader.answers = False
    MeterLog(loader, wandb, every=1)(0)
    [(figures, _)] = wandb.logged
    assert (
        "loader/samples_per_second" in figures and "loader/growth_bytes_per_sample" not in figures
    )


def test_what_takes_no_metrics_is_refused_at_once():
    with pytest.raises(
        bulkhead.InvalidArgument, match="a list takes no metrics: give TensorBoard's"
    ):
        MeterLog(Fake(), [])
    with pytest.raises(bulkhead.InvalidArgument, match="every: 0 is below 1"):
        MeterLog(Fake(), Wandb(), every=0)
