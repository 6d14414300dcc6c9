"""Messages of an embedded service, in the words of the program that started it."""

import pytest
from bulkhead._dataset import words
from bulkhead._service import service_process

RAISED = "position 3: range@5: stages[0] python: bulkhead_dataset:sample: DatasetError: Photos[5]: ValueError: no (at a.py:3 in f)"
POISON = (
    "range@5 ended 3 fresh workers that did nothing else; the last one: killed by signal 11 in stages[0] python at position 3 of "
    "epoch 0. Repair the record, or leave it out: errors.policy: substitute puts such a record into quarantine and takes another, "
    "and `bulkhead quarantine add 'range@5'` spares the next run the workers that finding it costs; where the service ended with "
    "its trainer, start bulkheadd on the same cache folder for that"
)


def test_an_exception_begins_with_dataset_and_index():
    told = "Photos[5]: ValueError: no (at a.py:3 in f)"
    assert words.of_source("Photos")(RAISED) == told
    assert words.of_data_loader("Photos", "{dataset}[{number}]")(RAISED) == told


def test_a_dataset_that_does_not_load_is_named():
    said = "stages[0] python: importing bulkhead_dataset failed: ImportError: no"
    assert words.of_source("Photos")(said) == "Photos cannot be loaded in a worker: ImportError: no"


def test_a_record_of_a_source_is_a_sample_but_not_in_a_command():
    told = words.of_source("Photos")(POISON)
    assert told.startswith("sample 5 of Photos ended 3 fresh workers") and "by signal 11 in Photos.__getitem__ at position 3" in told
    assert "`bulkhead quarantine add 'range@5'`" in told
    assert words.of_source("Photos")("range@5: stages[1] python: no") == "sample 5 of Photos: stages[1] python: no"


@pytest.mark.parametrize("one, named", [("{dataset}[{number}]", "Photos[5]"), ("batch {number} of {dataset}", "batch 5 of Photos")])
def test_who_wrote_no_spec_reads_of_none(one, named):
    assert words.of_data_loader("Photos", one)(POISON) == (
        f"{named} ended 3 fresh workers that did nothing else; the last one: killed by signal 11 in the dataset's code at "
        'position 3 of epoch 0. Repair the sample, or leave it out: errors="substitute" leaves it out and takes another'
    )


def test_of_the_samples_that_are_looked_at_first_none_can_be_left_out():
    assert words.of_first_look("Photos", " 0, 9")(POISON) == (
        "one of the samples 0, 9 of Photos (looked at first) ended 3 fresh workers that did nothing else; the last one: "
        "killed by signal 11 in the dataset's code at position 3 of epoch 0. Call __getitem__ with each of them to find which, and repair it"
    )


DENIED = (
    "PermissionError: the workers' sandbox denies socket.socket; do that before, and let the stage read the result, or allow it "
    "with --sandbox=capabilities (docs/sandbox.md)"
)


@pytest.mark.parametrize("make", [words.of_source, lambda name: words.of_data_loader(name, "{dataset}[{number}]")])
@pytest.mark.parametrize("where", ["position 3: range@5: stages[0] python: bulkhead_dataset:sample: DatasetError: Photos[5]: ",
                                   "stages[0] python: importing bulkhead_dataset failed: "])
def test_what_the_sandbox_denies_a_dataset_is_told_in_its_words(make, where):
    told = make("Photos")(where + DENIED)
    assert 'let the dataset read the result, or allow it with sandbox="capabilities" (docs/sandbox.md)' in told
    assert "let the stage read" in make("Photos")("range@5: stages[1] python: my:own: " + DENIED)  # of another stage


def test_options_are_named_as_arguments():
    assert words.of_source("Photos")("raise --worker-quota") == "raise worker_quota="


def test_a_service_that_does_not_start_says_first_what_ended_it():
    said = b"2026-01-01T00:00:00.123 info listening\n2026-01-01T00:00:00.124 warning --log-file: No such file\nbulkheadd: the folder cannot be used; give another --cache-dir\n"
    told = service_process.how_it_ended(7, 1, said, "")
    assert told.endswith("; its last words: the folder cannot be used; give another cache_dir=")
    assert service_process.how_it_ended(7, -9, said[:39], "").endswith("(pid 7) was killed by signal 9")


CRASHED = (
    "killed by signal 11 in stages[0] python (data.Photos) at position 3 of epoch 0 (if other records end workers there, too, "
    "the code is to blame: bulkhead.try_stage runs a Python function in your own process, where a debugger works)"
)
ALL_CRASH = (
    "3 different records ended 3 workers each in stages[0] python (data.Photos), and no sample passed it. Run the code in a "
    "process of your own, where a debugger shows where it ends: bulkhead.try_stage does so for a Python function"
)


def test_code_that_ends_workers_is_the_datasets_own():
    source = words.of_source("data.Photos")
    assert source(CRASHED).startswith("killed by signal 11 in data.Photos.__getitem__ at position 3")
    assert source(CRASHED).endswith("call data.Photos.__getitem__ in your own process, where a debugger works)")
    assert source(ALL_CRASH).endswith(
        "each in data.Photos.__getitem__, and no sample passed it. Call data.Photos.__getitem__ in a process of your own, where a "
        "debugger shows where it ends"
    )
    loader = words.of_data_loader("data.Photos", "{dataset}[{number}]")
    assert "in the dataset's code at position 3" in loader(CRASHED) and "try_stage" not in loader(ALL_CRASH)


NO_TERMINAL = (
    'NoTerminal: breakpoint() in a worker, which has no terminal: call the function in your own process, with its real inputs, by '
    'bulkhead.try_stage("module:function", spec), where breakpoints and pdb work'
)
TOLD = "NoTerminal: breakpoint() in a worker, which has no terminal: {} in your own process, where breakpoints and pdb work"


@pytest.mark.parametrize("make", [words.of_source, lambda dataset: words.of_data_loader(dataset, "{dataset}[{number}]")])
def test_breakpoints_of_a_dataset_are_for_its_own_process(make):
    begins = "position 3: range@5: stages[0] python: bulkhead_dataset:"
    assert make("Photos")(f"{begins}sample: DatasetError: Photos[5]: {NO_TERMINAL}") == "Photos[5]: " + TOLD.format("call dataset[5]")
    of_batch = "Photos: collate_fn of the samples 0, 1: "
    assert make("Photos")(f"{begins}batch: DatasetError: {of_batch}{NO_TERMINAL}") == of_batch + TOLD.format("run this code")
    assert make("Photos")(f"stages[0] python: importing bulkhead_dataset failed: {NO_TERMINAL}").endswith(TOLD.format("run this code"))
    assert "try_stage" in make("Photos")(f"position 3: range@5: stages[1] python: my_stages:f: {NO_TERMINAL}"), "the spec's own stage"


def test_sources_of_a_mixture_have_words_of_their_own():
    told = words.of_mixture({0: "Photos", 2: "Boxes"})
    raised = "position 3: 2:range@5: source.mixture.sources[2].stages[0] python: bulkhead_dataset:record: DatasetError: Boxes[5]: ValueError: no"
    assert told(raised) == "Boxes[5]: ValueError: no"
    assert told("1:range@5: source.mixture.sources[1].stages[0] python: no") == "1:range@5: source.mixture.sources[1].stages[0] python: no"
    assert told("0:range@7: killed in source.mixture.sources[0].stages[0] python (Photos)") == "sample 7 of Photos: killed in Photos.__getitem__"
    assert "`bulkhead quarantine add '2:range@5'`" in told(POISON.replace("'range@5'", "'2:range@5'"))


def test_options_of_a_service_that_somebody_else_started_stay_its_flags():
    assert words.of_source("Photos", str)("raise --worker-quota") == "raise --worker-quota"
    assert words.of_data_loader("Photos", "{dataset}[{number}]", str)("raise --worker-quota") == "raise --worker-quota"
