"""bulkhead.torch.DataLoader: PyTorch's DataLoader over a user's own dataset, in Bulkhead's workers."""

from __future__ import annotations

import copy
import json
import logging
import sys
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

import torch
import torch.utils.data
from torch.utils.data._utils.collate import default_collate
from torch.utils.data._utils.pin_memory import pin_memory as pinned

from .. import errors as _errors
from .._boundary import ends_at_caller, meant, public
from .._dataset import declared, stages
from .._dataset.image import Image
from .._dataset.words import of_data_loader
from .._dataset.worker.bulkhead_leaves import Layout, TheOnlyOne, places
from .._display import html
from .._loader_arguments import refuse_unknown
from .torch_plan import NOT_HERE, Plan, refuse_no_dataset, refuse_unsupported
from .torch_position import Position, check_state
from .torch_sampler import SamplerLists
from .torch_values import Joining, MadeAhead

_log = logging.getLogger("bulkhead")

_QUOTA = "1GiB"  # the import of a PyTorch with CUDA takes 400 MiB of it


@public
class DataLoader(torch.utils.data.DataLoader):
    """PyTorch's DataLoader, with the dataset in Bulkhead's workers.

        loader = bulkhead.torch.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
        for epoch in range(10):
            for images, labels in loader:
                train(images, labels)

    The arguments are PyTorch's. `dataset` is a map-style dataset: it has `__len__` and `__getitem__`. It is pickled once, and
    unpickled in each worker: later changes are not seen. Its arrays and tensors lie in memory that all workers share and
    cannot change. Workers have a memory quota each (`worker_quota`, "1GiB" by default, of which importing PyTorch takes up to
    400 MiB), are replaced before they meet it, and when they crash or hang; batches are the same whatever becomes of them, in
    the same order, each exactly once. They may read the user's files but open no sockets and start no processes.

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
    Values whose sizes differ get room for 4 times the largest of these; `room` is another number of bytes. A sample
    that does not fit is an error that says which `room` to give. `outputs` declares the values instead, so that no sample is
    looked at: the structure of a sample with an element type, or a dict of `dtype`, `shape` and `max_count`, in the place of
    each value: `outputs=({"dtype": "float32", "shape": [3, 224, 224]}, "int64")`. `explain()` says how each value travels.

    `errors="substitute"` puts another sample in the place of one whose `__getitem__` raises, of up to `max_fraction` of an
    epoch; it needs samples that no `collate_fn` or sampler arranges. `loader.substitutions` and `loader.quarantined` list
    them, where `loader` is this class's attribute of that name: the bulkhead.Loader of the last loop. `name` and `version` are part of the fingerprint, beside
    the dataset's class and length and the code of its modules: give another `version` when what the dataset reads has
    changed. `target` and `credentials` name a service that was started with --allow-datasets, and has workers of its own:
    `num_workers` then only says how far to work ahead. Further options go to bulkhead.Loader: `worker_quota`, `memory_budget`, `worker_hang_timeout`, `sandbox`,
    `metrics`, `log_level`, `cache_dir`, `trace_python`.

    `state_dict()` is the position after the last batch that the loop received; after `load_state_dict` the next loop gives the
    rest of that epoch, whose number is `state["epoch"]`. An index list of a sampler must come out the same then, or
    CursorMismatch says so.

    Raises InvalidArgument for arguments that PyTorch or this class cannot take, and for a dataset that cannot be pickled, with
    the part at fault; DataError with dataset, index and the lines of code when `__getitem__` raises; what Loader raises.
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
        outputs: Any = None,
        **options: Any,
    ):
        self._image: Optional[Image] = None
        self._loader: Optional[stages.DatasetLoader] = None
        self._ahead: Optional[MadeAhead] = None
        refuse_no_dataset(dataset)
        refuse_unsupported(multiprocessing_context, pin_memory_device)
        length = stages.length_of(dataset)
        if num_workers < 0 or (prefetch_factor is not None and prefetch_factor < 1) or timeout < 0:
            raise _errors.InvalidArgument(
                "num_workers and timeout are at least 0, prefetch_factor is at least 1"
            )
        for option in NOT_HERE.keys() & options.keys():
            raise _errors.InvalidArgument(f"{option} has no place here: {NOT_HERE[option]}")
        refuse_unknown(DataLoader, options, stages.Loader, without=NOT_HERE)
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
        self._plan = Plan.of(self.batch_size, shuffle, sampler, batch_sampler, own_collate, generator)
        self._plan.check_errors(errors)
        self._errors = {
            "policy": errors,
            **({} if max_fraction is None else {"max_fraction": max_fraction}),
        }
        self._room = stages.checked_room(room)
        self._probe = stages.checked_probe(probe)
        self._seed = torch.initial_seed() if seed is None else seed
        self._in_order = in_order
        workers = max(1, num_workers)
        target = options.get("target")
        own_service = {"workers": workers, "threads": 1, "worker_quota": _QUOTA}
        self._options = {
            **(own_service if target is None else {}),
            "timeout": timeout or 300.0,
            "credits": max(2, workers * (prefetch_factor or 2)),
            **options,
        }
        self._workers = workers
        self._length = length
        self._class = stages.class_name(dataset)
        sent = {"dataset": dataset, "collate": self._collate(own_collate), "worker_init": worker_init_fn}
        self._image = Image(sent, {"class": self._class, "workers": workers, "seed": self._seed % (1 << 63)})
        self._identity = stages.Identity(
            self._class, name, version, length, self._plan.sampler, self._image.code
        )
        self._words = of_data_loader(self._class, self._plan.one_of_range(), stages.options_in_words(target))
        self._lists = SamplerLists(self, self._plan.listed == "batches", length)
        self._pickled: Dict[int, int] = {}  # bytes by leaf, of all loops
        self._at = Position(self._seed, layout=self._declared(outputs, room))
        self._resumed: Optional[Dict[str, Any]] = None
        self._loops = 0

    def __repr__(self) -> str:
        return (
            f"<bulkhead.torch.DataLoader of {self._class}, {self._length} samples, batch_size={self.batch_size}, "
            f"{self._workers} workers>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "dataset": f"{self._class}, {self._length} samples",
            "batch_size": self.batch_size,
            "workers": self._workers,
            "epoch": max(self._at.epoch, 0),
        }
        return html.card("bulkhead.torch.DataLoader", facts)

    # What the arguments come to.

    def _declared(self, outputs: Any, room: Optional[int]) -> Optional[Layout]:
        if outputs is None:
            return None
        if self._plan.function == "batch":
            raise _errors.InvalidArgument(
                "outputs declares samples, and here workers make whole batches: leave outputs out, or collate_fn, batch_sampler "
                "and batch_size=None"
            )
        if room is not None:
            raise _errors.InvalidArgument("room is for values whose sizes are learned: give max_count in outputs")
        return declared.layout_of(outputs)

    def _collate(self, own_collate: bool) -> Any:
        if self.batch_size is None and self.batch_sampler is None:
            return TheOnlyOne(
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
        if self._image is None:
            raise _errors.LoaderClosed("the DataLoader is closed")
        loader = self._begin()
        self._loops += 1
        return self._loop(loader, self._loops)

    @ends_at_caller
    def _loop(self, loader: stages.DatasetLoader, loop: int) -> Iterator[Any]:
        self._check_loop(loop)
        pins = self.pin_memory and torch.cuda.is_available()
        values: Any = self._values(loader, pinned if pins else None)
        if pins:
            values = self._ahead = MadeAhead(values)
        for value, cursor in values:
            self._at = self._at._replace(cursor=cursor)
            yield value
            del value
            self._check_loop(loop)

    def _check_loop(self, loop: int) -> None:
        if loop != self._loops:
            raise meant(
                RuntimeError("another loop over this DataLoader has begun, which ends this one: use a DataLoader for each")
            )

    def _values(self, loader: stages.DatasetLoader, finish: Any) -> Iterator[Tuple[Any, Any]]:
        """The epoch's elements, each with the cursor behind it."""
        assert self._at.layout is not None
        joining = Joining(self._at.layout, self._class, self._pickled)
        whole = self._plan.function == "batch"
        for batch in loader:
            value = joining.whole(batch) if whole else joining.samples(batch, batch.valid_count)
            del batch
            if finish is not None:
                value = finish(value)
            yield value, loader.state_dict()
            del value

    def _begin(self) -> stages.DatasetLoader:
        """The loader, at the first batch of the loop. Where it fails, the next loop begins as this one did."""
        if self._ahead is not None:  # of a loop that was left
            self._ahead.end()
            self._ahead = None
        assert self._image is not None
        self._image.check_process()
        resumed = self._resumed
        if resumed is None:
            at, cursor = self._at._replace(epoch=self._at.epoch + 1), None
        else:
            at, cursor = Position.of_state(resumed), resumed["cursor"]
            if at.has_ended():
                at, cursor = at._replace(epoch=at.epoch + 1), None
                if self._plan.listed:
                    self._lists.go_on_after(resumed["standings"])
        if self._plan.listed:
            at = self._with_list(at, resumed["standings"] if cursor is not None else None)
            if cursor is not None and at.list_digest != resumed["list"]:
                raise _errors.CursorMismatch(
                    f"the sampler ({self._identity.sampler}) gives another list for epoch {at.epoch} than when the state "
                    "was saved: a sampler must give the same list in the same epoch"
                )
        else:
            step = self._batch_size()
            at = at._replace(size=self._whole_batches(self._length, step) if step else self._length)
        if at.size < (
            1 if self._plan.function == "batch" or not self.drop_last else self.batch_size
        ):
            raise _errors.InvalidArgument(
                f"an epoch has {at.size} samples, of which drop_last leaves no batch"
            )
        if resumed is None and not self._plan.listed and self._loader is not None:
            # Nothing is lost when the last loop ended: it stands there.
            self._loader.set_epoch(at.epoch)
        else:
            at = self._open(at, cursor)
        assert self._loader is not None
        self._at, self._resumed = at._replace(cursor=self._loader.state_dict()), None
        return self._loader

    def _with_list(self, at: Position, standings: Any) -> Position:
        """With the sampler's list in the workers' memory; that of `standings` again, if given."""
        assert self._image is not None
        found = self._lists.draw() if not standings else self._lists.draw_again(standings)
        if found.offsets is not None:
            size = len(found.offsets) - 1
        else:
            step = self._batch_size()
            size = len(found.indices) if not step else self._whole_batches(len(found.indices), step)
        if at.size and size != at.size:
            at = at._replace(first_epoch=at.epoch, cursor=None)
        digest = self._image.write_list(at.epoch - at.first_epoch, found.indices, found.offsets)
        return at._replace(size=size, list_digest=digest)

    def _whole_batches(self, samples: int, step: int) -> int:
        return samples // step if self.drop_last else -(-samples // step)

    def _open(self, at: Position, cursor: Optional[Dict[str, Any]]) -> Position:
        """Opens the stream of an epoch, or of all that follow when the service has the order."""
        assert self._image is not None
        arguments = {**self._arguments(), "total": str(self._length)}
        epoch = at.epoch - at.first_epoch
        if at.layout is None:
            size = self._batch_size()
            learned = stages.learned(
                self._image, arguments, epoch, size, self._probe, self._options
            )
            at = at._replace(layout=learned.with_room(lambda _: self._room))
            self._name_objects(at.layout)
        if cursor is None and at.cursor is not None:
            cursor = {**at.cursor, "epoch": epoch, "consumed": 0, "substitutions": 0}
        before = self._loader
        self._loader = stages.DatasetLoader(
            self._image,
            self._spec(at, arguments),
            self._words,
            bool(self._plan.listed),
            cursor=cursor,
            **self._options,
        )
        if before is not None:  # not earlier: with it the service would end
            before.close()
        return at

    def _name_objects(self, layout: Layout) -> None:
        where = places(layout.tree)
        objects = [
            where[i] or "the sample itself" for i, leaf in enumerate(layout.leaves) if leaf["kind"] == "object"
        ]
        if objects:
            _log.info(
                "%s: workers pickle what is no array, number, str or bytes, or not of one kind in all samples: %s",
                self._class,
                ", ".join(objects),
            )

    def _spec(self, at: Position, arguments: Dict[str, str]) -> Dict[str, Any]:
        assert at.layout is not None
        whole = self._plan.function == "batch"
        arguments = {**arguments, "layout": json.dumps(list(at.layout))}
        if whole:
            arguments["size"] = str(self._batch_size())
        else:
            del arguments["total"]
        outputs = at.layout.outputs()
        if not outputs:
            raise _errors.InvalidArgument(
                f"{self._class} gives None for each sample: does __getitem__ return?"
            )
        last = "drop" if self.drop_last else "partial"
        batch = {"size": 1} if whole else {"size": self.batch_size, "last": last}
        order = {"global": {}} if self._plan.shuffled else {"sequential": {}}
        more: Dict[str, Any] = {"seed": (at.seed + at.first_epoch) % (1 << 64), "errors": self._errors, "order": order}
        if self._plan.listed:
            more["epochs"] = at.epoch - at.first_epoch + 1  # the list of the next is not there yet
        if not self._in_order:
            more["deterministic"] = False
        names = [output["name"] for output in outputs]
        return stages.spec_of(
            at.size, stages.stage(self._plan.function, arguments, outputs), names, batch, **more
        )

    # Facts.

    def explain(self) -> str:
        """How the values of a sample, or of a batch that workers make, travel from workers to the loop: a line for each.

        Known once the first loop has begun, or by `outputs`. Arrays and numbers of one shape lie where workers wrote them.
        Values that are pickled are counted.
        """
        if self._at.layout is None:
            return "not known yet: samples are looked at when the first loop begins"
        return declared.explained(self._at.layout, places(self._at.layout.tree), self._pickled)

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

    @property
    def _is_accelerate_prepared(self) -> bool:
        """What Hugging Face's Accelerator.prepare looks at, which would else make a DataLoader of PyTorch's from it."""
        from accelerate.state import PartialState

        processes = PartialState().num_processes
        if processes > 1 and getattr(self.sampler, "num_replicas", 1) != processes:
            raise _errors.InvalidArgument(
                f"there are {processes} processes, and Accelerate does not split this loader among them: give it "
                "sampler=DistributedSampler(dataset), and the batch size of one process"
            )
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, _: bool) -> None:
        """Accelerate marks what it has seen."""

    # Checkpoints.

    def state_dict(self) -> Dict[str, Any]:
        """The position after the last batch that a loop received, ready for JSON; `epoch`: that of the next batch."""
        if self._resumed is not None:
            return copy.deepcopy(self._resumed)
        return self._at.state(self._lists.standings)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on where `state` was taken. InvalidArgument if it is not one of state_dict()."""
        goes_on = check_state(state)
        self._loops += 1  # ends a loop that goes on
        self._resumed = copy.deepcopy(dict(state)) if goes_on else None

    # The end.

    def close(self) -> None:
        """Ends the workers. Idempotent."""
        if self._loader is not None:
            self._loader.close()  # which wakes who waits for its batches
        if self._ahead is not None:
            self._ahead.end()
        if self._image is not None:
            self._image.close()
        self._loader = self._image = None

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self, ending: Any = sys.is_finalizing) -> None:
        if self.__dict__.get("_image") is not None and not ending():
            self.close()
