"""Rates and verdicts of a loader, written where a training run keeps its curves."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Optional, Tuple

from . import errors
from ._boundary import public
from ._display import facts, html
from ._meter import Meter

_VERDICT_SECONDS = 30.0
_STATUS_DEADLINE = 2.0

_Sink = Tuple[Callable[[Dict[str, float], int], Any], Callable[[str, str, int], Any]]


def _sink(to: Any) -> _Sink:
    """How `to` takes figures, and how it takes a text."""
    if callable(getattr(to, "add_scalar", None)):  # SummaryWriter of TensorBoard

        def scalars(figures: Dict[str, float], step: int) -> None:
            for name, value in figures.items():
                to.add_scalar(name, value, global_step=step)

        return scalars, lambda name, text, step: to.add_text(name, text, global_step=step)
    if callable(getattr(to, "log_metrics", None)):  # mlflow, and the loggers of Lightning
        tag = getattr(to, "set_tag", None)
        return (
            lambda figures, step: to.log_metrics(figures, step=step),
            lambda name, text, step: tag(name, text) if callable(tag) else None,
        )
    if callable(getattr(to, "log", None)):  # wandb, and its runs
        return (
            lambda figures, step: to.log(figures, step=step),
            lambda name, text, step: to.log({name: text}, step=step),
        )
    raise errors.InvalidArgument(
        f"a {type(to).__name__} takes no metrics: give TensorBoard's SummaryWriter, a run of wandb, mlflow, "
        "or a logger of Lightning"
    )


@public
class MeterLog:
    """Writes a loader's rates, and what its service says of it, where a training run keeps its curves.

        log = bulkhead.MeterLog(loader, SummaryWriter())      # or a run of wandb, or mlflow, or a logger of Lightning
        for step, batch in enumerate(loader):
            train(batch)
            log(step)

    Every `every` calls it writes what `Meter.read` gives. Every 30 seconds it also asks the loader's service
    for its status, and writes loader/growth_bytes_per_sample, which the pipeline's workers keep. The texts
    loader/verdict (how their memory develops) and loader/why (who waits for whom, and why) are written when they
    change, except to loggers that take no text. A service that does not answer within two seconds is asked again later.
    """

    def __init__(self, loader: Any, to: Any, every: int = 100, rank: Optional[int] = None):
        if every < 1:
            raise errors.InvalidArgument(f"every: {every} is below 1")
        self._loader = loader
        self._write, self._write_text = _sink(to)
        self._to = getattr(to, "__name__", type(to).__name__)
        self._every = every
        self._meter = Meter(loader, rank)
        self._calls = 0
        self._ask_at = 0.0
        self._texts: Dict[str, str] = {}

    def __call__(self, step: int) -> None:
        """Counts a step of the training, and writes when it is time."""
        self._calls += 1
        if self._calls % self._every:
            return
        figures = self._meter.read()
        texts: Dict[str, str] = {}
        if time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _VERDICT_SECONDS
            with contextlib.suppress(errors.BulkheadError):
                self._add_status(figures, texts)
        self._write(figures, step)
        for name, text in texts.items():
            if text and text != self._texts.get(name):
                self._texts[name] = text
                self._write_text(name, text, step)

    def _shown(self) -> Dict[str, str]:
        steps = f"{self._calls} seen, written every {self._every}"
        return {"to": self._to, "steps": steps, **self._meter._shown(), **self._texts}

    def __repr__(self) -> str:
        return facts.line("MeterLog", self._shown())

    def _repr_html_(self) -> str:
        return html.card("MeterLog", self._shown())

    def _add_status(self, figures: Dict[str, float], texts: Dict[str, str]) -> None:
        loader, prefix = self._loader, self._meter.prefix
        if not hasattr(loader, "status"):
            loader = getattr(loader, "loader", None)  # of an adapter; None before a DataLoader's first loop
        if loader is None:
            return
        status = loader.status(timeout=_STATUS_DEADLINE)
        for stream in status["streams"]:
            if (stream["name"], stream["rank"]) != (loader.name, loader.rank):
                continue
            texts[f"{prefix}why"] = stream["why"]
            for verdict in status["verdicts"]:
                if verdict["pipeline"] == stream["pipeline"]:
                    figures[f"{prefix}growth_bytes_per_sample"] = verdict["bytes_per_sample"]
                    texts[f"{prefix}verdict"] = verdict["text"]
