"""What bulkhead.torch.DataLoader refuses, and what it says of samples and datasets that fail."""

import itertools
import os
import subprocess
import sys
import threading
import traceback

import bulkhead
import own_datasets as own
import pytest
import torch
import torch.utils.data as data
from bulkhead.torch import DataLoader

SUBSET = [3, 5, 9, 11, 2, 0]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(__file__))


def seeded(number):
    return torch.Generator().manual_seed(number)


def assert_no_frame_of_the_package(error):
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert files and all("/bulkhead/" not in file for file in files), files
    assert error.__context__ is None or error.__suppress_context__, repr(error.__context__)


def test_an_exception_names_dataset_index_and_line():
    with DataLoader(own.Fails(24, 7), batch_size=4, shuffle=True, generator=seeded(1)) as loader:
        with pytest.raises(bulkhead.DataError) as raised:
            list(loader)
    said = str(raised.value)
    assert said.startswith("own_datasets.Fails[7]: ValueError: no sample 7 (at ")
    assert "in __getitem__: `raise ValueError(" in said and "bulkhead_dataset.py" not in said
    assert_no_frame_of_the_package(raised.value)


def test_a_bad_sample_is_substituted():
    with DataLoader(own.Fails(24, 7), batch_size=4, errors="substitute") as loader:
        assert torch.cat(list(loader)).tolist() == [*range(7), 8, *range(8, 24)]
        [substituted] = loader.loader.substitutions
    assert substituted.message.startswith("own_datasets.Fails[7]: ValueError")


def test_a_sample_that_ends_workers_is_named_with_what_to_do():
    with DataLoader(own.Dies(), batch_size=4) as loader, pytest.raises(bulkhead.BulkheadError) as raised:
        list(loader)
    said = str(raised.value)
    assert raised.value.reason == "POISON_SAMPLE"
    assert said.startswith("own_datasets.Dies[9] ended 3 fresh workers") and "exited with code 3 in the dataset's code" in said
    assert 'leave it out: errors="substitute" leaves it out' in said and "range@" not in said and "policy" not in said


def test_samples_that_make_no_batch_are_named():
    with DataLoader(own.SomeAreNone(), batch_size=4) as loader, pytest.raises(bulkhead.DataError) as raised:
        list(loader)
    assert "own_datasets.SomeAreNone: samples 20 to 23 of epoch 0 make no batch: sample 3 of the batch is None, most are ndarray [2]; " in str(
        raised.value
    )
    assert "default_collate says RuntimeError: " in str(raised.value)


LOOPS_AT_THE_TOP = """
import bulkhead.torch


class Own:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index


print(list(bulkhead.torch.DataLoader(Own())))
"""


def test_a_program_that_loops_where_workers_run_it_again_is_told_how_to_guard(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LOOPS_AT_THE_TOP)
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert 'below `if __name__ == "__main__":`' in ended.stderr.splitlines()[-1], ended.stderr


@pytest.mark.parametrize(
    "dataset, kind, words",
    [
        (own.Dials(), bulkhead.DataError, r"Dials\[0\]: PermissionError: .*the workers' sandbox denies socket"),
        (own.OtherShape(), bulkhead.DataError, r"OtherShape\[5\]: it has the shape \[4\], but \[3\] in all samples"),
        # No error of the sample, that another could take the place of.
        (own.Stops(), bulkhead.BulkheadError, r"Stops\[5\]: NoTerminal: .* no terminal: call dataset\[5\] in your own process, where breakpoints and pdb work \(at "),
    ],
    ids=["sockets", "shape", "breakpoint"],
)
def test_what_a_sample_may_not_do_is_said(dataset, kind, words):
    with (
        DataLoader(dataset, batch_size=4) as loader,
        pytest.raises(kind, match=words) as caught,
    ):
        list(loader)
    assert type(caught.value) is kind


def test_a_len_that_lies_is_an_error_of_the_index():
    short = own.Numbers()
    short.length = [1, 2, 3]
    with pytest.raises(bulkhead.InvalidArgument, match="Numbers.__len__ gives no length"):
        DataLoader(short)
    with (
        DataLoader(own.LongerThanItSays(), batch_size=4) as loader,
        pytest.raises(bulkhead.DataError, match=r"\[20\]: IndexError"),
    ):
        list(loader)


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter([1])


def holds_a_lock():
    dataset = own.Numbers()
    dataset.held = threading.Lock()
    return dataset


REFUSED = [
    (lambda: DataLoader(Stream()), "IterableDataset, whose samples have no numbers"),
    (lambda: DataLoader(own.Numbers(0)), "is empty"),
    (
        lambda: DataLoader(holds_a_lock()),
        "its attribute `held`, a _thread.lock, cannot be sent to workers",
    ),
    (
        lambda: DataLoader(own.Numbers(), multiprocessing_context="fork"),
        "multiprocessing_context has no meaning",
    ),
    (
        lambda: DataLoader(own.Numbers(), errors="substitute", sampler=SUBSET),
        "the service must choose the order",
    ),
    (lambda: DataLoader(own.Numbers(), room=0), "room is a number of bytes"),
    (lambda: DataLoader(own.Numbers(), room=9, outputs="int64"), "give max_count in outputs"),
    (lambda: DataLoader(own.Numbers(), collate_fn=list, outputs="int64"), "outputs declares samples, and here workers make whole batches"),
    (lambda: DataLoader(own.Numbers(), outputs={"dtype": "float"}), "'float' is no element type"),
    (lambda: DataLoader(own.Numbers(), outputs=[]), r"outputs declares no value: write what a sample has, such as \["),
    (lambda: DataLoader(own.Numbers(), outputs={"dtype": "int64", "shape": 3}), "outputs.shape: 3 is no shape: write a list"),
    (
        lambda: next(iter(DataLoader(own.Numbers(), sampler=itertools.repeat(1)))),
        "its list for an epoch must end",
    ),
    (lambda: next(iter(DataLoader(own.Numbers(), sampler=[]))), "gave nothing"),
    (
        lambda: next(
            iter(DataLoader(own.Numbers(), batch_size=4, sampler=SUBSET[:2], drop_last=True))
        ),
        "drop_last leaves no batch",
    ),
    (lambda: DataLoader(own.Numbers(), num_workers=-1), "num_workers and timeout are at least 0"),
    (
        lambda: next(iter(DataLoader(own.Numbers(), sampler=[0, 24]))),
        "the index 24, but the dataset has 24 samples",
    ),
]


@pytest.mark.parametrize("make, words", REFUSED, ids=[words[:20] for _, words in REFUSED])
def test_what_cannot_be_is_refused_in_words(make, words):
    with pytest.raises(bulkhead.InvalidArgument, match=words) as raised:
        make()
    assert_no_frame_of_the_package(raised.value)


@pytest.mark.parametrize(
    "options, kind, words",
    [
        (
            {"worker_quoto": "1GiB"},
            TypeError,
            "DataLoader has no argument 'worker_quoto'; did you mean 'worker_quota'",
        ),
        (
            {"rank": 1},
            bulkhead.InvalidArgument,
            "rank has no place here: give a DistributedSampler",
        ),
        ({"cursor": {}}, bulkhead.InvalidArgument, "cursor has no place here: load_state_dict"),
        ({"device": "cuda"}, bulkhead.InvalidArgument, "device has no place here: pin_memory=True, and"),
        ({"spec": "train.yaml"}, bulkhead.InvalidArgument, "spec has no place here: the dataset takes"),
    ],
    ids=["misspelt", "rank", "cursor", "device", "spec"],
)
def test_an_option_that_it_lacks_is_answered_at_once(options, kind, words):
    with pytest.raises(kind, match=words):
        DataLoader(own.Numbers(), **options)


class GrowingSets:
    """Sets, which travel pickled; one is much larger than those that are looked at."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return set(range(20000 if index == 17 else 3))


def test_a_value_that_is_no_array_and_does_not_fit_is_told_with_its_type():
    loader = DataLoader(GrowingSets(), batch_size=4, collate_fn=list)
    with pytest.raises(bulkhead.DataError, match=r"\(a builtins.set, no array or tensor, so that it travels pickled\)"):
        list(loader)


def test_a_spec_is_no_dataset():
    with pytest.raises(bulkhead.InvalidArgument, match="a spec goes to bulkhead.torch.Dataset"):
        DataLoader("train.yaml", batch_size=4)


def test_arguments_that_exclude_each_other_are_refused_by_pytorch():
    with pytest.raises(ValueError, match="mutually exclusive with shuffle"):
        DataLoader(own.Numbers(), shuffle=True, sampler=SUBSET)


def test_a_second_loop_ends_the_first():
    with DataLoader(own.Numbers(), batch_size=4) as loader:
        first = iter(loader)
        next(first)
        assert len(list(loader)) == 6
        with pytest.raises(RuntimeError, match="another loop over this DataLoader has begun") as raised:
            next(first)
        assert_no_frame_of_the_package(raised.value)
        early, late = iter(loader), iter(loader)
        with pytest.raises(RuntimeError, match="another loop"):
            next(early)
        assert len(list(late)) == 6
