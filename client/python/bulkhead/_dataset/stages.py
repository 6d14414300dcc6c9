"""The spec of a dataset in workers: a range, and a stage that reads the dataset at its numbers."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from .._loader import Loader
from .._service.arguments import Arguments, in_arguments
from ..errors import InvalidArgument
from .upload import Upload, of_target
from .image import Image
from .words import Words, of_first_look
from .worker.bulkhead_leaves import Layout, looked_at

# Samples that are looked at to learn what samples are; always as many, since what is learned is part of the fingerprint.
LOOKED_AT = 4
_HANG_SECONDS, _MOST_HANG_SECONDS = 30.0, 86400.0  # worker_hang_timeout's default and limit
# Of what the functions in `worker` make of a sample. Another one when that changes: their code is not in the fingerprint.
_FORMAT = "1"
_MOST_LAYOUT_BYTES = 1 << 16
_MOST_NAMED = 8  # samples in a message


class Identity(NamedTuple):
    """What of a dataset is in the fingerprints; its pickle is not, for that differs from process to process."""

    dataset: str  # module and name of its class
    name: str
    version: str
    length: int
    sampler: str
    code: str

    def arguments(self) -> Dict[str, str]:
        given = {key: str(value) for key, value in self._asdict().items() if value != ""}
        return {"format": _FORMAT, **given}


def class_name(dataset: Any) -> str:
    module, name = type(dataset).__module__, type(dataset).__qualname__
    return name if module in ("__main__", "builtins") else f"{module}.{name}"


def length_of(dataset: Any) -> int:
    """len(dataset). InvalidArgument if it has none, or no samples."""
    is_form = "a dataset is anything with __len__ and __getitem__, whose indices are 0 to len - 1"
    if dataset is None:
        raise InvalidArgument(f"the dataset is None: {is_form}")
    if isinstance(dataset, type):
        raise InvalidArgument(f"{dataset.__qualname__} is a class, and the dataset is an object of one: write {dataset.__name__}(...)")
    lacking = [name for name in ("__getitem__", "__len__") if not hasattr(dataset, name)]
    if lacking:
        advice = "; list(...) makes one of an iterator that fits into memory" if isinstance(dataset, Iterator) else ""
        raise InvalidArgument(f"{class_name(dataset)} has no {lacking[0]}: {is_form}{advice}")
    if isinstance(dataset, Mapping) and dataset and 0 not in dataset:
        key = next(iter(dataset))
        raise InvalidArgument(f"{class_name(dataset)} has no key 0: {is_form}; dataset[{key!r:.40}] or list(dataset.values()) may be one")
    try:
        length = len(dataset)
    except (TypeError, ValueError) as error:  # it gave something else than a length
        raise InvalidArgument(f"{class_name(dataset)}.__len__ gives no length: {error}") from error
    if length < 1:
        raise InvalidArgument(f"{class_name(dataset)} is empty: its len is {length}")
    return length


class Resolved(NamedTuple):
    """A spec that reads datasets, as the service takes it."""

    spec: Dict[str, Any]  # with a range and a stage in the place of each
    arguments: Arguments  # of a service of the loader's own
    kept: Sequence[Any]  # what has to live as long as the loader
    words: Words
    upload: Optional[Upload]  # what goes to another service


class DatasetLoader(Loader):
    """A Loader whose service has the dataset in `image`."""

    def __init__(self, image: Image, spec: Dict[str, Any], words: Words, listed: bool = False, **options: Any):
        self._of_dataset = image, words, of_target([image], options.get("target"), listed)
        super().__init__(spec, **options)

    def _with_dataset(self, spec: Any, own: Arguments, **_: Any) -> Resolved:
        image, words, upload = self._of_dataset
        if upload is None:
            own = own._replace(dataset=tuple(image.paths()))
        return Resolved(spec, own, [image], words, upload)


class _FirstLook(DatasetLoader):
    """One whose workers nobody needs behind it."""

    _brief = True


def stage(
    function: str, arguments: Dict[str, str], outputs: List[Dict[str, Any]]
) -> Dict[str, Any]:
    return {
        "python": {
            "function": f"bulkhead_dataset:{function}",
            "inputs": ["index"],
            "outputs": outputs,
            "arguments": arguments,
        }
    }


def spec_of(
    size: int, first: Dict[str, Any], outputs: List[str], batch: Dict[str, Any], **more: Any
) -> Dict[str, Any]:
    return {
        "source": {"range": {"size": size}},
        "stages": [first],
        "outputs": outputs,
        "batch": batch,
        **more,
    }


def learned(
    image: Image,
    arguments: Dict[str, str],
    list_of: int,
    size: int,
    count: int,
    options: Dict[str, Any],
) -> Layout:
    """What samples are, or with a `size` whole batches: a worker looks at some, of the sampler's list for epoch `list_of`."""
    arguments = {**arguments, "size": str(size), "count": str(count), "list_of": str(list_of)}
    said = {"name": "layout", "dtype": "uint8", "shape": [-1], "max_count": _MOST_LAYOUT_BYTES}
    spec = spec_of(1, stage("describe", arguments, [said]), ["layout"], {"size": 1}, epochs=1)
    known = not size and "listed" not in arguments and count <= _MOST_NAMED
    samples = f" {', '.join(map(str, looked_at(int(arguments['total']), count)))}" if known else ""
    words = of_first_look(arguments["dataset"], samples, options_in_words(options.get("target")))
    options = {**options, "credits": 1}
    if options.get("target") is None:
        # All are looked at in one call of the stage, which has the time of several.
        patience = options.get("worker_hang_timeout", _HANG_SECONDS)
        if isinstance(patience, (int, float)):  # the service refuses others
            patience = max(patience, min(patience * (count // LOOKED_AT), _MOST_HANG_SECONDS))
        options = {**options, "workers": 1, "worker_hang_timeout": patience}
    with _FirstLook(image, spec, words, "listed" in arguments, **options) as loader:
        for batch in loader:
            text = batch["layout"][0][: int(batch["layout_count"][0])].tobytes()
    return Layout(*json.loads(text))


def options_in_words(target: Any) -> Words:
    """Names options of the loader's own service as arguments; those of another one stay its flags."""
    return in_arguments if target is None else str


def checked_room(room: Any) -> int:
    """`room`, or 0 for none."""
    if room is None:
        return 0
    if isinstance(room, bool) or not isinstance(room, int) or room < 1:
        raise InvalidArgument(
            f"room is a number of bytes for each value whose size differs, not {room!r}"
        )
    return room


def checked_probe(probe: int) -> int:
    if isinstance(probe, bool) or not isinstance(probe, int) or not 1 <= probe <= 4096:
        raise InvalidArgument(
            f"probe is the number of samples that decide what all are, 1 to 4096, not {probe!r}"
        )
    return probe
