"""Messages of the service about a dataset, in the dataset's words: the range and the stage that read it are ours."""

from __future__ import annotations

import re
from typing import Callable

from .._service.arguments import in_arguments

_RAISED = re.compile(
    r"(?:position \d+: )?range@\d+: stages\[0\] python: bulkhead_dataset:\w+: DatasetError: "
)
_READS = "stages[0] python"
_NOT_LOADED = f"{_READS}: importing bulkhead_dataset failed: "
# Not in a command, which has it in quotes.
_RECORD = re.compile(r"(?<!')\brange@(\d+)\b(?!')")
_POLICY_OF_SPEC = re.compile(r"errors\.policy: substitute puts such a record .* on the same cache folder for that")
_LEAVE_OUT = re.compile(r"Repair the record, or leave it out: .* on the same cache folder for that")


# What makes of a message of the service one in words that the program's author knows.
Words = Callable[[str], str]


def of_source(dataset: str) -> Words:
    """For who wrote a spec with a Source of this class."""

    def words(text: str) -> str:
        text = _common(dataset, text).replace(_READS, f"{dataset}.__getitem__")
        return _RECORD.sub(lambda match: f"sample {match[1]} of {dataset}", text)

    return words


def _common(dataset: str, text: str) -> str:
    text = _RAISED.sub("", in_arguments(text))
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
        text = text.replace(_READS, "the dataset's code")
        return re.sub(r"range@(\d+)", lambda match: one.format(dataset=dataset, number=match[1]), text)

    return words
