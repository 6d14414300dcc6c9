"""MeterLog with the real TensorBoard, Weights & Biases and MLflow: what it wrote is read back from their files."""

import contextlib
import json
import struct
import time

import bulkhead
import pytest
from conftest import numbers

STEPS, EVERY = 12, 3
WRITTEN = [2, 5, 8, 11]
FIGURES = {
    "loader/samples_per_second", "loader/wait_share", "loader/ready_batches", "loader/held_slots", "loader/reconnects",
}  # fmt: skip
GROWTH = "loader/growth_bytes_per_sample"


@contextlib.contextmanager
def training():
    """A loader whose service knows why its stream waits, and a training of some steps with a MeterLog."""
    with bulkhead.Loader(numbers(100_000, 8), workers=1, name="train") as loader:
        batches = iter(loader)
        deadline = time.monotonic() + 30
        while not loader.status()["streams"][0]["why"]:
            assert time.monotonic() < deadline
            next(batches)

        def train(to):
            log = bulkhead.MeterLog(loader, to, every=EVERY)
            for step in range(STEPS):
                next(batches)
                log(step)
            [verdict] = loader.status()["verdicts"]
            return verdict["text"].partition(":")[0]  # without the count of samples

        yield train


def check_curves(curves):
    """By name, (step, value) of each figure."""
    assert set(curves) == FIGURES | {GROWTH}
    for name in FIGURES:
        assert [step for step, _ in curves[name]] == WRITTEN
    assert [step for step, _ in curves[GROWTH]] == WRITTEN[:1], "the service is asked every 30 s"
    assert all(value > 0 for _, value in curves["loader/samples_per_second"])
    assert all(0 <= value <= 1 for _, value in curves["loader/wait_share"])
    assert all(value == 0 for _, value in curves["loader/reconnects"])


def check_texts(why, verdict, said):
    assert why.startswith("waits for ")
    assert verdict.partition(":")[0] == said and said


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with training() as train, SummaryWriter(tmp_path) as writer:
        said = train(writer)
    read = EventAccumulator(str(tmp_path)).Reload()
    check_curves({tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]})
    texts = {}
    for tag in read.Tags()["tensors"]:
        [event] = read.Tensors(tag)
        assert event.step == WRITTEN[0]
        texts[tag] = event.tensor_proto.string_val[0].decode()
    assert set(texts) == {"loader/why/text_summary", "loader/verdict/text_summary"}
    check_texts(texts["loader/why/text_summary"], texts["loader/verdict/text_summary"], said)


@pytest.mark.parametrize("whose", ["module", "run"])
def test_weights_and_biases(tmp_path, monkeypatch, whose):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with training() as train, wandb.init(dir=tmp_path, project="bulkhead") as run:
        said = train(wandb if whose == "module" else run)
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    curves, texts = {}, {}
    for step, row in history(file):
        for name, value in row.items():
            if isinstance(value, str):
                texts[name] = value
            elif not name.startswith("_"):
                curves.setdefault(name, []).append((step, value))
    check_curves(curves)
    assert set(texts) == {"loader/why", "loader/verdict"}
    check_texts(texts["loader/why"], texts["loader/verdict"], said)


def history(file):
    """(step, values) of each row of an offline run: records in blocks of 32 KiB, as in LevelDB's logs."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = file.read_bytes(), 7, b""  # behind the file's own head
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _crc, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record, whole = Record.FromString(whole), b""
            if record.HasField("history"):
                values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
                yield record.history.step.num, values


def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database would need more packages
    mlflow.set_tracking_uri(f"file:{tmp_path}/runs")
    with training() as train, mlflow.start_run() as run:
        said = train(mlflow)
    client = mlflow.MlflowClient()
    written = client.get_run(run.info.run_id).data
    check_curves(
        {
            name: [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]
            for name in written.metrics
        }
    )
    check_texts(written.tags["loader/why"], written.tags["loader/verdict"], said)
