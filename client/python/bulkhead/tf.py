"""Bulkhead for TensorFlow and Keras.

    import bulkhead.tf

    for batch in bulkhead.tf.Loader("train.yaml"):
        train(batch["image"], batch["label"])
"""

from __future__ import annotations

import math
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow as tf

from . import errors
from ._adapters.adapter import Structure, at_start, checked_structure, fill
from ._adapters.facts import LoaderFacts
from ._adapters.steps import Steps
from ._batch.batch import Batch
from ._batch.buffers import BufferPool
from ._batch.schema import TensorSpec
from ._boundary import public
from ._loader import Loader as BatchLoader

__all__ = ["Loader"]

# Batches outside tf.data's own buffer: the step's, one that was freed and whose array TensorFlow
# has not let go of yet, one on its way into the buffer, and one for the service to send.
_BESIDE_BUFFER = 4
_ALIGNMENT = 64
_KEPT_COPIES = 8  # unused blocks


def _with_advice(error: errors.BulkheadError) -> errors.BulkheadError:
    """The error without its traceback; where slots ran out, what helps with tf.data."""
    message = error.message
    if isinstance(error, errors.SlotsExhausted):
        message += "; with tf.data: leave out stages that hold many elements, or give copy=True"
    return type(error)(message, error.reason, error.metadata, error.code)


class _Copies:
    """Batches in memory of their own, aligned as TensorFlow needs it to copy no more."""

    def __init__(self, batch_size: int, schema: Tuple[TensorSpec, ...]):
        self._offsets: Dict[str, int] = {}
        end = 0
        for output in schema:
            self._offsets[output.name] = end
            samples = batch_size + (output.packing == "offsets")  # they end with the sum
            itemsize = 1 if output.normalization else output.dtype.itemsize
            size = itemsize * samples * math.prod(output.shape)
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        self._pool = BufferPool(end, _KEPT_COPIES)

    def of(self, batch: Batch) -> Dict[str, np.ndarray]:
        block = self._pool.take()
        arrays = {}
        for name in batch:
            array = batch._sent(name)
            copy = np.ndarray(array.shape, array.dtype, buffer=block, offset=self._offsets[name])
            copy[...] = array
            arrays[name] = copy
        return arrays


@public
class Loader(LoaderFacts):
    """Batches of a Bulkhead service as elements of a tf.data.Dataset, and for Keras.

        names = ({"input": "image"}, {"output": "label"})
        train = bulkhead.tf.Loader("train.yaml", structure=names)
        valid = bulkhead.tf.Loader("valid.yaml", structure=names)
        model.fit(
            train.stream(), steps_per_epoch=len(train),
            validation_data=valid.validation(), validation_steps=len(valid),
            callbacks=[train.callback()],
        )

    `structure` selects and arranges the outputs: an output's name, or a dict or tuple of such;
    without it an element is a dict of all outputs. Byte strings are tf.string; of packed rows,
    `tf.RaggedTensor.from_row_splits(boxes, boxes_offsets)` makes a ragged tensor. `rank`,
    `world_size` and all further keyword arguments are those of `bulkhead.Loader` (`workers`,
    `cursor`, …).

    An output that the trainer normalizes (`normalize: {at: trainer}`) is computed by TensorFlow on
    the CPU, in the background, in memory of its own.

    Three datasets, of which one is in use at a time:

    - `stream()`: all epochs, one after the other; for training.
    - `epoch()`: an iteration is what is left of one epoch, the next one the next epoch.
    - `validation()`: an iteration is the whole of epoch 0, from its position 0, every time.

    Tensors are views of the memory in which the workers wrote them; over shared memory the slot is
    released when the tensor is gone. Those smaller than `copy_below` (64 KiB) are copies. `buffer`
    batches (2) are prepared in the background, and `credits` follows from it. Add no `prefetch`,
    `cache`, `shuffle` or `batch` that holds many elements: they would hold the slots and then wait
    for one until SlotsExhausted. Where you need them, `copy=True` gives tensors with memory of
    their own.

    tf.data fetches ahead of the training step, so the cursor must be told what a step received:
    iterating this object counts, and so does the Keras callback of `callback()`. Then a new
    iteration continues after the last step, and `state_dict` is the cursor there. Without either,
    a new iteration continues after what was fetched, and `state_dict` raises.
    """

    def __init__(
        self,
        spec: Any,
        target: Optional[str] = None,
        *,
        structure: Optional[Structure] = None,
        buffer: int = 2,
        copy: bool = False,
        **options: Any,
    ):
        self._check_options(options)
        if buffer < 1:
            raise errors.InvalidArgument("buffer must be at least 1")
        options.setdefault("credits", buffer + _BESIDE_BUFFER)
        if copy:
            options.setdefault("copy_below", 0)
        self._buffer = buffer
        self._fetching = threading.Lock()  # guards the loader and `_iteration`; held in waits
        self._iteration = 0  # the newest; older ones end
        self._failure: Optional[errors.BulkheadError] = None  # that ended the newest iteration
        self.loader = BatchLoader(spec, target, **options)
        try:
            self._structure = checked_structure(structure, self.loader.schema)
            wanted: List[str] = []
            fill(self._structure, wanted.append)
            self._normalized = {
                output.name: output.normalization
                for output in self.schema
                if output.normalization and output.name in wanted
            }
            # What the generator gives, which is the element unless something is to be normalized.
            self._travelling = {name: name for name in wanted} if self._normalized else self._structure
            self._signature = fill(self._travelling, self._signature_of)
        except BaseException:
            self.loader.close()
            raise
        self._copies = _Copies(self.loader.batch_size, self.schema) if copy else None
        self._steps = Steps(self.loader.state_dict())

    def _signature_of(self, name: str) -> tf.TensorSpec:
        output = next(output for output in self.loader.schema if output.name == name)
        if output.normalization:
            return tf.TensorSpec((None, *output.normalization.sent_shape), tf.uint8, name=name)
        dtype = tf.string if output.dtype.kind == "S" else tf.as_dtype(output.dtype)
        return tf.TensorSpec(output.batch_shape, dtype, name=name)

    # Datasets.

    def stream(self) -> tf.data.Dataset:
        """Elements of all remaining epochs."""
        return self._dataset(lambda: self._go_on(self.loader.stream))

    def epoch(self) -> tf.data.Dataset:
        """An iteration gives what is left of one epoch; the next goes on with the next epoch."""
        return self._dataset(lambda: self._go_on(lambda: iter(self.loader)))

    def validation(self) -> tf.data.Dataset:
        """Every iteration gives epoch 0 from its start: the same elements every time."""
        dataset = self._dataset(self._start_over)
        return dataset.apply(tf.data.experimental.assert_cardinality(len(self)))

    def _dataset(self, generator: Callable[[], Iterator[Any]]) -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_generator(generator, output_signature=self._signature)
        if self._normalized:
            dataset = dataset.map(self._element)
        return dataset.prefetch(self._buffer)

    def _element(self, tensors: Dict[str, tf.Tensor]) -> Any:
        """What `normalize: {at: trainer}` left, by TensorFlow's own operations."""
        for name, rest in self._normalized.items():
            x = tf.cast(tensors[name], tf.float32)
            if rest.channels_first:
                dimensions = list(range(len(x.shape)))
                x = tf.transpose(x, [*dimensions[:-3], *dimensions[-1:], *dimensions[-3:-1]])
            tensors[name] = tf.cast(rest.compute(x, *rest.constants()), rest.dtype_name)
        return fill(self._structure, tensors.__getitem__)

    def __iter__(self) -> Iterator[Any]:
        """Eager elements of what is left of one epoch; the cursor counts each as it is given."""
        self._steps.count()
        elements = iter(self.epoch())
        while True:
            try:
                element = next(elements)
            except StopIteration:
                return
            except tf.errors.OpError:
                if self._failure is None:
                    raise
                raise self._failure.again() from None
            self._steps.taken(1)
            yield element
            del element  # its slot would stay taken while the next one is waited for

    def _go_on(self, open_batches: Callable[[], Iterator[Batch]]) -> Iterator[Any]:
        def position() -> Iterator[Batch]:
            if self._steps.dropped:
                self._seek(self._steps.cursor)
            return open_batches()

        return self._elements(position)

    def _start_over(self) -> Iterator[Any]:
        def position() -> Iterator[Batch]:
            if not at_start(self.loader.state_dict(), 0):
                self.loader.set_epoch(0)
            self._steps.restart(self.loader.state_dict())
            return iter(self.loader)

        return self._elements(position)

    def _elements(self, position: Callable[[], Iterator[Batch]]) -> Iterator[Any]:
        """Runs on tf.data's threads; `position` brings the loader to where the iteration begins."""
        batches: Optional[Iterator[Batch]] = None
        mine = 0
        while True:
            with self._fetching:
                try:
                    if batches is None:
                        self._iteration += 1
                        mine = self._iteration
                        self._failure = None
                        batches = position()
                    batch = next(batches, None) if mine == self._iteration else None
                except errors.BulkheadError as error:
                    self._failure = _with_advice(error)
                    raise self._failure.again() from None
                if batch is None:
                    return
                self._steps.fetched(batch.cursor)
            array_of = batch._sent if self._copies is None else self._copies.of(batch).__getitem__
            box = [fill(self._travelling, array_of)]
            del batch, array_of
            yield box.pop()

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank: `steps_per_epoch` and `validation_steps`."""
        return self.loader.batches_per_epoch

    # Checkpoints.

    def callback(self, path: Optional[str] = None) -> Any:
        """A Keras callback that tells the cursor what the training steps received.

        With `path` it writes the cursor there, as JSON, at the end of each epoch; a run that goes
        on gives it as `cursor`. Put it before ModelCheckpoint, and resume both from the same
        epoch.
        """
        from .keras import StepCallback  # tf.data alone does not need Keras

        return StepCallback(self._steps, path)

    def state_dict(self) -> Dict[str, Any]:
        """The cursor after the last element that a training step received, JSON-serializable."""
        return self._steps.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a cursor; iterations that are under way end."""
        with self._fetching:
            self._iteration += 1
            self._seek(state)

    def _seek(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state)
        self._steps.restart(self.loader.state_dict())
