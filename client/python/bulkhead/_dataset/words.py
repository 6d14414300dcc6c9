"""Messages of the service about a dataset, in the dataset's words: the range and the stage that read it are ours."""

from __future__ import annotations

import re
from typing import Callable, Mapping

from .._service.arguments import in_arguments

_OF_MIXTURE = r"(?:source\.mixture\.sources\[\d+\]\.)?"
_RAISED = re.compile(
    rf"(?:position \d+: )?(?:\d+:)?range@\d+: {_OF_MIXTURE}stages\[0\] python: bulkhead_dataset:\w+: (?:DatasetError|NoTerminal): "
)
_NOT_LOADED = re.compile(rf"{_OF_MIXTURE}stages\[0\] python: importing bulkhead_dataset failed: ")
# With the dataset's class, where its code is meant.
_READS = re.compile(r"stages\[0\] python( \([^()]*\))?")
_TRY_STAGE = {
    "bulkhead.try_stage runs a Python function in your own process, where a debugger works": (
        "call {dataset}.__getitem__ in your own process, where a debugger works"
    ),
    "Run the code in a process of your own, where a debugger shows where it ends: bulkhead.try_stage does so for a Python "
    "function": "Call {dataset}.__getitem__ in a process of your own, where a debugger shows where it ends",
}
# Of a worker without a terminal, about its dataset's code.
_TRY_FUNCTION = (
    'call the function in your own process, with its real inputs, by bulkhead.try_stage("module:function", spec)'
)
# Not in a command, which has it in quotes.
_RECORD = re.compile(r"(?<!')\brange@(\d+)\b(?!')")
_POLICY_OF_SPEC = re.compile(r"errors\.policy: substitute puts such a record .* on the same cache folder for that")
_LEAVE_OUT = re.compile(r"Repair the record, or leave it out: .* on the same cache folder for that")


# What makes of a message of the service one in words that the program's author knows.
Words = Callable[[str], str]


def of_source(dataset: str, options: Words = in_arguments) -> Words:
    """For who wrote a spec with a Source of this class. `options`: what makes of the service's options those of the reader."""

    def words(text: str) -> str:
        text = _READS.sub(f"{dataset}.__getitem__", _common(dataset, options(text)))
        return _RECORD.sub(lambda match: f"sample {match[1]} of {dataset}", text)

    return words


def of_mixture(datasets: Mapping[int, str], options: Words = in_arguments) -> Words:
    """For who wrote a spec with Sources of these classes in a mixture, by their places in it."""

    def words(text: str) -> str:
        text = options(text)
        for number, dataset in datasets.items():
            reads = rf"source\.mixture\.sources\[{number}\]\.stages\[0\] python( \([^()]*\))?"
            if re.search(reads, text):
                text = _common(dataset, text)
            text = re.sub(reads, f"{dataset}.__getitem__", text)
            text = re.sub(rf"(?<!')\b{number}:range@(\d+)\b(?!')", lambda match: f"sample {match[1]} of {dataset}", text)
        return text

    return words


def _common(dataset: str, text: str) -> str:
    if _RAISED.search(text) or _NOT_LOADED.search(text):
        index = re.search(rf"(?:DatasetError|NoTerminal): {re.escape(dataset)}(\[\d+\])", text)
        call = f"call dataset{index[1]}" if index else "run this code"
        text = text.replace(_TRY_FUNCTION, f"{call} in your own process")
        text = text.replace("let the stage read the result", "let the dataset read the result")
    text = _RAISED.sub("", text)
    for advice, own in _TRY_STAGE.items():
        text = text.replace(advice, own.format(dataset=dataset))
    return _NOT_LOADED.sub(lambda _: f"{dataset} cannot be loaded in a worker: ", text)


def of_first_look(dataset: str, samples: str, options: Words = in_arguments) -> Words:
    """While a worker looks at some samples, to learn what they are; `samples`: " 0, 33, 66", or empty."""
    words_of_others = of_data_loader(dataset, f"one of the samples{samples} of {{dataset}} (looked at first)", options)

    def words(text: str) -> str:
        # Nothing can take their place yet.
        return words_of_others(_LEAVE_OUT.sub("Call __getitem__ with each of them to find which, and repair it", text))

    return words


def of_data_loader(dataset: str, one: str, options: Words = in_arguments) -> Words:
    """For who wrote no spec; `one`: what the number {number} of the range stands for, "{dataset}[{number}]"."""

    def words(text: str) -> str:
        text = _common(dataset, options(text))
        text = _POLICY_OF_SPEC.sub('errors="substitute" leaves it out and takes another', text)
        text = text.replace("Repair the record, or", "Repair the sample, or")
        text = _READS.sub("the dataset's code", text)
        return re.sub(r"range@(\d+)", lambda match: one.format(dataset=dataset, number=match[1]), text)

    return words
