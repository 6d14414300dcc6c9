"""The base of Pipeline: a spec's message that is copied, never changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Set, Tuple, Type, TypeVar, Union

from .._boundary import meant, public
from .._rpc import proto
from ..errors import SpecError
from . import spec_message, spec_text
from .list_file import ListFile
from .pipeline_calls import Named, no_method

PathLike = Union[str, "os.PathLike[str]"]

_Self = TypeVar("_Self", bound="PipelineBase")

NOT_MIXED = (
    "Pipeline.mixture takes no bulkhead.Source: write the spec as a dict, in which a source of a mixture may be "
    '{"python": bulkhead.Source(dataset)}'
)


def absolute(path: str) -> str:
    """Where a path leads from the working folder: unlike os.path.abspath it keeps `..`, which behind a link leads elsewhere."""
    return os.path.join(os.getcwd(), path) if os.pardir in path.split(os.sep) else os.path.abspath(path)


def given(**options: Any) -> Dict[str, Any]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


@public
class PipelineBase(metaclass=Named):
    """Immutable: every method returns another pipeline. Thread-safe."""

    __slots__ = ("_base_dir", "_list", "_message")

    _message: Any
    _base_dir: Optional[str]
    _list: Optional[ListFile]  # the lines of a source that names no path

    def __init__(self) -> None:
        raise meant(
            TypeError(
                "a Pipeline begins with a source: Pipeline.tfrecord(…), tar, image_folder, image_list, "
                "range, mixture or from_lists; or with Pipeline.from_yaml(…)"
            )
        )

    @classmethod
    def _make(
        cls: Type[_Self],
        message: Any,
        base_dir: Optional[PathLike],
        list_file: Optional[ListFile] = None,
    ) -> _Self:
        self = object.__new__(cls)
        folder = None if base_dir is None else absolute(os.fspath(base_dir))
        for name, value in (("_message", message), ("_base_dir", folder), ("_list", list_file)):
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        raise meant(AttributeError("a Pipeline does not change; its methods return another one"))

    def __delattr__(self, name: str) -> None:
        raise meant(AttributeError("a Pipeline does not change; its methods return another one"))

    # What the generated methods call.

    @classmethod
    def _source(
        cls: Type[_Self],
        name: str,
        options: Mapping[str, Any],
        base_dir: Optional[PathLike],
        features: Optional[Mapping[str, Any]] = None,
    ) -> _Self:
        message = proto.PipelineSpec()
        declared = {} if features is None else {"features": features}
        spec_message.fill(message, {"source": {name: options}, **declared})
        return cls._make(message, base_dir)

    def _changed(self: _Self, message: Any) -> _Self:
        return self._make(message, self._base_dir, self._list)

    def _copy(self) -> Any:
        message = proto.PipelineSpec()
        message.CopyFrom(self._message)
        return message

    def _stage(self: _Self, field: str, name: str, options: Mapping[str, Any]) -> _Self:
        return self._append(field, {name: options})

    def _order(self: _Self, name: str, options: Mapping[str, Any]) -> _Self:
        return self._option("order", {name: options})

    def _option(self: _Self, field: str, value: Any) -> _Self:
        """Replaces the option by `value`, or clears it if `value` is None."""
        message = self._copy()
        message.ClearField(field)
        if value is not None:
            spec_message.fill(message, {field: value})
        return self._changed(message)

    def _append(self: _Self, field: str, item: Mapping[str, Any]) -> _Self:
        message = self._copy()
        items = getattr(message, field)
        spec_message.fill(items.add(), item, (field, len(items) - 1))
        return self._changed(message)

    # What it is.

    @property
    def base_dir(self) -> Optional[str]:
        """Absolute folder that relative paths start from; None: a Loader's current one.

        With a long list of `from_lists` it is the folder of the list's file.
        """
        return self._list.folder if self._list is not None else self._base_dir

    def _complete(self) -> Any:
        """The message with its list file, if there is one."""
        if self._list is None:
            return self._message
        message = self._copy()
        message.source.image_list.path = ListFile.NAME
        return message

    def to_dict(self) -> Dict[str, Any]:
        """The spec as plain dict, as `Loader` takes it; lists are lists, enums lower-case texts."""
        return spec_text.to_dict(self._complete())

    def to_yaml(self) -> str:
        """The spec as YAML; what a Loader sends, so a SpecError's line is one of these."""
        return spec_text.to_yaml(self.to_dict())

    def _identity(self) -> Tuple[bytes, Optional[str], Optional[str]]:
        text = self._list.text if self._list is not None else None
        return self._message.SerializeToString(deterministic=True), self._base_dir, text

    def __eq__(self, other: object) -> bool:
        """Whether both write the same spec, with paths from the same folder."""
        if not isinstance(other, PipelineBase):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self) -> Any:
        return (_unpickled, (type(self), *self._identity()))

    if not TYPE_CHECKING:  # else every name would pass for a method

        def __getattr__(self, name: str) -> Any:
            raise no_method(type(self), name)


def _unpickled(
    cls: Type[_Self], data: bytes, base_dir: Optional[str], text: Optional[str]
) -> _Self:
    message = proto.PipelineSpec.FromString(data)
    return cls._make(message, base_dir, ListFile(text) if text is not None else None)


def _is_source(part: Any) -> bool:
    """Whether it is a bulkhead.Source, or a spec of one."""
    if isinstance(part, Mapping):
        source = part.get("source")
        part = source.get("python") if isinstance(source, Mapping) else None
    return hasattr(part, "_first_stage")


def mixed(pairs: Any) -> Tuple[Any, Optional[str]]:
    """A spec's message whose source mixes those of (weight, pipeline) pairs, and its base_dir."""
    message = proto.PipelineSpec()
    sources = message.source.mixture.sources
    takes = {field.name for field in sources.add().DESCRIPTOR.fields}
    del sources[:]
    folders: Set[str] = set()
    without_folder = False
    for index, pair in enumerate(pairs):
        path = ("source", "mixture", "sources", index)
        place = spec_message.place_text(path)
        try:
            weight, part = pair
        except (TypeError, ValueError):
            weight, part = None, None
        if not isinstance(part, PipelineBase):
            if _is_source(part):
                raise SpecError(f"{place}: {NOT_MIXED}")
            raise SpecError(
                f"{place}: must be a pair of a weight and a Pipeline, not {type(pair).__name__}"
            )
        if part._list is not None:
            raise SpecError(
                f"{place}: a long list of from_lists cannot be mixed; write "
                "it to a file, and use Pipeline.image_list"
            )
        target = sources.add()
        spec_message.fill(target, {"weight": weight}, path)
        for field, _ in part._message.ListFields():
            if field.name not in takes:
                raise SpecError(
                    f"{place}: `{field.name}` is of the whole mixture; call "
                    f"{field.name} on what Pipeline.mixture returns"
                )
        spec_message.fill(target, spec_text.to_dict(part._message), path)
        if part.base_dir is not None:
            folders.add(part.base_dir)
        elif not target.source.HasField("range"):  # it names no path
            without_folder = True
    names = sorted(folders)
    if folders and without_folder:
        names.append("the current one when the Loader is made")
    if len(names) > 1:
        raise SpecError(
            "the pipelines of a mixture start from different folders: "
            f"{', '.join(names)}; give one base_dir to all of them, and absolute paths"
        )
    return message, names[0] if names else None
