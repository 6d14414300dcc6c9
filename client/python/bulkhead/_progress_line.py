"""Preparation shown to a person: a bar of tqdm, or without that one line on a terminal."""

from __future__ import annotations

import sys
from typing import Any, Callable, Union

from ._stream.events import Progress
from .errors import InvalidArgument

# True, a callable, a tqdm class or a tqdm bar.
ProgressOption = Union[bool, None, Callable[[Progress], None], Any]


def checked(option: ProgressOption) -> ProgressOption:
    """The option; InvalidArgument for anything else."""
    if option is None or isinstance(option, bool) or callable(option) or _is_bar(option):
        return option
    raise InvalidArgument(
        f"progress is True, something to call with each Progress, or tqdm, not {option!r}"
    )


def _is_bar(option: Any) -> bool:
    return hasattr(option, "update") and hasattr(option, "total")


def reporter(option: ProgressOption) -> Any:
    """None, or a callable for each Progress; call `finish` with it at the end."""
    if option is None or option is False:
        return None
    if option is True:
        in_notebook = _in_notebook()
        if not in_notebook and not (sys.stderr is not None and sys.stderr.isatty()):
            return None
        option = _tqdm(in_notebook)
        if option is None:
            return _Line()
    if isinstance(option, type) and hasattr(option, "update"):
        return _Bar(option(desc="bulkhead", unit="file", leave=False), own=True)
    return _Bar(option, own=False) if _is_bar(option) else option


def _in_notebook() -> bool:
    """Whether this is a Jupyter kernel, whose standard error is shown although it is not a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _tqdm(in_notebook: bool) -> Any:
    """The class of tqdm for this environment; None: it is not installed."""
    try:
        from tqdm import std
    except ImportError:
        return None
    if in_notebook:
        from tqdm import notebook

        if notebook.IProgress is not None:  # else ipywidgets is missing, and a bar is drawn as text
            return notebook.tqdm
    return std.tqdm


def finish(reporter: Any) -> None:
    if isinstance(reporter, (_Line, _Bar)):
        reporter.close()


class _Line:
    """A line on stderr that overwrites itself."""

    def __init__(self) -> None:
        self._shown = 0

    def __call__(self, progress: Progress) -> None:
        text = (
            f"bulkhead: {progress.activity}, {progress.files_done} of {progress.files_total} files"
        )
        if progress.records:
            text += f", {progress.records:,} records"
        if progress.eta is not None:
            text += f", {progress.eta:.0f} s left"
        self._write(text)

    def close(self) -> None:
        if self._shown:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)


class _Bar:
    """Files done, on a bar of tqdm's."""

    def __init__(self, bar: Any, own: bool):
        self._bar = bar
        self._own = own  # a bar of the caller's stays open

    def __call__(self, progress: Progress) -> None:
        self._bar.total = progress.files_total
        self._bar.set_description(progress.activity, refresh=False)
        self._bar.update(progress.files_done - self._bar.n)

    def close(self) -> None:
        if self._own:
            self._bar.close()
