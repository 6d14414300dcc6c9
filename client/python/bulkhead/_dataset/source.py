"""bulkhead.Source: a user's own dataset as the source of a spec."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Union

from .._boundary import public
from .._service.arguments import Arguments
from ..errors import InvalidArgument
from . import declared, stages
from .upload import of_target
from .image import Image
from .words import of_mixture, of_source
from .worker.bulkhead_leaves import Layout, Leaf, is_declared, parts_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_\-/.]*")  # as the service takes them (server/stages/declaration/stage_checks.h)
# Of bytes that no batch has: only the part of a worker's room that a sample fills takes memory.
_NOT_DELIVERED_ROOM = 16 << 20


@public
class Source:
    """A dataset of your own as the source of a spec: anything with `__len__` and `__getitem__`.

        class Files:
            def __init__(self, paths, labels): ...
            def __len__(self): ...
            def __getitem__(self, index):
                return {"image": open(self.paths[index], "rb").read(), "label": self.labels[index]}

        spec = {
            "source": {"python": bulkhead.Source(Files(paths, labels))},
            "stages": [{"decode_image": {}}, {"random_resized_crop": {"size": 224}}],
            "order": "global",
            "batch": {"size": 64},
        }
        with bulkhead.Loader(spec, workers=4) as loader: ...

    The dataset is pickled once and runs in the workers only, under their quota; its arrays lie in memory that all workers
    share. `bulkhead.torch.DataLoader` is the same for programs that are written for PyTorch's DataLoader.

    A sample is a dict of values, whose keys become features; or a tuple, or one value, for which `fields` has the names. A
    value is a number, a NumPy array or tensor, whose dtype is the same in all samples and whose shape may differ in its first
    dimension; `bytes`, which stages such as decode_image read; or a `str`, which is delivered as UTF-8. `probe` samples,
    spread over the dataset, decide dtypes and shapes; of what differs in length there is room for 4 times the longest of them,
    and for at least 16 MiB of `bytes` that decode_image reads or that `outputs` leaves out. `room` is another number of bytes,
    or a dict of them by field. A sample that does not fit is a sample error, which says what `room` to give.

    `outputs` declares the values instead, as a Python stage's outputs are: `[{"name": "image", "dtype": "bytes",
    "max_count": 1 << 20}, {"name": "boxes", "dtype": "float32", "shape": [-1, 4], "max_count": 64}]`; `bytes` is also for a
    `str`. Then no sample is looked at first, and one that is otherwise is a sample error.

    In the service this is a range with a first stage that reads the dataset, so messages call your first stage stages[1]; the
    record that they call "sample 17 of Files" is `range@17` in cursors and commands. `name` and `version` are part of the fingerprint, beside class, length and code.

    A service at a `target` takes it if that was started with --allow-datasets, and this client may bring code. Raises InvalidArgument when the dataset cannot be pickled,
    with the part at fault.
    """

    def __init__(
        self,
        dataset: Any,
        fields: Optional[Sequence[str]] = None,
        *,
        name: str = "",
        version: str = "",
        room: Union[int, Mapping[str, int], None] = None,
        probe: int = stages.LOOKED_AT,
        outputs: Optional[Sequence[Mapping[str, Any]]] = None,
    ):
        self._fields = _checked_fields(fields)
        self._layout: Optional[Layout] = None
        if outputs is not None:
            if room is not None:
                raise InvalidArgument("room is for values whose sizes are learned: give max_count in outputs")
            self._layout = declared.layout_of_fields(outputs, fields)
        by_field = room if isinstance(room, Mapping) else {}
        self._rooms = {field: stages.checked_room(bytes_of) for field, bytes_of in by_field.items()}
        self._room = 0 if by_field else stages.checked_room(room)
        self._probe = stages.checked_probe(probe)
        length = stages.length_of(dataset)
        facts = {"class": stages.class_name(dataset), "workers": 0, "seed": 0}
        self._image = Image({"dataset": dataset, "collate": None, "worker_init": None}, facts)
        self._identity = stages.Identity(
            facts["class"], name, version, length, "", self._image.code
        )

    def __len__(self) -> int:
        return self._identity.length

    def _is_named(self) -> bool:
        return bool(self._identity.name or self._identity.version)

    def __repr__(self) -> str:
        return f"<bulkhead.Source of {self._identity.dataset}, {len(self)} samples>"

    def _first_stage(self, spec: Mapping[str, Any], options: Mapping[str, Any], part: int) -> Dict[str, Any]:
        """The stage that reads the dataset, number `part` of those of the spec; a worker of the service of a loader with
        these options looks at samples."""
        arguments = self._identity.arguments()
        if self._layout is None:
            more = {**arguments, "total": str(len(self))}
            learned = stages.learned(self._image, more, 0, 0, self._probe, dict(options))
            known = self._names(learned)
            unknown = sorted(set(self._rooms) - set(known))
            if unknown:
                raise InvalidArgument(
                    f"room names `{unknown[0]}`, but a sample of {self._identity.dataset} has {', '.join(known)}"
                )
            self._layout = learned
        names = self._names(self._layout)
        layout = self._layout.with_room(lambda number: self._room_of(number, names, _not_delivered(spec, names)))
        outputs = [self._output(name, leaf) for name, leaf in zip(names, layout.leaves)]
        if part > 0:
            arguments["part"] = str(part)
        return stages.stage("record", {**arguments, "layout": json.dumps(list(layout))}, outputs)

    def _room_of(self, number: int, names: Sequence[str], not_delivered: Set[str]) -> int:
        """Bytes for a value whose size may differ; 0: what was learned."""
        given = self._rooms.get(names[number], self._room)
        if given or names[number] not in not_delivered:
            return given
        assert self._layout is not None
        leaf = self._layout.leaves[number]
        if is_declared(leaf):
            return 0
        return max(leaf["room"], _NOT_DELIVERED_ROOM) if leaf["kind"] == "bytes" else 0

    def _names(self, layout: Layout) -> List[str]:
        names = self._names_of_values(layout)
        for name in names:
            if not _NAME.fullmatch(name):
                raise InvalidArgument(
                    f"{self._identity.dataset} calls a value {name!r:.60}: a name has a letter or _ first, then letters, digits and _ - / ."
                )
        return names

    def _names_of_values(self, layout: Layout) -> List[str]:
        tree, count = layout.tree, len(layout.leaves)
        if tree == 0 and layout.leaves[0]["kind"] == "none":
            raise InvalidArgument(f"{self._identity.dataset} gives None for each sample: does __getitem__ return?")
        if tree == 0 and layout.leaves[0]["kind"] == "object" or count == 0:
            raise InvalidArgument(
                f"samples of {self._identity.dataset} have no values in common: return a dict of arrays, numbers, str and bytes, "
                "each time with the same names as its keys"
            )
        parts = [0] if isinstance(tree, int) else [part for _, part in parts_of(tree)]
        if parts != list(range(count)):
            raise InvalidArgument(
                f"a sample of {self._identity.dataset} has parts within parts: return a dict of arrays, numbers, str and bytes"
            )
        if isinstance(tree, dict) and "dict" in tree and self._fields is None:
            return [key for key, _ in tree["dict"]]
        if self._fields is None or len(self._fields) != count:
            given = "has none" if self._fields is None else f"names {len(self._fields)}"
            raise InvalidArgument(
                f"a sample of {self._identity.dataset} has {count} value{'s' if count > 1 else ''}, but `fields` {given}: give each a name"
            )
        return self._fields

    def _output(self, name: str, leaf: Leaf) -> Dict[str, Any]:
        kind = leaf["kind"]
        if kind == "array":
            return {"name": name, "dtype": leaf["dtype"], "shape": leaf["shape"]}
        if kind in ("bytes", "text"):
            return {"name": name, "dtype": "bytes", "max_count": leaf["room"]}
        if kind == "ragged" and "rest" in leaf:
            rows = -(-leaf["room"] // max(1, math.prod(leaf["rest"])))
            return {
                "name": name,
                "dtype": leaf["dtype"],
                "shape": [-1, *leaf["rest"]],
                "max_count": rows,
            }
        what = {
            "ragged": "arrays whose shapes differ not only in the first dimension",
            "none": "None",
        }.get(kind, "of several types, or of another one")
        raise InvalidArgument(
            f"the value `{name}` of {self._identity.dataset} is {what}: a source gives arrays, numbers, str and bytes"
        )


def _checked_fields(fields: Any) -> Optional[List[str]]:
    if fields is None:
        return None
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not all(isinstance(field, str) for field in fields):
        raise InvalidArgument(f"fields is a list of names, one for each value of a sample, such as ['image', 'label'], not {fields!r:.60}")
    return list(fields)


def _not_delivered(spec: Mapping[str, Any], names: Sequence[str]) -> Set[str]:
    """Features that are in no batch as they are: room for them reserves nothing in the slots."""
    outputs = spec.get("outputs")
    found = set(names) - set(outputs) if isinstance(outputs, (list, tuple)) and outputs else set()
    for stage in _stages_of(spec):
        options = stage.get("decode_image") if isinstance(stage, Mapping) else None
        if stage == "decode_image" or isinstance(stage, Mapping) and "decode_image" in stage:
            found.add((options.get("input") if isinstance(options, Mapping) else None) or "image")
    return found


def _stages_of(spec: Mapping[str, Any]) -> List[Any]:
    given = spec.get("stages", [])
    return list(given) if isinstance(given, (list, tuple)) else [given]


def resolved(spec: Mapping[str, Any], given: Arguments, **options: Any) -> stages.Resolved:
    """`options`: others of the loader: target, credentials, timeout, reconnect_timeout."""
    own = {name: value for name, value in given._asdict().items() if value not in (None, ())}
    found: Dict[int, Source] = {}  # by their place in a mixture; 0: it is none

    def replaced(part: Mapping[str, Any], number: int, following: List[Any]) -> Dict[str, Any]:
        source: Source = part["source"]["python"]
        if not source._is_named() and any(stage == "cache" or "cache" in stage for stage in following):
            raise InvalidArgument(
                "a `cache` stage finds its results again by the dataset's class, length, name and version: give "
                "bulkhead.Source a name= or version=, another one for other data"
            )
        delivers = {"outputs": spec.get("outputs"), "stages": following}
        first = source._first_stage(delivers, {**own, **options}, len(found))
        found[number] = source
        return {**part, "source": {"range": {"size": len(source)}}, "stages": [first, *_stages_of(part)]}

    parts = _parts_of(spec)
    if parts is None:
        whole = replaced(spec, 0, _stages_of(spec))
    else:
        common = _stages_of(spec)
        mixed = [
            replaced(part, number, [*_stages_of(part), *common]) if _is_source(part) else part
            for number, part in enumerate(parts)
        ]
        whole = {**spec, "source": {"mixture": {**spec["source"]["mixture"], "sources": mixed}}}
    target = options.get("target")
    sources = list(found.values())
    in_words = stages.options_in_words(target)
    words = (
        of_source(sources[0]._identity.dataset, in_words)
        if parts is None
        else of_mixture({number: source._identity.dataset for number, source in found.items()}, in_words)
    )
    upload = of_target([source._image for source in sources], target, listed=False)
    if target is None:
        first, *others = (source._image.paths() for source in sources)
        given = given._replace(dataset=(*first, *(paths[0] for paths in others)))
    return stages.Resolved(whole, given, sources, words, upload)


def _is_source(part: Any) -> bool:
    source = part.get("source") if isinstance(part, Mapping) else None
    return isinstance(source, Mapping) and isinstance(source.get("python"), Source)


def _parts_of(spec: Mapping[str, Any]) -> Optional[Sequence[Any]]:
    """The sources of a mixture; None: it is none."""
    source = spec.get("source")
    mixture = source.get("mixture") if isinstance(source, Mapping) else None
    parts = mixture.get("sources") if isinstance(mixture, Mapping) else None
    return parts if isinstance(parts, (list, tuple)) else None


def holds_dataset(spec: Any) -> bool:
    """Whether a spec names a Source, perhaps in a mixture. InvalidArgument for anything else in the place of one."""
    if not isinstance(spec, Mapping):
        return False
    places = {"source": spec}
    for number, part in enumerate(_parts_of(spec) or ()):
        places[f"source.mixture.sources[{number}].source"] = part
    for place, part in places.items():
        source = part.get("source") if isinstance(part, Mapping) else None
        if isinstance(source, Mapping) and "python" in source and not _is_source(part):
            raise InvalidArgument(f"{place}.python: must be a bulkhead.Source, made of your dataset")
    return any(map(_is_source, places.values()))
