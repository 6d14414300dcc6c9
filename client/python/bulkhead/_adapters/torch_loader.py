"""bulkhead.torch.DataLoader: PyTorch's DataLoader over a user's own dataset, in Bulkhead's workers."""

from __future__ import annotations

import base64
import copy
import json
import logging
import operator
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np
import torch
import torch.utils.data
from torch.utils.data._utils.collate import default_collate
from torch.utils.data._utils.pin_memory import pin_memory as pinned

from .. import errors as _errors
from .._batch.batch import Batch
from .._boundary import public
from .._dataset import stages
from .._dataset.image import Image
from .._dataset.worker.bulkhead_leaves import Layout, Tree, decode, places

_log = logging.getLogger("bulkhead")

_STATE_VERSION = 1
_QUOTA = "1GiB"  # the import of a PyTorch with CUDA takes 400 MiB of it
_NO_ITERABLE = (
    "{} is an IterableDataset, whose samples have no numbers, so that they can be neither found again nor given exactly "
    "once: write a dataset with __len__ and __getitem__, or let Bulkhead read the files (bulkhead.torch.Dataset)"
)


def _tensor(array: np.ndarray, dtype: str) -> torch.Tensor:
    if dtype == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _own_tensor(array: np.ndarray, dtype: str) -> torch.Tensor:
    return _tensor(array.copy(), dtype)


class _List(NamedTuple):
    """What a sampler gave for one epoch."""

    indices: List[int]
    offsets: Optional[List[int]]  # where each batch begins, and the end; None: the batch size says

    @staticmethod
    def of(sampler: Any, batched: bool) -> "_List":
        if not batched:
            return _List(list(map(_index, sampler)), None)
        indices: List[int] = []
        offsets = [0]
        for batch in sampler:
            indices += map(_index, batch)
            offsets.append(len(indices))
        return _List(indices, offsets)


def _index(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise _errors.InvalidArgument(
            f"the sampler gave {value!r}: an index is an integer, from 0 to len(dataset) - 1"
        ) from None


class _Plan(NamedTuple):
    """How epochs are made."""

    function: str  # of the worker: "sample", or "batch" where a user's function makes whole batches
    listed: str  # "": in the service's order; "samples", "batches": by lists of the sampler
    shuffled: bool  # the service's order is a shuffle
    sampler: str  # its class, for the fingerprint


class _Joining:
    """Puts the values of a batch together, as default_collate does."""

    def __init__(self, layout: Layout):
        self._layout = layout

    def samples(self, batch: Batch, count: int) -> Any:
        """A batch whose rows are samples. Arrays of one shape are views of the batch's memory."""
        columns: List[Any] = []
        for number, leaf in enumerate(self._layout.leaves):
            name, kind = f"v{number}", leaf["kind"]
            if kind == "array":
                columns.append(_tensor(batch[name][:count], leaf["dtype"]))
            elif kind == "none":
                columns.append(default_collate([None] * count))
            else:
                columns.append(
                    default_collate([self._row(batch, number, row) for row in range(count)])
                )
        if self._layout.tree == 0 and self._layout.leaves[0]["kind"] == "object":
            return columns[0]
        return _collated(self._layout.tree, columns)

    def whole(self, batch: Batch) -> Any:
        """A batch that the user's function made."""
        values = [self._whole_leaf(batch, number) for number in range(len(self._layout.leaves))]
        return _rebuilt(self._layout.tree, values)

    def _whole_leaf(self, batch: Batch, number: int) -> Any:
        leaf, name = self._layout.leaves[number], f"v{number}"
        if leaf["kind"] == "array":
            return decode(leaf, batch[name][:1].reshape(leaf["shape"]), None, _tensor)
        if leaf["kind"] == "ragged":
            count = int(batch[f"{name}_count"][0])
            return decode(leaf, batch[name][0][:count], batch[f"{name}_shape"][0].tolist(), _tensor)
        return self._row(batch, number, 0)

    def _row(self, batch: Batch, number: int, row: int) -> Any:
        leaf, name = self._layout.leaves[number], f"v{number}"
        if leaf["kind"] == "none":
            return None
        count = int(batch[f"{name}_count"][row])
        shape = batch[f"{name}_shape"][row].tolist() if leaf["kind"] == "ragged" else None
        return decode(leaf, batch[name][row][:count], shape, _own_tensor)


def _collated(tree: Tree, columns: List[Any]) -> Any:
    """As default_collate: a tuple becomes a list, and strings in one a tuple."""
    if isinstance(tree, int):
        return columns[tree]
    if "dict" in tree:
        return {key: _collated(part, columns) for key, part in tree["dict"]}
    kind = next(iter(tree))
    columns = [tuple(column) if type(column) is list else column for column in columns]
    parts = [_collated(part, columns) for part in tree[kind]]
    return _named(tree, parts) if kind == "named" else parts


def _rebuilt(tree: Tree, values: List[Any]) -> Any:
    if isinstance(tree, int):
        return values[tree]
    if "dict" in tree:
        return {key: _rebuilt(part, values) for key, part in tree["dict"]}
    if "named" in tree:
        return _named(tree, [_rebuilt(part, values) for part in tree["named"]])
    if "tuple" in tree:
        return tuple(_rebuilt(part, values) for part in tree["tuple"])
    return [_rebuilt(part, values) for part in tree["list"]]


def _named(tree: Tree, parts: List[Any]) -> Any:
    """A namedtuple of the class that has this name here; a plain tuple, if the program has not loaded it."""
    module, qualified = tree["class"]
    found: Any = sys.modules.get(module)
    for name in qualified.split("."):
        found = getattr(found, name, None)
    return found(*parts) if isinstance(found, type) and issubclass(found, tuple) else tuple(parts)


class _MadeAhead:
    """Elements, of which a thread makes the next one while the loop works on the last."""

    def __init__(self, elements: Iterator[Any]):
        self._elements = elements
        self._thread = ThreadPoolExecutor(1, "bulkhead-pin")

    def __iter__(self) -> Iterator[Any]:
        end = object()
        try:
            coming = self._thread.submit(next, self._elements, end)
            while True:
                element = coming.result()
                if element is end:
                    return
                coming = self._thread.submit(next, self._elements, end)
                yield element
                del element
        finally:
            self.end()

    def end(self) -> None:
        """Returns when the thread uses the loader no more."""
        self._thread.shutdown()


def _check_unsupported(multiprocessing_context: Any, pin_memory_device: str) -> None:
    if multiprocessing_context is not None:
        raise _errors.InvalidArgument(
            "multiprocessing_context has no meaning here: workers are processes of Bulkhead's service, which are neither "
            "forked nor spawned from this one; leave it out"
        )
    if pin_memory_device:
        raise _errors.InvalidArgument(
            "pin_memory_device is deprecated by PyTorch: leave it out, pin_memory=True finds the device"
        )


@public
class DataLoader(torch.utils.data.DataLoader):
    """PyTorch's DataLoader, with the dataset in Bulkhead's workers.

        loader = bulkhead.torch.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
        for epoch in range(10):
            for images, labels in loader:
                train(images, labels)

    The arguments are PyTorch's. `dataset` is a map-style dataset: it has `__len__` and `__getitem__`. It is pickled once, and
    unpickled in each worker; its arrays and tensors lie in memory that all workers share and cannot change. Workers have a
    memory quota each (`worker_quota`, "1GiB" by default, of which importing PyTorch takes up to 400 MiB), are replaced before they meet it, and when they crash or hang;
    batches are the same whatever becomes of them, in the same order, each exactly once. They may read the user's files but
    open no sockets and start no processes.

    Every sample is made under its own seeds of `random`, `numpy.random` and torch. They follow from `seed`, the epoch and the
    sample's place in the epoch; `seed` is torch.initial_seed() by default.

    Each loop is an epoch, as PyTorch's, and another begins when a loop was left; `len(loader)` is the batches of an epoch.
    `shuffle=True` is a shuffle of the service's; with `generator` it is PyTorch's own permutation. A `sampler` or
    `batch_sampler` is asked for its list when an epoch begins. With a `collate_fn` or `batch_sampler` a worker makes whole
    batches; else what default_collate makes of the samples is put together here, and arrays of one shape lie where the
    workers wrote them.

    `num_workers=0` is one worker. `prefetch_factor` batches for each worker, 2 by default, are made ahead. Workers stay over
    epochs, whatever `persistent_workers` says. `in_order=False` gives batches as they are completed. `timeout` is the longest
    wait for a batch, in seconds; 0 is 300. `multiprocessing_context` is refused.

    `probe` samples, or whole batches, spread over the dataset, decide the layout: which values are arrays of one shape.
    Values whose sizes differ get room for 4 times the largest of these; `room` is another number of bytes. A sample that does
    not fit is an error that says so.

    `errors="substitute"` puts another sample in the place of one whose `__getitem__` raises, of up to `max_fraction` of an
    epoch; it needs samples that no `collate_fn` or sampler arranges. `name` and `version` are part of the fingerprint, beside
    the dataset's class and length and the code of its modules: give another `version` when what the dataset reads has
    changed. Further options go to bulkhead.Loader: `worker_quota`, `memory_budget`, `worker_hang_timeout`, `sandbox`,
    `metrics`, `log_level`, `cache_dir`.

    `state_dict()` is the position after the last batch that the loop received; after `load_state_dict` the next loop gives the
    rest of that epoch. An index list of a sampler must come out the same then, or CursorMismatch says so.

    Raises InvalidArgument for arguments that PyTorch or this class cannot take, and for a dataset that cannot be pickled, with
    the part at fault; SampleError with dataset, index and the lines of code when `__getitem__` raises; what Loader raises.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: Optional[int] = 1,
        shuffle: Optional[bool] = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Optional[torch.Generator] = None,
        *,
        prefetch_factor: Optional[int] = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        name: str = "",
        version: str = "",
        seed: Optional[int] = None,
        errors: str = "fail",
        max_fraction: Optional[float] = None,
        room: Optional[int] = None,
        probe: int = stages.LOOKED_AT,
        **options: Any,
    ):
        self._image: Optional[Image] = None
        self._loader: Optional[stages.DatasetLoader] = None
        self._layout: Optional[Layout] = None
        self._ahead: Optional[_MadeAhead] = None
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise _errors.InvalidArgument(_NO_ITERABLE.format(stages.class_name(dataset)))
        _check_unsupported(multiprocessing_context, pin_memory_device)
        length = stages.length_of(dataset)
        if num_workers < 0 or (prefetch_factor is not None and prefetch_factor < 1) or timeout < 0:
            raise _errors.InvalidArgument(
                "num_workers and timeout are at least 0, prefetch_factor is at least 1"
            )
        if "target" in options:
            raise _errors.InvalidArgument(
                "a dataset runs in a service that this process starts for itself: leave target out (a service that others use "
                "takes no code from its clients)"
            )
        own_collate = collate_fn is not None and collate_fn is not default_collate
        super().__init__(  # checks the arguments that go together, and makes the sampler
            dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            drop_last=drop_last,
            generator=generator,
        )
        self.num_workers = num_workers
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self._plan = self._planned(shuffle, sampler, batch_sampler, own_collate, generator)
        self._check_errors(errors, own_collate)
        self._errors = {
            "policy": errors,
            **({} if max_fraction is None else {"max_fraction": max_fraction}),
        }
        self._room = stages.checked_room(room)
        self._probe = stages.checked_probe(probe)
        self._seed = torch.initial_seed() if seed is None else seed
        self._in_order = in_order
        workers = max(1, num_workers)
        self._options = {
            "workers": workers,
            "threads": 1,
            "timeout": timeout or 300.0,
            "credits": max(2, workers * (prefetch_factor or 2)),
            "worker_quota": _QUOTA,
            **options,
        }
        self._length = length
        facts = {
            "class": stages.class_name(dataset),
            "workers": workers,
            "seed": self._seed % (1 << 63),
        }
        self._image = Image(
            {
                "dataset": dataset,
                "collate": self._collate(own_collate),
                "worker_init": worker_init_fn,
            },
            facts,
        )
        self._identity = stages.Identity(
            facts["class"], name, version, length, self._plan.sampler, self._image.code
        )
        self._epoch = -1  # of the last loop that began
        self._list_digest = ""
        self._first_epoch = 0  # the epoch that is number 0 of the loader, which begins anew when the size of epochs changes
        self._size = 0
        self._resumed: Optional[Dict[str, Any]] = None
        self._draw_from: List[Dict[str, Any]] = []
        # What the sampler's lists depend on, before and after it gave the epoch's.
        self._standings: List[Dict[str, Any]] = []
        self._cursor: Optional[Dict[str, Any]] = None
        self._loops = 0

    # What the arguments come to.

    def _planned(
        self, shuffle: Any, sampler: Any, batch_sampler: Any, own_collate: bool, generator: Any
    ) -> _Plan:
        if batch_sampler is not None:
            return _Plan("batch", "batches", False, stages.class_name(batch_sampler))
        if self.batch_size is None:  # samples as they are, each a batch
            listed = "" if sampler is None and not shuffle else "samples"
            return _Plan(
                "batch", listed, False, "" if sampler is None else stages.class_name(sampler)
            )
        if sampler is not None:
            return _Plan(
                "batch" if own_collate else "sample", "samples", False, stages.class_name(sampler)
            )
        if shuffle and (own_collate or generator is not None):
            return _Plan("batch" if own_collate else "sample", "samples", False, "shuffle of torch")
        return _Plan("batch" if own_collate else "sample", "", bool(shuffle), "")

    def _check_errors(self, policy: str, own_collate: bool) -> None:
        if policy not in ("fail", "substitute"):
            raise _errors.InvalidArgument(f"errors is 'fail' or 'substitute', not {policy!r}")
        if policy == "substitute" and (self._plan.function == "batch" or self._plan.listed):
            raise _errors.InvalidArgument(
                "errors='substitute' puts another sample in the place of a bad one, so the service must choose the order and "
                "put batches together: leave out collate_fn, sampler, batch_sampler and generator"
            )

    def _collate(self, own_collate: bool) -> Any:
        if self.batch_size is None and self.batch_sampler is None:
            return _TheOnlyOne(
                self.collate_fn if own_collate else torch.utils.data._utils.collate.default_convert
            )
        return self.collate_fn if self._plan.function == "batch" else None

    def _arguments(self) -> Dict[str, str]:
        listed = {"listed": self._plan.listed} if self._plan.listed else {}
        return {**self._identity.arguments(), **listed}

    def _batch_size(self) -> int:
        """The samples that a whole batch of the worker has; 0: no worker makes whole batches."""
        if self._plan.function == "sample":
            return 0
        return 1 if self.batch_size is None else self.batch_size

    # Epochs.

    def __iter__(self) -> Iterator[Any]:
        assert self._image is not None, "the loader is closed"
        loader = self._begin()
        self._loops += 1
        return self._loop(loader, self._loops)

    def _loop(self, loader: stages.DatasetLoader, loop: int) -> Iterator[Any]:
        pins = self.pin_memory and torch.cuda.is_available()
        values: Any = self._values(loader, pinned if pins else None)
        if pins:
            values = self._ahead = _MadeAhead(values)
        for value, cursor in values:
            self._cursor = cursor
            yield value
            del value
            if loop != self._loops:
                raise RuntimeError(
                    "another loop over this DataLoader has begun, which ends this one: use a DataLoader for each"
                )

    def _values(self, loader: stages.DatasetLoader, finish: Any) -> Iterator[Tuple[Any, Any]]:
        """The epoch's elements, each with the cursor behind it."""
        assert self._layout is not None
        joining = _Joining(self._layout)
        whole = self._plan.function == "batch"
        for batch in loader:
            value = joining.whole(batch) if whole else joining.samples(batch, batch.valid_count)
            del batch
            if finish is not None:
                value = finish(value)
            yield value, loader.state_dict()
            del value

    def _begin(self) -> stages.DatasetLoader:
        """The loader, at the first batch of the loop."""
        if self._ahead is not None:  # of a loop that was left
            self._ahead.end()
            self._ahead = None
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self._epoch, self._seed = resumed["epoch"], resumed["seed"]
            self._first_epoch = resumed["first_epoch"]
            self._layout, self._cursor = Layout(*json.loads(resumed["layout"])), resumed["cursor"]
            if resumed["cursor"]["epoch"] > self._epoch - self._first_epoch:  # that epoch had ended
                self._draw_from = resumed["standings"][1:]
                resumed = None
            else:
                self._draw_from = resumed["standings"][:1]
        if resumed is None:
            self._epoch += 1
        if self._plan.listed:
            self._list_digest = self._write_list()
        if resumed is not None and self._list_digest != resumed["list"]:
            raise _errors.CursorMismatch(
                f"the sampler ({self._identity.sampler}) gives another list for epoch {self._epoch} than when the state was "
                "saved: a sampler must give the same list in the same epoch"
            )
        if resumed is None and not self._plan.listed and self._loader is not None:
            self._loader.set_epoch(
                self._epoch
            )  # nothing is lost when the last loop ended: it stands there
            return self._loader
        return self._open(resumed["cursor"] if resumed is not None else None)

    def _write_list(self) -> str:
        assert self._image is not None
        batched = self._plan.listed == "batches"
        found = self._drawn(batched)
        wrong = next(
            (index for index in found.indices if not -self._length <= index < self._length), None
        )
        if wrong is not None:
            raise _errors.InvalidArgument(
                f"the sampler gave the index {wrong}, but the dataset has {self._length} samples"
            )
        if batched:
            size = len(found.offsets or [0]) - 1
        else:
            step = self._batch_size()
            size = len(found.indices) if not step else self._whole_batches(len(found.indices), step)
        if size < 1:
            raise _errors.InvalidArgument(
                f"the sampler ({self._identity.sampler}) gave no {self._plan.listed}"
            )
        if size != self._size and self._size:
            self._first_epoch, self._cursor = self._epoch, None
        self._size = size
        return self._image.write_list(self._epoch - self._first_epoch, found.indices, found.offsets)

    def _whole_batches(self, samples: int, step: int) -> int:
        return samples // step if self.drop_last else -(-samples // step)

    def _drawn(self, batched: bool) -> _List:
        """The sampler's next list; the first after load_state_dict, from where the generators stood then."""
        own = torch.get_rng_state()
        resumed = self._draw_from
        for standing in resumed:
            self._stand(standing)
        before = self._standing()
        # PyTorch draws it before the sampler draws anything, and so the permutations are the same.
        torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        found = _List.of(self.batch_sampler if batched else self.sampler, batched)
        self._standings = [before, self._standing()]
        if resumed:
            torch.set_rng_state(own)  # it is the program's
            self._draw_from = []
        return found

    def _generators(self) -> Dict[str, torch.Generator]:
        inner = getattr(self.batch_sampler, "sampler", None)
        found = {
            "sampler": getattr(self.sampler, "generator", None),
            "inner": getattr(inner, "generator", None),
        }
        others = {name: made for name, made in found.items() if made is not self.generator}
        every = {"own": self.generator, **others}
        return {name: made for name, made in every.items() if isinstance(made, torch.Generator)}

    def _standing(self) -> Dict[str, Any]:
        """What a sampler's next list depends on, as far as that can be known."""
        states = {name: made.get_state() for name, made in self._generators().items()}
        states["torch"] = torch.get_rng_state()
        drawn = {
            name: base64.b64encode(zlib.compress(state.numpy().tobytes())).decode()
            for name, state in states.items()
        }
        return {"drawn": drawn, "epoch": getattr(self.sampler, "epoch", None)}

    def _stand(self, standing: Mapping[str, Any]) -> None:
        states = {
            name: torch.frombuffer(
                bytearray(zlib.decompress(base64.b64decode(text))), dtype=torch.uint8
            )
            for name, text in standing["drawn"].items()
        }
        torch.set_rng_state(states["torch"])
        for name, made in self._generators().items():
            if name in states:
                made.set_state(states[name])
        if standing["epoch"] is not None and hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(standing["epoch"])

    def _open(self, cursor: Optional[Dict[str, Any]]) -> stages.DatasetLoader:
        """Opens the stream of an epoch, or of all that follow when the service has the order."""
        assert self._image is not None
        if not self._plan.listed:
            step = self._batch_size()
            self._size = self._whole_batches(self._length, step) if step else self._length
        arguments = {**self._arguments(), "total": str(self._length)}
        if self._layout is None:
            learned = stages.learned(
                self._image, arguments, self._batch_size(), self._probe, self._options
            )
            self._layout = learned.with_room(lambda _: self._room)
            self._name_objects(self._layout)
        epoch = self._epoch - self._first_epoch
        if cursor is None and self._cursor is not None:
            cursor = {**self._cursor, "epoch": epoch, "consumed": 0, "substitutions": 0}
        before = self._loader
        self._loader = stages.DatasetLoader(
            self._image, self._spec(arguments, epoch), cursor=cursor, **self._options
        )
        if before is not None:  # not earlier: with it the service would end
            before.close()
        self._cursor = self._loader.state_dict()
        return self._loader

    def _name_objects(self, layout: Layout) -> None:
        where = places(layout.tree)
        objects = [
            where[i] or "itself" for i, leaf in enumerate(layout.leaves) if leaf["kind"] == "object"
        ]
        if objects:
            _log.info(
                "of %s, what lies at %s is no array, number, str or bytes, or not of one kind: workers pickle it",
                self._identity.dataset,
                ", ".join(objects),
            )

    def _spec(self, arguments: Dict[str, str], epoch: int) -> Dict[str, Any]:
        assert self._layout is not None
        whole = self._plan.function == "batch"
        text = json.dumps(list(self._layout))
        arguments = {**arguments, "layout": text}
        if whole:
            arguments["size"] = str(self._batch_size())
        else:
            del arguments["total"]
        outputs = self._layout.outputs()
        if not outputs:
            raise _errors.InvalidArgument(
                f"{self._identity.dataset} gives None for each sample: does __getitem__ return?"
            )
        batch = (
            {"size": 1}
            if whole
            else {"size": self.batch_size, "last": "drop" if self.drop_last else "partial"}
        )
        more: Dict[str, Any] = {
            "seed": (self._seed + self._first_epoch) % (1 << 64),
            "errors": self._errors,
        }
        more["order"] = {"global": {}} if self._plan.shuffled else {"sequential": {}}
        if self._plan.listed:
            more["epochs"] = epoch + 1  # the list of the next is not there yet
        if not self._in_order:
            more["deterministic"] = False
        names = [output["name"] for output in outputs]
        return stages.spec_of(
            self._size, stages.stage(self._plan.function, arguments, outputs), names, batch, **more
        )

    # Facts.

    def __len__(self) -> int:
        """The batches of an epoch."""
        if self.batch_size is None and self.batch_sampler is None:
            return len(self.sampler)
        return super().__len__()

    @property
    def stats(self) -> Any:
        """What was fetched so far in this epoch's stream (bulkhead.LoaderStats); None before the first loop."""
        return None if self._loader is None else self._loader.stats

    @property
    def loader(self) -> Optional[stages.DatasetLoader]:
        """The bulkhead.Loader behind it; None before the first loop."""
        return self._loader

    # Checkpoints.

    def state_dict(self) -> Dict[str, Any]:
        """The position after the last batch that a loop received, ready for JSON."""
        if self._resumed is not None:
            return copy.deepcopy(self._resumed)
        if self._cursor is None or self._layout is None:
            return {"bulkhead": _STATE_VERSION}
        return {
            "bulkhead": _STATE_VERSION,
            "epoch": self._epoch,
            "first_epoch": self._first_epoch,
            "seed": self._seed,
            "layout": json.dumps(list(self._layout)),
            "list": self._list_digest,
            "standings": copy.deepcopy(self._standings),
            "cursor": dict(self._cursor),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on where `state` was taken. InvalidArgument if it is not one of state_dict()."""
        if state.get("bulkhead") != _STATE_VERSION:
            raise _errors.InvalidArgument(
                "this is not a state that bulkhead.torch.DataLoader.state_dict() gave"
            )
        self._loops += 1  # ends a loop that goes on
        self._resumed = copy.deepcopy(dict(state)) if "cursor" in state else None

    # The end.

    def close(self) -> None:
        """Ends the workers. Idempotent."""
        if self._ahead is not None:
            self._ahead.end()
        if self._loader is not None:
            self._loader.close()
        if self._image is not None:
            self._image.close()
        self._loader = self._image = None

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        image = self.__dict__.get("_image")
        if image is not None and not sys.is_finalizing():
            self.close()


class _TheOnlyOne:
    """The collate_fn of batch_size=None, which gets the sample and no list."""

    def __init__(self, convert: Any):
        self._convert = convert

    def __call__(self, samples: List[Any]) -> Any:
        [sample] = samples
        return self._convert(sample)
