import gc
import json

import bulkhead
import bulkhead.torch
import numpy as np
import pytest
import torch
from bulkhead.torch import Dataset
from conftest import PACKED_OFFSETS, PACKED_RUNS, check_arguments, check_facts, check_healing, numbers, packed_runs
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader


def firsts(batches):
    return [int(batch["index"][0]) for batch in batches]


def test_tensors_view_the_slot_and_keep_it_until_they_die():
    with Dataset(numbers(64, 8), copy_below=0) as dataset:
        assert dataset.loader.transport == "shm"
        kept = next(iter(dataset))["index"][2:4]
        view = np.asarray(kept)
        view[0] = 77
        assert kept.tolist() == [77, 3] and dataset.loader.held_slots == 1
        del view
        for batch in dataset:
            pass
        del batch
        gc.collect()
        assert kept.tolist() == [77, 3] and dataset.loader.held_slots == 1
        del kept
        assert dataset.loader.held_slots == 0


def test_dlpack_makes_a_tensor_of_a_batchs_own_memory():
    with bulkhead.Loader(numbers(64, 8), copy_below=0) as loader:
        assert loader.transport == "shm"
        array = loader.next_batch()["index"]
        tensor = torch.from_dlpack(array)
        assert tensor.data_ptr() == array.ctypes.data
        array[0] = 77
        tensor[1] = 78
        assert tensor[:3].tolist() == array[:3].tolist() == [77, 78, 2]
        del array
        gc.collect()
        assert loader.held_slots == 1 and tensor[7] == 7
        del tensor
        assert loader.held_slots == 0


def test_labels_that_are_kept_keep_no_slot():
    with Dataset(numbers(800, 8), timeout=60) as dataset:
        labels = [batch["index"] for batch in dataset]
        assert torch.cat(labels).tolist() == list(range(800)) and dataset.loader.held_slots == 0


@pytest.mark.parametrize("batch_size", [1, 2, 8])
@pytest.mark.parametrize("wrapper", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("what", ["dataset", "validation"])
def test_a_dataloader_that_batches_batches_is_refused_at_once(wrapper, what, batch_size):
    with Dataset(numbers(64, 8)) as dataset:
        loader = wrapper(
            dataset if what == "dataset" else dataset.validation(), batch_size=batch_size
        )
        with pytest.raises(bulkhead.InvalidArgument, match="give DataLoader batch_size=None"):
            next(iter(loader))
        assert dataset.loader.stats.batches == 0, "nothing was fetched"
        assert firsts(dataset) == list(range(0, 64, 8))


def test_the_iterator_keeps_no_batch():
    with Dataset(numbers(64, 8), credits=2, copy_below=0) as dataset:
        elements = iter(dataset)
        for _ in range(8):
            element = next(elements)
            assert dataset.loader.held_slots == 1
            del element
            assert dataset.loader.held_slots == 0


def test_elements_come_in_the_structure_that_is_asked_for():
    with Dataset(numbers(16, 8), structure=("index", {"x": "index"})) as dataset:
        for number, also in dataset:
            assert torch.equal(number, also["x"])
    with Dataset(numbers(16, 8)) as dataset:
        assert list(next(iter(dataset))) == ["index"]


def test_a_name_that_is_no_output_is_refused_with_those_that_are():
    with pytest.raises(
        bulkhead.InvalidArgument, match="'image'; the pipeline's outputs are 'index'"
    ):
        Dataset(numbers(16, 8), structure=("image", "index"))
    with pytest.raises(bulkhead.InvalidArgument, match="not int"):
        Dataset(numbers(16, 8), structure=[3])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "bfloat16", "float64"])
def test_types_and_values_arrive(dtype):
    stages = [{"cast": {"input": "index", "dtype": dtype}}]
    with Dataset(numbers(8, 8, stages=stages)) as dataset:
        (batch,) = dataset
    assert batch["index"].dtype == getattr(torch, dtype)
    assert batch["index"].tolist() == list(range(8))


@pytest.mark.parametrize(
    "dtype, function, values",
    [
        ("bool", "bool(i % 2)", [False, True]),
        ("bfloat16", "np.uint16(0x3FC0 + i * 0x40)", [1.5, 2.0]),
    ],
)
def test_types_of_functions_arrive(dtype, function, values, tmp_path, monkeypatch):
    (tmp_path / f"make_{dtype}.py").write_text(
        f"import numpy as np\ndef make(i): return {function}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    output = {"name": "made", "dtype": dtype}
    stage = {"function": f"make_{dtype}:make", "inputs": "index", "outputs": [output]}
    with Dataset(numbers(2, 2, stages=[{"python": stage}])) as dataset:
        (batch,) = dataset
    assert batch["made"].dtype == getattr(torch, dtype) and batch["made"].tolist() == values


def test_byte_strings_are_rows_of_uint8(tmp_path):
    (tmp_path / "x.png").write_bytes(b"")
    source = {"image_list": {"entries": ["x.png 1", "x.png 2"], "max_path_bytes": 8}}
    spec = {"source": source, "batch": {"size": 2}, "outputs": ["path", "label"]}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    with Dataset(tmp_path / "spec.json") as dataset:
        (batch,) = dataset
    assert batch["path"].dtype == torch.uint8 and batch["path"].shape == (2, 8)
    assert bytes(batch["path"][1].tolist()) == b"x.png\0\0\0"


@pytest.mark.skipif(hasattr(torch, "uint16"), reason="this PyTorch has uint16")
def test_a_type_that_pytorch_lacks_is_refused_unless_it_is_left_out():
    spec = numbers(8, 8, stages=[{"cast": {"input": "index", "dtype": "uint16"}}])
    with pytest.raises(bulkhead.InvalidArgument, match="'index' is uint16.*cast"):
        Dataset(spec)
    with Dataset(spec, structure=()) as dataset:
        assert list(dataset) == [()]


def test_rank_and_world_size_come_from_the_environment_and_arguments_win(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with Dataset(numbers(16, 4)) as dataset:
        assert firsts(dataset) == [4, 12]
    with Dataset(numbers(16, 4), rank=0, world_size=1) as dataset:
        assert firsts(dataset) == [0, 4, 8, 12]
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(bulkhead.InvalidArgument, match="RANK is 'one'"):
        Dataset(numbers(16, 4))
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(bulkhead.InvalidArgument, match="rank 2 is not below"):
        Dataset(numbers(16, 4))


def test_a_group_without_a_process_group_is_refused():
    with pytest.raises(bulkhead.InvalidArgument, match="init_process_group"):
        Dataset(numbers(16, 4), group=object())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_dataloader_are_refused_with_advice(method):
    with Dataset(numbers(16, 4)) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context=method)
        with pytest.raises(bulkhead.InvalidArgument, match="num_workers=0"):
            next(iter(loader))
        assert firsts(dataset) == [0, 4, 8, 12]


def test_a_dataloader_passes_batches_through():
    with Dataset(numbers(16, 4)) as dataset:
        loader = DataLoader(dataset, batch_size=None)
        assert len(loader) == 4
        assert firsts(loader) == firsts(loader) == [0, 4, 8, 12]


def test_it_resumes_by_itself():
    with Dataset(numbers(32, 4)) as dataset:
        for batch in dataset:
            if batch["index"][0] == 8:
                break
        state = json.loads(json.dumps(dataset.state_dict()))
        assert len(dataset) == 5
    with Dataset(numbers(32, 4)) as dataset:
        dataset.load_state_dict(state)
        assert len(dataset) == 5 and firsts(dataset) == [12, 16, 20, 24, 28]
    with Dataset(numbers(32, 4), cursor=state) as dataset:
        assert firsts(dataset) == [12, 16, 20, 24, 28]


@pytest.mark.parametrize("in_flight", [1, 3])
@pytest.mark.parametrize("taken", [0, 3, 8])
def test_a_stateful_dataloader_resumes_it(taken, in_flight):
    with Dataset(numbers(32, 4), in_flight=in_flight) as dataset:
        loader = StatefulDataLoader(dataset, batch_size=None)
        elements = iter(loader)
        before = firsts(next(elements) for _ in range(taken))
        state = loader.state_dict()
    with Dataset(numbers(32, 4), in_flight=in_flight) as dataset:
        loader = StatefulDataLoader(dataset, batch_size=None)
        loader.load_state_dict(state)
        after = firsts(loader)
        assert (before + after)[:8] == list(range(0, 32, 4))
        assert firsts(loader) == list(range(0, 32, 4))


def test_a_stateful_dataloader_goes_on_with_the_next_epoch_behind_a_whole_one():
    with Dataset(numbers(32, 4)) as dataset:
        loader = StatefulDataLoader(dataset, batch_size=None)
        firsts(loader)
        state = loader.state_dict()
    with Dataset(numbers(32, 4)) as dataset:
        loader = StatefulDataLoader(dataset, batch_size=None)
        loader.load_state_dict(state)
        assert firsts(loader) == list(range(0, 32, 4))
        assert dataset.epoch == 1


def test_batches_in_flight_are_counted_when_the_loop_gets_them():
    with Dataset(numbers(32, 4), in_flight=3, copy_below=0) as dataset:
        elements = iter(dataset)
        assert firsts([next(elements)]) == [0]
        assert dataset.loader.held_slots == 2  # fetched, and not given
        assert dataset.state_dict()["consumed"] == 4 and len(dataset) == 7
        elements.close()
        assert firsts(dataset) == list(range(4, 32, 4))  # a loop left by break is continued
        assert dataset.loader.held_slots == 0  # nothing is fetched behind the epoch's end
        assert firsts(dataset) == list(range(0, 32, 4)) and dataset.epoch == 1


def test_a_loop_that_continues_fetches_nothing_of_the_next_epoch():
    with Dataset(numbers(32, 4), in_flight=3) as dataset:
        elements = iter(dataset)
        before = firsts(next(elements) for _ in range(6))
        assert len(dataset) == 2
        assert before + firsts(dataset) == list(range(0, 32, 4))
        assert dataset.loader.held_slots == 0
        assert dataset.loader.state_dict() == dataset.state_dict()


def test_what_was_fetched_ahead_is_dropped_by_a_jump():
    with Dataset(numbers(32, 4), in_flight=3) as dataset:
        elements = iter(dataset)
        state = (next(elements), dataset.state_dict())[1]
        next(elements)
        dataset.load_state_dict(state)
        assert firsts(dataset) == list(range(4, 32, 4))
        next(iter(dataset))
        dataset.set_epoch(5)
        assert dataset.state_dict()["epoch"] == 5 and dataset.state_dict()["consumed"] == 0
        assert firsts(dataset) == list(range(0, 32, 4)) and dataset.epoch == 5


@pytest.mark.parametrize("in_flight", [1, 3])
@pytest.mark.parametrize("number", [2, 8])
def test_a_batch_that_the_device_had_no_room_for_comes_again(monkeypatch, number, in_flight):
    with Dataset(numbers(32, 4), in_flight=in_flight) as dataset:
        send, calls = dataset._send, []

        def send_but_once(batch):
            calls.append(1)
            if len(calls) == number:
                raise MemoryError
            return send(batch)

        monkeypatch.setattr(dataset, "_send", send_but_once)
        seen = []
        with pytest.raises(MemoryError):
            seen += (int(batch["index"][0]) for batch in dataset)
        assert len(dataset) == 8 - len(seen)
        assert dataset.state_dict()["consumed"] == 4 * len(seen)
        assert seen + firsts(dataset) == list(range(0, 32, 4))


@pytest.mark.parametrize("in_flight", [1, 3])
def test_validation_begins_anew_with_each_loop(in_flight):
    with Dataset(numbers(24, 8), in_flight=in_flight) as dataset:
        validation = dataset.validation()
        through_a_dataloader = torch.utils.data.DataLoader(validation, batch_size=None)
        for way in (validation, through_a_dataloader, validation):
            assert int(next(iter(way))["index"][0]) == 0  # and left early
            assert [int(element["index"][0]) for element in way] == [0, 8, 16]
            assert len(way) == 3
        assert int(next(iter(dataset))["index"][0]) == 0 and dataset.epoch == 1


def test_a_stream_crosses_epochs_and_the_end_is_an_error():
    with Dataset(numbers(8, 4, epochs=2), in_flight=3) as dataset:
        assert firsts(dataset.stream()) == [0, 4, 0, 4]
        with pytest.raises(bulkhead.EpochsExhausted):
            list(dataset)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_what_pads_the_last_batch_is_counted_out(in_flight):
    spec = numbers(10, 4)
    spec["batch"]["last"] = "pad"
    with Dataset(spec, in_flight=in_flight) as dataset:
        assert [(len(batch["index"]), dataset.valid_count) for batch in dataset] == [
            (4, 4),
            (4, 4),
            (4, 2),
        ]


def test_a_copy_to_a_device_gives_the_slots_back():
    # The meta device has no memory; to get there is a copy all the same, in which slots come back.
    with Dataset(numbers(32, 4), device="meta") as dataset:
        elements = iter(dataset)
        element = next(elements)
        assert element["index"].device.type == "meta" and element["index"].shape == (4,)
        assert dataset.loader.held_slots == 0
        assert len(dataset._ahead) == 1  # in_flight is 2, and one was given


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(bulkhead.InvalidArgument, match="finds no GPU"):
        Dataset(numbers(32, 4), device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_arrive_on_the_gpu():
    with Dataset(numbers(4096, 64), device="cuda", in_flight=3) as dataset:
        seen = [(batch["index"] + 0).cpu() for batch in dataset]
    assert torch.cat(seen).tolist() == list(range(4096))


def test_a_killed_service_is_a_longer_wait(service):
    check_healing(Dataset, service, firsts, credits=2)


def test_an_argument_that_it_lacks_is_answered():
    check_arguments(Dataset)


def test_it_tells_what_its_loader_knows_and_is_true_when_nothing_is_left(tmp_path):
    check_facts(Dataset, tmp_path)
    with Dataset(numbers(16, 8, epochs=1)) as loader:
        for _ in loader:
            pass
        assert len(loader) == 0 and bool(loader)


def test_packed_rows_are_tensors_with_offsets(tmp_path):
    names = ("runs", "runs_offsets")
    with Dataset(packed_runs(tmp_path), structure=names) as dataset:
        found = [(runs.tolist(), offsets.tolist()) for runs, offsets in dataset]
    assert found == list(zip(PACKED_RUNS, PACKED_OFFSETS))
    with Dataset(packed_runs(tmp_path)) as dataset:
        batch = next(iter(dataset))
        ends = batch["runs_offsets"].tolist()
        rows = [batch["runs"][a:b].tolist() for a, b in zip(ends, ends[1:])]
        assert rows == [[], [1], [2, 2], [3, 3, 3]]
        owner = torch.repeat_interleave(torch.arange(4), torch.diff(batch["runs_offsets"]))
        assert owner.tolist() == [1, 2, 2, 3, 3, 3]
