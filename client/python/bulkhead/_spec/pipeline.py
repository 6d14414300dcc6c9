"""Specs built in Python."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from .._display import html
from .._rpc import proto
from ..errors import SpecError
from . import pipeline_repr, spec_input, spec_message, spec_yaml
from .list_file import ListFile, Rows
from .pipeline_base import PathLike, absolute, mixed
from .pipeline_calls import names_options
from .pipeline_methods import MixtureStop, PipelineMethods


@names_options
class Pipeline(PipelineMethods):
    """A spec, built step by step; `Loader` takes it wherever it takes a spec.

        pipeline = (
            bulkhead.Pipeline.image_folder("photos")
            .decode_image()
            .random_resized_crop(224)
            .random_horizontal_flip()
            .batch(64, drop_remainder=True)
            .order_global()
            .seed(1)
        )

    It begins with a source. Every further method returns another Pipeline: stages, batch stages and
    `filter` add to what is there, the others set what they name. What an option means, and its
    default, are those of the YAML (docs/spec.md, docs/stages.md); an option that is None is left to
    its default. Unknown names and values of a wrong type raise at once, SpecError or TypeError; the
    service checks the rest when a Loader opens, and names the line of `to_yaml()`.

    Pipelines are immutable, equal when they write the same spec from the same folder, hashable and
    picklable; `repr` is the code that makes one.
    """

    __slots__ = ()

    @classmethod
    def mixture(
        cls,
        sources: Sequence[Tuple[float, "Pipeline"]],
        *,
        stop: Optional[MixtureStop] = None,
        samples_per_epoch: Optional[int] = None,
    ) -> "Pipeline":
        """Several sources, drawn from in fixed proportions; adds the feature `source_id`.

        sources: Pairs of a weight above 0 and a Pipeline with all that is this source's own:
            features, filter, split, skip, take, order, and stages before the common ones.
        stop: When an epoch ends: before a source would begin anew (first_exhausted, the default),
            when every source was gone through (all_exhausted), or after samples_per_epoch (never).
        samples_per_epoch: Samples of an epoch, with stop="never".
        """
        message, base_dir = mixed(sources)
        place = ("source", "mixture")
        for name, value in (("stop", stop), ("samples_per_epoch", samples_per_epoch)):
            if value is not None:
                spec_message.fill(message.source.mixture, {name: value}, place)
        return cls._make(message, base_dir)

    @classmethod
    def from_lists(
        cls,
        paths: Sequence[Any],
        labels: Optional[Sequence[Any]] = None,
        *,
        images: Union[str, Sequence[str]] = "image",
        label_names: Union[str, Sequence[str]] = "label",
        base_dir: Optional[PathLike] = None,
    ) -> "Pipeline":
        """Images by their paths, with labels; gives `image` (encoded bytes), `label` and `path`.

        Short lists (2,000 lines, 64 KiB) stand in the spec, with the paths as they are given. A
        longer one is written, with absolute paths, to a file in a private temporary folder, which
        is `base_dir`, when that is first asked for. The folder goes with the last Pipeline and
        Loader made from this one. Pickling takes the lines along, and a cursor fits the same list
        in another run. A service elsewhere does not see that file: write a list beside the images
        for it, and name it with `image_list`.

        paths: Texts or path objects; with several `images` a row of as many for each sample.
        labels: One a path (a row of them with several label_names). Numbers: int64, or float32 if
            one of them is a float; or texts, names of classes, of which the numbers in sorted
            order are delivered, as int64. Default: no labels.
        images: Names of the path columns.
        label_names: Names of the label columns.
        base_dir: Folder that relative paths start from. Default: the current one: of a short list
            when the Loader is made, of a longer one now.
        """
        image_names = [images] if isinstance(images, str) else list(images)
        names = [label_names] if isinstance(label_names, str) else list(label_names)
        rows = Rows(paths, labels, len(image_names), len(names))
        options: Dict[str, Any] = {"delimiter": "tab", "images": image_names}
        if labels is None:
            options["unlabeled"] = True
        else:
            options.update(labels=names, label_dtype="float32" if rows.float_labels else "int64")
            if rows.classes:
                options["classes"] = rows.classes
        list_file = None
        entries, longest = rows.inline(), rows.longest_path_bytes
        if entries is not None:
            options["entries"] = entries
        else:
            text, longest = rows.text(absolute(os.fspath(base_dir or ".")))
            list_file = ListFile(text)
        if longest > 256:  # the default
            options["max_path_bytes"] = longest
        made = cls._source("image_list", options, base_dir)
        return cls._make(made._message, base_dir, list_file)

    @classmethod
    def from_yaml(cls, spec: PathLike, *, base_dir: Optional[PathLike] = None) -> "Pipeline":
        """The Pipeline of a spec's path, or of its YAML or JSON text.

        SpecError names line and column; DataError, a file that cannot be read; ImportError, that
        PyYAML is missing: install `bulkhead-loader[yaml]`, or give the file to a Loader as it is.

        base_dir: Folder that relative paths start from. Default: that of the file; for a text, the
            current one when the Loader is made.
        """
        if not isinstance(spec, (str, os.PathLike)):
            raise SpecError(f"a spec is a path or text, not {type(spec).__name__}")
        source = spec_input.load(spec)
        try:
            values, marks = spec_yaml.read(source.text)
        except spec_yaml.YamlFault as fault:
            line, column = fault.mark
            raise SpecError(
                f"{source.name}:{line}:{column}: {fault.message}",
                metadata={"file": source.name, "line": str(line), "column": str(column)},
            ) from None
        message = proto.PipelineSpec()
        spec_message.fill(message, values, (), source.name, marks)
        if base_dir is None and source.is_file:
            base_dir = source.base_dir
        return cls._make(message, base_dir)

    @classmethod
    def from_dict(
        cls, spec: Mapping[str, Any], *, base_dir: Optional[PathLike] = None
    ) -> "Pipeline":
        """The Pipeline of a spec as dict, such as `to_dict` gives. SpecError names the place."""
        message = proto.PipelineSpec()
        spec_message.fill(message, spec)
        return cls._make(message, base_dir)

    def __repr__(self) -> str:
        return pipeline_repr.code(self)

    def _repr_html_(self) -> str:
        rows = ((call.strip(".").partition("(")[0], call) for call in pipeline_repr.steps(self))
        return html.card("Pipeline", {"base_dir": self.base_dir or "the current folder"}, html.table(("step", "call"), rows))
