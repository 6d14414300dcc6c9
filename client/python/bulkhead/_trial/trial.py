"""A Python stage's function, called in this process with what the stage would get in a worker."""

from __future__ import annotations

import contextlib
import inspect
import json
import random
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Tuple, Union

import numpy as np

from .._boundary import ends_at_caller, meant
from .._display import html
from .._spec import spec_input
from .._spec.pipeline import Pipeline
from .._spec.pipeline_base import PipelineBase
from .._words import LOG_IS, did_you_mean
from ..errors import BulkheadError, DeadlineExceeded, InvalidArgument, LoaderClosed, ServiceUnavailable
from . import declared, difference, modules
from .place import Place, find
from .probing import probed


class TriedSample(NamedTuple):
    """One sample, or batch, of `bulkhead.try_stage`."""

    position: int  # in epoch 0; of a batch, that of its first sample
    inputs: Tuple[Any, ...]  # what the function got
    outputs: Tuple[Any, ...]  # what it returned here
    worker: Tuple[Any, ...]  # what a worker made; empty if the stage fails there
    differences: Tuple[str, ...]  # for people; empty: the same bytes


class StageTrial:
    """What `bulkhead.try_stage` found; `repr` tells it, and in a notebook a table.

    `function` is its name in the spec, `samples` a list of TriedSample, and `failure` what a worker
    said if the stage fails there, else empty.
    """

    def __init__(self, function: str, samples: List[TriedSample], failure: str, kind: str = "sample"):
        self._kind = kind
        self.function = function
        self.samples = samples
        self.failure = failure

    @property
    def equal(self) -> bool:
        """Whether workers make the same bytes."""
        return not self.failure and not any(sample.differences for sample in self.samples)

    def __repr__(self) -> str:
        count = len(self.samples)
        head = f"{self.function}: {count} {self._kind}{'' if count == 1 else 's' if self._kind == 'sample' else 'es'}"
        if self.equal:
            return f"{head}, the same bytes as a worker makes"
        lines = [f"  position{'s' * (len(at) > 1)} {', '.join(map(str, at))}: {text}" for text, at in self._places().items()]
        if self.failure:
            return "\n".join([f"{head}; in a worker it fails: {self.failure}", *lines])
        differing = sum(bool(sample.differences) for sample in self.samples)
        return "\n".join([f"{head}, {differing} of them other than a worker makes:", *lines])

    def _repr_html_(self) -> str:
        bytes_of = "the same bytes" if self.equal else "other bytes"
        told = f"fails: {self.failure}" if self.failure else bytes_of
        rows = [(", ".join(map(str, at)), text) for text, at in self._places().items()]
        parts = [html.table(("positions", "difference"), rows)] if rows else []
        tried = "samples" if self._kind == "sample" else "batches"
        return html.card("StageTrial", {"function": self.function, tried: len(self.samples), "in a worker": told}, *parts)

    def _places(self) -> Dict[str, List[int]]:
        """By difference, the positions that have it."""
        places: Dict[str, List[int]] = {}
        for sample in self.samples:
            for text in sample.differences:
                places.setdefault(text, []).append(sample.position)
        return places


@ends_at_caller
def try_stage(
    function: Union[str, Callable[..., Any]],
    spec: Any,
    n: int = 8,
    *,
    stage: Union[int, str, None] = None,
    **options: Any,
) -> StageTrial:
    """Calls the function of a Python stage in this process, where pdb and breakpoints work.

        print(bulkhead.try_stage("augment:rotate", "train.yaml"))

    It gets the first `n` samples as they come to that stage, with each sample's own random numbers
    (`rng`, `random`, `numpy.random`). What it returns is compared with what a worker makes of the
    same samples: the result's `repr` says where they differ, `equal` whether they do, and `samples`
    holds inputs and outputs. What the function raises is raised. Unless it fails
    in a worker, it is called a second time with each sample, the last one first, to find what it
    keeps from one call to the next.

    `function` is the name in the spec, "module:function", imported anew, with the files that it imports
    if one of them was edited; or a function, for
    instance one that was just changed in a notebook. `spec` is what Loader takes. `stage` says which one
    is meant if the spec calls the function more than once: an index in `stages`, or the stage's place as
    messages name it, "batch_stages[0]" or "source.mixture.sources[1].stages[0]". Further arguments go to
    the Loader (`worker_quota`, `cache_dir` …), which starts a service of its own.

    A stage of `batch_stages` gets the first `n` batches, a mixture's source's own stage the first `n`
    samples of that source.

    Raises InvalidArgument when the spec has no such stage or the file no such function, and what Loader
    raises. A YAML spec needs PyYAML.
    """
    if n < 1:
        raise InvalidArgument("n must be at least 1")
    pipeline = _pipeline(spec)
    place = find(function, pipeline._message, stage)
    python = place.python_in(pipeline._message)
    called = function if callable(function) else _imported(function)
    options = {"workers": 1, **options}
    got = probed(pipeline, place, list(python.inputs), dict(python.arguments), n, options)
    names = [output.name for output in python.outputs]
    called_on = [(called, pack, position, place) for position, pack in got]
    outputs = [_as_list(_call(*arguments), len(names)) for arguments in called_on]
    made: Dict[int, Tuple[Any, ...]] = {}
    failure = ""
    try:
        behind = place._replace(index=place.index + 1)
        made = {position: tuple(pack["inputs"]) for position, pack in probed(pipeline, behind, names, {}, n, options)}
    except (ServiceUnavailable, DeadlineExceeded, LoaderClosed):
        raise
    except BulkheadError as error:
        failure = error.message.partition(LOG_IS)[0]  # all that the log has of it is told
    again = outputs if failure else [_as_list(_call(*arguments), len(names)) for arguments in reversed(called_on)][::-1]
    samples = []
    for (position, pack), here, later in zip(got, outputs, again):
        there = made.get(position, ())
        differences = difference.of_outputs(names, here, list(there)) if there else declared.wrong(python, here)
        differences += difference.of_calls(names, here, later)
        samples.append(TriedSample(position, tuple(pack["inputs"]), tuple(here), there, tuple(differences)))
    return StageTrial(python.function, samples, failure, "batch" if place.of_batch else "sample")


def _pipeline(spec: Any) -> Pipeline:
    if isinstance(spec, Pipeline):
        return spec
    if isinstance(spec, PipelineBase):
        raise InvalidArgument(f"a spec is a path, text, a dict or a Pipeline, not {type(spec).__name__}")
    text, _, base_dir, *_ = spec_input.load(spec)
    try:
        values = json.loads(text)
    except ValueError:
        return Pipeline.from_yaml(spec)
    return Pipeline.from_dict(values, base_dir=base_dir)


def _imported(name: str) -> Callable[..., Any]:
    """The function as its file is now. InvalidArgument when there is none of that name."""
    module_name, _, path = name.partition(":")
    try:
        found: Any = modules.fresh(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # one that the file imports
        raise InvalidArgument(f"there is no module {error.name!r} on sys.path, which has to have its folder") from None
    for part in path.split("."):
        if not hasattr(found, part):
            own = [
                word
                for word, value in vars(found).items()
                if callable(value) and getattr(value, "__module__", None) == module_name
            ]
            file = getattr(sys.modules[module_name], "__file__", module_name)
            raise InvalidArgument(f"{file} has no {part!r}{did_you_mean(part, own)}")
        found = getattr(found, part)
    return found


def _as_list(output: Any, count: int) -> List[Any]:
    """The results of a function, one value for each output; copies, for it may write to the same array again."""
    values = output if isinstance(output, tuple) or (isinstance(output, list) and count != 1) else [output]
    return [value.copy() if isinstance(value, np.ndarray) else value for value in values]


def _call(function: Callable[..., Any], pack: Dict[str, Any], position: int, place: Place) -> Any:
    arguments = dict(pack["arguments"])
    if "key" in pack and _wants_rng(function, len(pack["inputs"]), arguments):
        key = np.array(pack["key"], np.uint64)
        arguments["rng"] = np.random.Generator(np.random.Philox(key=key))
    # The sample's random numbers; the program's own generators go on behind it. No context manager of contextlib's:
    # that sets the error's traceback, which a frozen dataclass does not take.
    states = random.getstate(), np.random.get_state()
    random.seed(pack["word"])
    np.random.seed(pack["word"] & 0xFFFFFFFF)
    try:
        return function(*pack["inputs"], **arguments)
    except Exception as error:
        with contextlib.suppress(Exception):  # the same, and Python before 3.11 has no notes
            error.add_note(f"(bulkhead.try_stage: {place}, at position {position} of epoch 0)")
        meant(error)  # of the function, which its traceback leads to
        raise
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _wants_rng(function: Callable[..., Any], inputs: int, arguments: Dict[str, Any]) -> bool:
    """As a worker decides it (bulkhead_host/stage.py)."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    rng = parameters.get("rng")
    if rng is None or "rng" in arguments:
        return False
    return rng.kind is inspect.Parameter.KEYWORD_ONLY or list(parameters).index("rng") >= inputs
