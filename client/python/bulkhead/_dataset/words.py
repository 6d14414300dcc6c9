"""Messages of the service about a dataset, in the dataset's words: the range and the stage that read it are ours."""

from __future__ import annotations

import re
from typing import Callable

from .._service.arguments import in_arguments

_RAISED = re.compile(
    r"(?:position \d+: )?range@\d+: stages\[0\] python: bulkhead_dataset:\w+: (?:DatasetError|NoTerminal): "
)
_NOT_LOADED = "stages[0] python: importing bulkhead_dataset failed: "
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


def of_source(dataset: str) -> Words:
    """For who wrote a spec with a Source of this class."""

    def words(text: str) -> str:
        text = _READS.sub(f"{dataset}.__getitem__", _common(dataset, text))
        return _RECORD.sub(lambda match: f"sample {match[1]} of {dataset}", text)

    return words


def _common(dataset: str, text: str) -> str:
    text = in_arguments(text)
    if _RAISED.search(text) or _NOT_LOADED in text:
        index = re.search(rf"(?:DatasetError|NoTerminal): {re.escape(dataset)}(\[\d+\])", text)
        call = f"call dataset{index[1]}" if index else "run this code"
        text = text.replace(_TRY_FUNCTION, f"{call} in your own process")
        text = text.replace("let the stage read the result", "let the dataset read the result")
    text = _RAISED.sub("", text)
    for advice, own in _TRY_STAGE.items():
        text = text.replace(advice, own.format(dataset=dataset))
    return text.replace(_NOT_LOADED, f"{dataset} cannot be loaded in a worker: ")


def of_first_look(dataset: str, samples: str) -> Words:
    """While a worker looks at some samples, to learn what they are; `samples`: " 0, 33, 66", or empty."""
    words_of_others = of_data_loader(dataset, f"one of the samples{samples} of {{dataset}} (looked at first)")

    def words(text: str) -> str:
        # Nothing can take their place yet.
        return words_of_others(_LEAVE_OUT.sub("Call __getitem__ with each of them to find which, and repair it", text))

    return words


def of_data_loader(dataset: str, one: str) -> Words:
    """For who wrote no spec; `one`: what the number {number} of the range stands for, "{dataset}[{number}]"."""

    def words(text: str) -> str:
        text = _common(dataset, text)
        text = _POLICY_OF_SPEC.sub('errors="substitute" leaves it out and takes another', text)
        text = text.replace("Repair the record, or", "Repair the sample, or")
        text = _READS.sub("the dataset's code", text)
        return re.sub(r"range@(\d+)", lambda match: one.format(dataset=dataset, number=match[1]), text)

    return words
