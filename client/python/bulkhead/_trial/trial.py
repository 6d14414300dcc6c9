"""A Python stage's function, called in this process with what the stage would get in a worker."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import json
import random
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from .._loader import Loader
from .._rpc import proto
from .._spec import spec_input
from .._spec.pipeline import Pipeline
from .._spec.pipeline_base import PipelineBase
from ..errors import BulkheadError, DeadlineExceeded, InvalidArgument, LoaderClosed, ServiceUnavailable
from . import difference
from .worker import bulkhead_probe

_FIRST_ROOM = 16 << 20
_MOST_ROOM = 1 << 30
_OUTPUT = "bulkhead_probe"


class TriedSample(NamedTuple):
    """One sample of `bulkhead.try_stage`."""

    position: int  # in epoch 0
    inputs: Tuple[Any, ...]  # what the function got
    outputs: Tuple[Any, ...]  # what it returned here
    worker: Tuple[Any, ...]  # what a worker made; empty if the stage fails there
    differences: Tuple[str, ...]  # for people; empty: the same bytes


class StageTrial:
    """What `bulkhead.try_stage` found; `repr` tells it.

    `function` is its name in the spec, `samples` a list of TriedSample, and `failure` what a worker
    said if the stage fails there, else empty.
    """

    def __init__(self, function: str, samples: List[TriedSample], failure: str):
        self.function = function
        self.samples = samples
        self.failure = failure

    @property
    def equal(self) -> bool:
        """Whether workers make the same bytes."""
        return not self.failure and not any(sample.differences for sample in self.samples)

    def __repr__(self) -> str:
        count = len(self.samples)
        head = f"{self.function}: {count} sample{'s' if count != 1 else ''}"
        if self.equal:
            return f"{head}, the same bytes as a worker makes"
        lines = [
            f"  position {sample.position}: {text}"
            for sample in self.samples
            for text in sample.differences
        ]
        if self.failure:
            lines.append(f"  in a worker it fails: {self.failure}")
        differing = sum(bool(sample.differences) for sample in self.samples)
        return "\n".join([f"{head}, {differing} of them other than a worker makes:", *lines])


def try_stage(
    function: Union[str, Callable[..., Any]],
    spec: Any,
    n: int = 8,
    *,
    stage: Optional[int] = None,
    **options: Any,
) -> StageTrial:
    """Calls the function of a Python stage in this process, where pdb and breakpoints work.

        print(bulkhead.try_stage("augment:rotate", "train.yaml"))

    It gets the first `n` samples as they come to that stage, with each sample's own random numbers
    (`rng`, `random`, `numpy.random`). What it returns is compared with what a worker makes of the
    same samples: the result's `repr` says where they differ, `equal` whether they do, and `samples`
    holds inputs and outputs. What the function raises is raised.

    `function` is the name in the spec, "module:function", imported anew; or a function, for
    instance one that was just changed in a notebook. `spec` is what Loader takes. `stage` is the
    stage's index in `stages`, if the spec calls the function more than once. Further arguments
    go to the Loader (`worker_quota`, `cache_dir` …), which starts a service of its own.

    Raises InvalidArgument when the spec has no such stage, and what Loader raises. A YAML spec
    needs PyYAML.
    """
    if n < 1:
        raise InvalidArgument("n must be at least 1")
    pipeline = _pipeline(spec)
    place = _place(function, pipeline, stage)
    python = pipeline._message.stages[place].python
    called = function if callable(function) else _imported(function)
    options = {"workers": 1, **options}
    packs = _probed(pipeline, place, list(python.inputs), dict(python.arguments), n, options)
    outputs = [_call(called, pack, position) for position, pack in enumerate(packs)]
    names = [output.name for output in python.outputs]
    failure = ""
    made: List[Tuple[Any, ...]] = []
    try:
        made += [
            tuple(pack["inputs"])
            for pack in _probed(pipeline, place + 1, names, {}, n, options)
        ]
    except (ServiceUnavailable, DeadlineExceeded, LoaderClosed):
        raise
    except BulkheadError as error:
        failure = error.message
    made += [()] * (len(packs) - len(made))
    samples = [
        TriedSample(
            position,
            tuple(pack["inputs"]),
            tuple(here),
            there,
            tuple(difference.of_outputs(names, here, list(there))) if there else (),
        )
        for position, (pack, here, there) in enumerate(
            zip(packs, (_as_list(output, len(names)) for output in outputs), made)
        )
    ]
    return StageTrial(python.function, samples, failure)


def _pipeline(spec: Any) -> Pipeline:
    if isinstance(spec, Pipeline):
        return spec
    if isinstance(spec, PipelineBase):
        raise InvalidArgument(f"a spec is a path, text, a dict or a Pipeline, not {type(spec).__name__}")
    text, _, base_dir, _ = spec_input.load(spec)
    try:
        values = json.loads(text)
    except ValueError:
        return Pipeline.from_yaml(spec)
    return Pipeline.from_dict(values, base_dir=base_dir)


def _place(function: Any, pipeline: Pipeline, stage: Optional[int]) -> int:
    """The index of the stage that is meant."""
    stages = pipeline._message.stages
    names = {place: each.python.function for place, each in enumerate(stages) if each.HasField("python")}
    if stage is not None:
        if stage not in names:
            raise InvalidArgument(f"stages[{stage}] is no Python stage; those are at {sorted(names)}")
        return stage
    if not names:
        raise InvalidArgument(
            "the spec's `stages` have no Python stage; those of batch_stages and of a mixture's "
            "sources cannot be tried alone"
        )
    if callable(function):
        own = getattr(function, "__qualname__", "")
        name = f"{getattr(function, '__module__', '')}:{own}"
        found = [place for place in names if names[place] == name]
        found = found or [place for place in names if names[place].partition(":")[2] == own]
        found = found or (list(names) if len(names) == 1 else [])
    else:
        name = str(function)
        found = [place for place in names if names[place] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidArgument(f"{name} is called at stages {found}; say which one by stage=")
    near = difflib.get_close_matches(name, names.values(), 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names.values())}"
    raise InvalidArgument(f"no stage of the spec calls {name!r}{hint}")


def _imported(name: str) -> Callable[..., Any]:
    """The function as its file is now."""
    module_name, _, path = name.partition(":")
    known = sys.modules.get(module_name)
    importlib.invalidate_caches()
    found: Any = importlib.reload(known) if known is not None else importlib.import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _probed(
    pipeline: Pipeline, place: int, inputs: List[str], arguments: Dict[str, str], n: int, options: Dict[str, Any]
) -> List[Dict[str, Any]]:
    """What a stage with these inputs and arguments at `place` gets, for the first samples."""
    room = _FIRST_ROOM
    while True:
        packs: List[Dict[str, Any]] = []
        with Loader(_with_probe(pipeline, place, inputs, arguments, room), **options) as loader:
            for batch in loader.stream():
                packs.append(bulkhead_probe.unpack(bytes(batch[_OUTPUT][0])))
                if len(packs) == n:
                    break
        needed = max((pack.get("needs", 0) for pack in packs), default=0)
        if needed == 0:
            return packs
        if needed > _MOST_ROOM:
            raise InvalidArgument(f"a sample's inputs take {needed} bytes, more than can be tried")
        room = 1 << needed.bit_length()


def _with_probe(
    pipeline: Pipeline, place: int, inputs: List[str], arguments: Dict[str, str], room: int
) -> Pipeline:
    """The spec up to `place`, with the probe there. The stages before it keep their places, and so
    their random numbers."""
    message = pipeline._copy()
    del message.stages[place:], message.batch_stages[:], message.outputs[:]
    probe = message.stages.add().python
    probe.function = "bulkhead_probe:pack"
    probe.inputs.extend(inputs)
    probe.outputs.add(name=_OUTPUT, dtype=proto.DTYPE_BYTES, max_count=room)
    probe.arguments.update(arguments)
    probe.arguments["bulkhead_room"] = str(room)
    message.outputs.append(_OUTPUT)
    for field in ("batch", "epochs", "deterministic"):
        message.ClearField(field)
    message.batch.size = 1
    message.epochs = 1
    return pipeline._changed(message)


def _as_list(output: Any, count: int) -> List[Any]:
    """What a function returned, as one value for each output."""
    if count == 1 and not isinstance(output, tuple):
        return [output]
    return list(output) if isinstance(output, (tuple, list)) else [output]


def _call(function: Callable[..., Any], pack: Dict[str, Any], position: int) -> Any:
    arguments = dict(pack["arguments"])
    if "key" in pack and _wants_rng(function, len(pack["inputs"]), arguments):
        key = np.array(pack["key"], np.uint64)
        arguments["rng"] = np.random.Generator(np.random.Philox(key=key))
    with _seeded(pack["word"]):
        try:
            return function(*pack["inputs"], **arguments)
        except Exception as error:
            if hasattr(error, "add_note"):  # Python 3.11
                error.add_note(f"(bulkhead.try_stage: at position {position} of epoch 0)")
            raise


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


@contextlib.contextmanager
def _seeded(word: int) -> Iterator[None]:
    """The sample's random numbers; the program's own generators go on behind it."""
    states = random.getstate(), np.random.get_state()
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
