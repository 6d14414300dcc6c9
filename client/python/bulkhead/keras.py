"""Bulkhead for Keras 3 on any backend, without tf.data.

    import bulkhead.keras

    train = bulkhead.keras.PyDataset("train.yaml", structure=("image", "label"), endless=True)
    model.fit(train, steps_per_epoch=len(train), callbacks=[train.callback()])

With TensorFlow, bulkhead.tf has datasets that copy nothing.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, Dict, Iterator, Mapping, Optional

import keras
import numpy as np

from . import errors
from ._adapters.adapter import Structure, at_start, checked_structure, fill
from ._adapters.facts import LoaderFacts
from ._adapters.steps import Steps
from ._batch.batch import Batch
from ._boundary import public
from ._loader import Loader

__all__ = ["PyDataset", "StepCallback"]


class StepCallback(keras.callbacks.Callback):
    """Tells `steps` what fit() trained on; writes the cursor to `path` at the end of each epoch."""

    def __init__(self, steps: Steps, path: Optional[str] = None):
        super().__init__()
        folder = os.path.dirname(os.path.abspath(path)) if path is not None else os.curdir
        if not os.path.isdir(folder):
            raise errors.InvalidArgument(f"there is no folder {folder} for the cursor: make it")
        self._steps = steps
        self._path = path
        self._seen = 0  # of this epoch
        steps.count()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._seen = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # With steps_per_execution it is called once for several steps, with the last one's number.
        self._steps.taken(batch + 1 - self._seen)
        self._seen = batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._path is None:
            return
        beside = f"{self._path}.new"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(self._steps.state(), file)
        os.replace(beside, self._path)


@public
class PyDataset(LoaderFacts, keras.utils.PyDataset):
    """Batches of a Bulkhead service as a keras.utils.PyDataset.

    `structure` selects and arranges the outputs as Keras expects them: ("image", "label"), or
    ({"input": "image"}, {"output": "label"}). Arrays are copies, since Keras keeps many in its
    queues. `rank`, `world_size` and all further keyword arguments are those of `bulkhead.Loader`.

    Without `endless` it has `len` batches, and every iteration is the whole of epoch 0, from its
    position 0: for validation. With it the batches of all epochs follow each other, and fit()
    needs `steps_per_epoch=len(…)`. Pass the `callback()` to fit(), too: then another fit, and
    `state_dict`, continue after the last step that was trained. Without it every fit begins where
    the PyDataset was opened.

    Batches come in order. If Keras asks for another order it gets InvalidArgument: that is fit()
    without shuffle=False on a PyDataset that is not endless, or an attribute `workers` (Keras's
    threads; the argument `workers` is the service's) above 1.
    """

    def __init__(
        self,
        spec: Any,
        target: Optional[str] = None,
        *,
        structure: Structure,
        endless: bool = False,
        **options: Any,
    ):
        super().__init__()
        self._check_options(options)
        self._endless = endless
        self._lock = threading.Lock()
        self._next = 0
        self._batches: Optional[Iterator[Batch]] = None
        options.setdefault("copy_below", 0)  # elements are copies anyway
        self.loader = Loader(spec, target, **options)
        try:
            self._structure = checked_structure(structure, self.loader.schema)
        except BaseException:
            self.loader.close()
            raise
        self._steps = Steps(self.loader.state_dict())

    @property
    def num_batches(self) -> Optional[int]:
        return None if self._endless else len(self)

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank: `steps_per_epoch` and `validation_steps`."""
        return self.loader.batches_per_epoch

    def __getitem__(self, index: int) -> Any:
        with self._lock:
            if index == 0:
                self._batches = self._begin()
            elif index != self._next or self._batches is None:
                raise errors.InvalidArgument(
                    f"Keras asks for batch {index} where batch {self._next} is next: batches come "
                    "in the spec's order; call fit() with shuffle=False, or make the PyDataset "
                    "endless and give steps_per_epoch; and leave its `.workers`, threads of Keras, "
                    "at 1"
                )
            batch = next(self._batches, None)
            if batch is None:
                raise errors.EpochsExhausted(
                    "all epochs that the spec asks for have been delivered; raise `epochs`, or "
                    "leave it out to go on forever"
                )
            self._next = index + 1
            self._steps.fetched(batch.cursor)
        return fill(self._structure, lambda name: np.array(batch[name]))

    def _begin(self) -> Iterator[Batch]:
        if not self._endless:
            if not at_start(self.loader.state_dict(), 0):
                self.loader.set_epoch(0)
            return iter(self.loader)
        cursor = self._steps.cursor
        if cursor != self.loader.state_dict():
            self.loader.load_state_dict(cursor)
        self._steps.restart(cursor)
        return self.loader.stream()

    def callback(self, path: Optional[str] = None) -> StepCallback:
        """For fit(): tells the cursor what was trained on; writes it to `path` after each epoch."""
        return StepCallback(self._steps, path)

    def state_dict(self) -> Dict[str, Any]:
        """The cursor after the last step that was trained, JSON-serializable."""
        return self._steps.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration continues from a cursor."""
        with self._lock:
            self.loader.load_state_dict(state)
            self._steps.restart(self.loader.state_dict())
            self._batches = None
