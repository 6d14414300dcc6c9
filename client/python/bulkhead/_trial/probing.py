"""The values at a place of a spec: a probe runs there as a stage in a worker, and packs what it gets."""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

from .._loader import Loader
from .._rpc import proto
from .._spec.pipeline import Pipeline
from ..errors import InvalidArgument
from .place import Place
from .worker import bulkhead_probe

_FIRST_ROOM = 16 << 20
_MOST_ROOM = 1 << 30
_LEAST_ROOM = 64  # for what says that there is too little
_OUTPUT = "bulkhead_probe"

Pack = Dict[str, Any]


def probed(
    pipeline: Pipeline, place: Place, inputs: List[str], arguments: Dict[str, str], n: int, options: Dict[str, Any]
) -> List[Tuple[int, Pack]]:
    """What a stage with these inputs and arguments at `place` gets of the first `n` samples, or batches,
    that come there; each with its position in epoch 0."""
    rows = pipeline._message.batch.size if place.of_batch else 1
    room = max(_FIRST_ROOM // rows, _LEAST_ROOM)  # of a row
    while True:
        packs: List[Tuple[int, Pack]] = []
        with Loader(_with_probe(pipeline, place, inputs, arguments, room), **options) as loader:
            for batch in loader.stream():
                pack = bulkhead_probe.unpack(batch[_OUTPUT].tobytes())
                if "passed" not in pack:
                    packs.append((batch.positions.start, pack))
                if len(packs) == n:
                    break
        needed = max((pack.get("needs", 0) for _, pack in packs), default=0)
        if needed == 0:
            return packs
        if needed * rows > _MOST_ROOM:
            raise InvalidArgument(f"the inputs at {place} take {needed * rows} bytes, more than can be tried")
        room = 1 << needed.bit_length()


def _with_probe(
    pipeline: Pipeline, place: Place, inputs: List[str], arguments: Dict[str, str], room: int
) -> Pipeline:
    """The spec up to `place`, with the probe there. What stands before it keeps its place, and so its
    random numbers."""
    message = pipeline._copy()
    stages = place.list_in(message)
    if place.of_batch:
        made_later = _made_by(stages[place.index :]) - set(inputs)
        kept = [name for name in message.outputs if name not in made_later]
        del stages[place.index :], message.outputs[:]
        message.outputs.extend(kept)
        probe = stages.add().python
        probe.function = "bulkhead_probe:pack_batch"
        probe.outputs.add(name=_OUTPUT, dtype=proto.DTYPE_UINT8, shape=[room])
        if message.outputs:
            message.outputs.append(_OUTPUT)
    else:
        del stages[place.index :]
        if place.source >= 0:
            del message.stages[:]
            _pass_others(message.source.mixture.sources, place.source, room)
        probe = _add_probe(stages, "pack", room)
        del message.batch_stages[:], message.outputs[:]
        message.outputs.append(_OUTPUT)
        message.ClearField("batch")
        message.batch.size = 1
    probe.inputs.extend(inputs)
    probe.arguments.update(arguments)
    probe.arguments["bulkhead_room"] = str(room)
    for field in ("epochs", "deterministic"):
        message.ClearField(field)
    message.epochs = 1
    return pipeline._changed(message)


def _made_by(batch_stages: Any) -> Set[str]:
    """Names of outputs that exist only after these stages, as far as their functions' declarations tell."""
    made: Set[str] = set()
    read: Set[str] = set()
    for stage in batch_stages:
        read.update(set(stage.python.inputs) - made)
        made.update(output.name for output in stage.python.outputs)
    return made - read


def _add_probe(stages: Any, function: str, room: int) -> Any:
    probe = stages.add().python
    probe.function = f"bulkhead_probe:{function}"
    probe.outputs.add(name=_OUTPUT, dtype=proto.DTYPE_BYTES, max_count=room)
    return probe


def _pass_others(sources: Any, tried: int, room: int) -> None:
    """The samples of other sources of a mixture keep their positions, and come without their stages."""
    for number, source in enumerate(sources):
        if number != tried:
            del source.stages[:]
            _add_probe(source.stages, "pass_by", room).inputs.append(_a_feature(source))


def _a_feature(source: Any) -> str:
    """The name of one that every sample of the source has."""
    kind = source.source.WhichOneof("source")
    if source.features:
        return min(source.features)
    if kind == "image_list" and source.source.image_list.images:
        return str(source.source.image_list.images[0])
    return "index" if kind == "range" else "image"
