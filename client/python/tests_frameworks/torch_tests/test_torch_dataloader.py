"""A user's own dataset in bulkhead.torch.DataLoader, beside PyTorch's DataLoader."""

import gc
import json
import os
import pickle
import signal
import sys

import bulkhead
import numpy as np
import own_datasets as own
import pytest
import torch
import torch.utils.data as data
from bulkhead.torch import DataLoader
from conftest import BIN, EXTENDED

SUBSET = [3, 5, 9, 11, 2, 0]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(__file__))


def same(mine, its):
    if isinstance(its, torch.Tensor):
        return isinstance(mine, torch.Tensor) and mine.dtype == its.dtype and torch.equal(mine, its)
    if type(mine) is not type(its):
        return False
    if isinstance(its, dict):
        return list(mine) == list(its) and all(same(mine[key], its[key]) for key in its)
    if isinstance(its, (list, tuple)):
        return len(mine) == len(its) and all(map(same, mine, its))
    if isinstance(its, np.ndarray):
        return mine.dtype == its.dtype and np.array_equal(mine, its)
    return mine == its


def seeded(number):
    return torch.Generator().manual_seed(number)


WAYS = {
    "in order": lambda: {"batch_size": 5},
    "whole batches only": lambda: {"batch_size": 5, "drop_last": True},
    "shuffled by a generator": lambda: {"batch_size": 5, "shuffle": True, "generator": seeded(3)},
    "some": lambda: {"batch_size": 4, "sampler": data.SubsetRandomSampler(SUBSET, seeded(4))},
    "some twice": lambda: {
        "batch_size": 4,
        "sampler": data.WeightedRandomSampler([1.0] * 24, 40, generator=seeded(5)),
    },
    "of a rank": lambda: {
        "batch_size": 4,
        "sampler": data.distributed.DistributedSampler(range(24), num_replicas=3, rank=1, seed=5),
    },
    "batches by a sampler": lambda: {
        "batch_sampler": data.BatchSampler(
            data.RandomSampler(range(24), generator=seeded(6)), 7, False
        )
    },
    "samples alone": lambda: {"batch_size": None},
}


@pytest.mark.parametrize("way", WAYS)
def test_batches_are_those_of_pytorch(way):
    """Over three epochs; values, types and structure."""
    dataset = own.Everything()
    its = data.DataLoader(dataset, **WAYS[way]())
    with DataLoader(dataset, num_workers=2, **WAYS[way]()) as loader:
        assert len(loader) == len(its)
        for epoch in range(3):
            for one in (loader, its):
                if hasattr(one.sampler, "set_epoch"):
                    one.sampler.set_epoch(epoch)
            assert same(list(loader), list(its))


def test_a_collate_fn_makes_whole_batches_in_the_worker():
    its = data.DataLoader(own.Uneven(), batch_size=5, collate_fn=own.padded)
    with DataLoader(own.Uneven(), batch_size=5, collate_fn=own.padded) as loader:
        mine = list(loader)
    assert [batch.pop("modules") for batch in mine] == [
        []
    ] * 5  # and the worker needs no PyTorch for it
    expected = [{key: value for key, value in batch.items() if key != "modules"} for batch in its]
    assert same(mine, expected)


def test_a_shuffle_of_the_service_gives_each_sample_once_and_another_order_each_epoch():
    with DataLoader(own.Numbers(100), batch_size=8, shuffle=True, seed=1) as loader:
        epochs = [torch.cat(list(loader)).tolist() for _ in range(2)]
        for batch in loader:  # left, so the next loop is another epoch
            break
        epochs.append(torch.cat(list(loader)).tolist())
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    with DataLoader(own.Numbers(100), batch_size=8, shuffle=True, seed=2) as loader:
        assert torch.cat(list(loader)).tolist() != epochs[0]


def test_batches_are_the_same_when_workers_and_the_service_are_killed():
    def run(kill):
        with DataLoader(
            own.Draws(3000), batch_size=10, shuffle=True, num_workers=2, seed=1
        ) as loader:
            found, pids = [], set()
            for number, (index, first, second, pid) in enumerate(loader):
                found.append((index.tolist(), first.tolist(), second.tolist()))
                pids.update(pid.tolist())
                if kill and number % 60 == 10:
                    os.kill(pid[0].item(), signal.SIGKILL)
                if kill and number == 150:
                    os.kill(bulkhead.service_status(loader.loader.target)["pid"], signal.SIGKILL)
            return found, len(pids), loader.loader.reconnects

    undisturbed, disturbed = run(False), run(True)
    assert disturbed[0] == undisturbed[0]
    assert disturbed[1] > 3 and disturbed[2] == 1
    draws = [value for _, first, second in undisturbed[0] for value in first + second]
    assert len(set(draws)) == len(draws)  # each sample has seeds of its own


def test_a_dataset_that_leaks_and_crashes_delivers_everything():
    with DataLoader(own.Leaks(1500), batch_size=10, num_workers=2, worker_quota="400MiB") as loader:
        assert torch.cat(list(loader)).tolist() == list(range(1500))
        ends = bulkhead.service_status(loader.loader.target)["exit_counts"]
    assert sum(end["count"] for end in ends) >= 3


@pytest.mark.parametrize(
    "way, after",
    [
        ("in order", 2),
        ("in order", 100),
        ("shuffled by a generator", 2),
        ("of a rank", 2),
        ("of a rank", 100),
    ],
)
def test_a_state_goes_on_behind_its_batch(way, after):
    """`after` batches, or a whole epoch; into loaders whose generators stand elsewhere."""
    dataset = own.Numbers()

    def loader():
        return DataLoader(dataset, **WAYS[way]())

    with loader() as first:
        list(first)
        for number, _ in enumerate(first, start=1):
            if number == min(after, len(first)):
                break
        state = json.loads(json.dumps(first.state_dict()))
        with loader() as other:
            list(other)  # somewhere else
            other.load_state_dict(state)
            assert other.state_dict() == state
            rest = list(other)
            following = list(other)
        if after < len(first):
            torch.manual_seed(1)  # PyTorch's own generator does not matter
            with loader() as straight:
                list(straight)
                expected = list(straight)[after:]
            assert same(rest, expected)
        assert len(following) == len(first)
    assert len(json.dumps(state)) < 40_000


def test_a_state_of_another_list_or_dataset_is_refused():
    with DataLoader(own.Numbers(), sampler=[1, 2, 3]) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with DataLoader(own.Numbers(), sampler=[1, 3, 2]) as loader:
        loader.load_state_dict(state)
        with pytest.raises(bulkhead.CursorMismatch, match="gives another list for epoch 0"):
            next(iter(loader))
    with DataLoader(own.Numbers(), sampler=[1, 2, 3], version="2") as loader:
        loader.load_state_dict(state)
        with pytest.raises(bulkhead.CursorMismatch):
            next(iter(loader))
        for wrong in ({"epoch": 1}, json.dumps(state), {"bulkhead": 1, "cursor": state["cursor"]}):
            with pytest.raises(bulkhead.InvalidArgument, match="not a state"):
                loader.load_state_dict(wrong)
        with pytest.raises(bulkhead.InvalidArgument, match="`epoch` is a whole number, not 'x'"):
            loader.load_state_dict({**state, "cursor": {**state["cursor"], "epoch": "x"}})


@pytest.mark.parametrize("way", ["in order", "of a rank"])
def test_a_state_says_with_which_epoch_a_training_goes_on(way):
    with DataLoader(own.Numbers(), **WAYS[way]()) as loader:
        epochs = [loader.state_dict()["epoch"]]
        for _ in range(2):
            for _ in loader:
                epochs.append(loader.state_dict()["epoch"])
        state = loader.state_dict()
    count = len(epochs) // 2
    assert epochs == [0] * count + [1] * count + [2]
    with DataLoader(own.Numbers(), **WAYS[way]()) as loader:
        loader.load_state_dict(state)
        assert loader.state_dict()["epoch"] == 2
        next(iter(loader))
        assert loader.state_dict()["epoch"] == 2


def test_the_epoch_after_a_state_is_the_programs_to_set():
    """As resumed trainings do: the sampler is told the epoch after the state was loaded."""

    def loader():
        sampler = data.distributed.DistributedSampler(range(24), num_replicas=2, rank=0, seed=5)
        return DataLoader(own.Numbers(), batch_size=4, sampler=sampler)

    def epoch(of, number):
        of.sampler.set_epoch(number)
        return torch.cat(list(of)).tolist()

    with loader() as straight:
        epochs = [epoch(straight, number) for number in range(3)]
        again = straight.state_dict()
    with loader() as resumed:
        epoch(resumed, 0)
        epoch(resumed, 1)
        state = resumed.state_dict()
    with loader() as other:
        other.load_state_dict(state)
        assert epoch(other, 2) == epochs[2]
        assert other.state_dict()["list"] == again["list"]


class Moody:
    """A sampler that raises when it is asked for the first time."""

    def __init__(self, *moods):
        self.moods = list(moods)

    def __iter__(self):
        if self.moods and self.moods.pop(0):
            raise OSError("not now")
        return iter([0, 1, 2, 3, 4, 5])

    def __len__(self):
        return 6


def test_a_loop_that_cannot_begin_changes_nothing():
    with DataLoader(own.Numbers(), batch_size=2, sampler=Moody(True)) as loader:
        with pytest.raises(OSError):
            iter(loader)
        assert torch.cat(list(loader)).tolist() == [0, 1, 2, 3, 4, 5]
    with DataLoader(own.Numbers(), batch_size=2, sampler=Moody()) as loader:
        for number, _ in enumerate(loader):
            if number == 1:
                break
        state = loader.state_dict()
    with DataLoader(own.Numbers(), batch_size=2, sampler=Moody(True)) as loader:
        loader.load_state_dict(state)
        with pytest.raises(OSError):
            iter(loader)
        assert loader.state_dict() == state
        assert torch.cat(list(loader)).tolist() == [4, 5]


def test_a_state_between_two_epochs_is_of_the_second():
    with DataLoader(own.Numbers(), batch_size=6, shuffle=True, seed=1) as loader:
        for _ in loader:
            break
        iter(loader)
        state = loader.state_dict()
        expected = list(
            loader._loader
        )  # the epoch that has begun, and of which nothing was given yet
    with DataLoader(own.Numbers(), batch_size=6, shuffle=True, seed=1) as loader:
        loader.load_state_dict(state)
        assert [batch.tolist() for batch in loader] == [batch["v0"].tolist() for batch in expected]


def test_the_first_sample_has_its_seeds_though_it_is_what_loads_torch():
    def draws():
        with DataLoader(own.LoadsTorchLate(8), batch_size=8, seed=1) as loader:
            [batch] = list(loader)
        return [values.tolist() for values in batch]

    assert draws() == draws()


def test_memory_and_descriptors_are_given_back():
    def descriptors():
        gc.collect()
        held = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        return sum(
            "memfd:bulkhead-dataset" in path or "memfd:bulkhead-lists" in path for path in held
        )

    before = descriptors()
    keep = DataLoader(own.Large(8, 1))
    assert descriptors() == before + 2
    del keep
    for _ in range(3):
        DataLoader(own.Large(8, 1))
        bulkhead.Source(own.Large(8, 1))
    assert descriptors() == before


def test_a_forked_child_makes_a_loader_of_its_own():
    loader = DataLoader(own.Numbers(), shuffle=True, generator=seeded(1))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            iter(loader)
        except bulkhead.InvalidArgument as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"was forked from the one that made" in os.read(reading, 1000)
    os.close(reading)
    os.close(writing)


def test_a_meter_tells_epochs_of_one_size_apart():
    with DataLoader(own.Numbers(), batch_size=4, shuffle=True, generator=seeded(1)) as loader:
        meter = bulkhead.Meter(loader)
        for _ in range(3):
            list(loader)
            read = meter.read()
            assert read["loader/samples_per_second"] > 0 and 0 <= read["loader/wait_share"] <= 1


def test_it_says_what_it_is():
    loader = DataLoader(own.Numbers(), batch_size=4, num_workers=2)
    assert "bulkhead.torch.DataLoader of own_datasets.Numbers, " in repr(loader)
    assert repr(loader).endswith("samples, batch_size=4, 2 workers>")
    text = loader._repr_html_()
    assert "own_datasets.Numbers, 24 samples<" in text and ">workers</th><td style='text-align:left'>2<" in text


def test_a_large_table_is_shared_by_all_workers():
    """Each worker reads 256 MiB under a quota of 128 MiB."""
    dataset = own.Large(32, 256)
    with DataLoader(dataset, batch_size=4, num_workers=2, worker_quota="128MiB") as loader:
        sums, read_only = zip(*loader)
        workers = bulkhead.service_status(loader.loader.target)["workers"]
        ends = bulkhead.service_status(loader.loader.target)["exit_counts"]
    assert torch.cat(sums).tolist() == [dataset.table.size] * 32 and torch.cat(read_only).all()
    assert ends == [] and all(worker["usage"]["memory_bytes"] < 128 << 20 for worker in workers)


def test_a_worker_knows_who_it_is():
    with DataLoader(
        own.Acquainted(), batch_size=24, num_workers=2, worker_init_fn=own.note_init
    ) as loader:
        [[numbers, counts, lengths, inits]] = list(loader)
    assert (
        set(numbers.tolist()) <= {0, 1}
        and set(counts.tolist()) == {2}
        and set(lengths.tolist()) == {24}
    )
    assert list(inits) == [f"init {number}" for number in numbers.tolist()]


@pytest.mark.skipif(not EXTENDED, reason="takes a minute: scripts/extended.sh datasets")
def test_torchvision_hdf5_and_hugging_face_give_what_they_give_pytorch(tmp_path):
    import datasets
    import h5py
    from PIL import Image
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    for number in range(8):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 255, (40, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    steps = [v2.ToImage(), v2.Resize((16, 16)), v2.ToDtype(torch.float32, scale=True)]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(24.0).reshape(8, 3)
    rows = {"x": list(range(8)), "text": [f"row {number}" for number in range(8)]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "arrow")
    for dataset in (
        ImageFolder(tmp_path / "images", v2.Compose(steps)),
        own.Hdf5(str(tmp_path / "x.h5"), 8),
        datasets.load_from_disk(str(tmp_path / "arrow")).with_format("torch"),
    ):
        with DataLoader(dataset, batch_size=3) as loader:
            assert same(list(loader), list(data.DataLoader(dataset, batch_size=3)))


def test_explain_says_how_each_value_travels():
    with DataLoader(own.Several(12), batch_size=4) as loader:
        assert loader.explain().startswith("not known yet")
        list(loader)
        said = {line.split("  ")[0]: line for line in loader.explain().splitlines()}
    assert said["['image']"].endswith("float32 [2, 3]  in the batch, without a copy")
    assert "str" in said["['name']"] and "copied row by row; room for 4096 bytes in each sample" in said["['name']"]
    size = sum(len(pickle.dumps(own.Several()[index]["mixed"], protocol=5)) for index in range(12))
    assert f"pickled by workers and unpickled here, {size} bytes so far" in said["['mixed']"]


def test_declared_samples_are_not_looked_at_first():
    outputs = {"image": {"dtype": torch.float32, "shape": [2, 3]}, "label": "int64", "weight": np.float32, "odd": "bool",
               "name": {"dtype": "bytes", "max_count": 16}, "both": ("int16", own.Pair(["uint8"], {"dtype": "bytes", "max_count": 8}))}
    with DataLoader(own.Everything(), batch_size=5, outputs=outputs) as loader:
        mine = list(loader)
    for batch, its in zip(mine, data.DataLoader(own.Everything(), batch_size=5)):
        assert same(batch["image"], its["image"]) and same(batch["label"], its["label"]) and same(batch["odd"], its["odd"])
        assert batch["weight"].dtype == torch.float32 and batch["weight"].tolist() == its["weight"].tolist()
        assert [name.decode() for name in batch["name"]] == its["name"]
        assert same(batch["both"][0], its["both"][0]) and same(batch["both"][1].first, its["both"][1].first)
    with DataLoader(own.Numbers(8), batch_size=4, outputs={"dtype": "int64"}) as loader:
        assert torch.cat(list(loader)).tolist() == list(range(8))
        workers = bulkhead.service_status(loader.loader.target)["workers"]
        assert len({worker["pipeline"] for worker in workers}) == 1, "no pipeline looked at samples"


def test_at_a_service_that_runs_already(tmp_path):
    from twice import Service

    here = os.path.dirname(__file__)
    service = Service(BIN / "bulkheadd", tmp_path, "--allow-datasets", "--python", sys.executable, "--python-path", here, "--workers", "2")
    try:
        for way in ("in order", "shuffled by a generator", "some twice", "batches by a sampler"):
            its = data.DataLoader(own.Everything(), **WAYS[way]())
            with DataLoader(own.Everything(), target=service.target, **WAYS[way]()) as loader:
                for _ in range(2):
                    assert same(list(loader), list(its)), way
    finally:
        service.kill()
