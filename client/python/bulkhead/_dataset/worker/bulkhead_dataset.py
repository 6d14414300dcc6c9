"""Runs in a worker for bulkhead.Source and bulkhead.torch.DataLoader: the functions that read the user's dataset.

The dataset lies in sealed memory that worker_host.py opened before the sandbox was entered. It is unpickled once, when a
stage is loaded, so that its imports count as those of any stage.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import mmap
import os
import pickle
import random
import runpy
import sys
import types
from typing import Any, Callable, Dict, List, Optional

import numpy as np

import bulkhead_leaves as leaves

_LIST_HEAD = 3  # uint64 words in front of a list: its epoch + 1, its length, and how many offsets of batches follow


class DatasetError(Exception):
    """An exception of the dataset, with the dataset and the index in front."""


class _Dataset:
    """What the trainer sent: the dataset, and the functions that go with it."""

    def __init__(self, fd: int, lists: int) -> None:
        self._memory = mmap.mmap(fd, os.fstat(fd).st_size, prot=mmap.PROT_READ)
        view = memoryview(self._memory)
        size = int.from_bytes(view[:8], "little")
        self.facts: Dict[str, Any] = json.loads(bytes(view[8 : 8 + size]))
        sys.argv[:] = self.facts["argv"]  # as a spawned process of multiprocessing has it
        if self.facts["main"]:
            _become_main(self.facts["main"])
        at, length = self.facts["pickle"]
        buffers = [view[begin : begin + count] for begin, count in self.facts["buffers"]]
        sent = pickle.Unpickler(io.BytesIO(view[at : at + length]), buffers=buffers).load()
        self.dataset, self.collate = sent["dataset"], sent["collate"]
        self._lists = lists
        self._number = int(os.environ.get("BULKHEAD_WORKER_SLOT", "0"))
        self._batched = callable(getattr(self.dataset, "__getitems__", None))
        self._introduced = False
        self._introduce()
        if sent["worker_init"] is not None:
            sent["worker_init"](self._number)

    def _introduce(self) -> None:
        """Lets torch.utils.data.get_worker_info() answer, once torch is loaded."""
        if self._introduced or "torch" not in sys.modules:
            return
        self._introduced = True
        from torch.utils.data._utils import worker

        number = self._number
        worker._worker_info = worker.WorkerInfo(
            id=number,
            num_workers=self.facts["workers"],
            seed=self.facts["seed"] + number,
            dataset=self.dataset,
        )
        torch = sys.modules["torch"]
        torch.set_num_threads(1)
        # In a worker default_collate asks for shared memory. What it makes is copied to the trainer's anyway.
        torch.UntypedStorage._new_shared = classmethod(lambda cls, size, *, device="cpu": cls(size))

    def at(self, index: int) -> Any:
        self._introduce()
        try:
            return self.dataset.__getitems__([index])[0] if self._batched else self.dataset[index]
        except MemoryError:
            raise
        except BaseException as error:  # sys.exit() raises one, too
            raise self._named(error, f"[{index}]") from error.__cause__

    def _named(self, error: BaseException, where: str) -> BaseException:
        if isinstance(error, ImportError):
            return error
        said = str(error)
        text = f"{self.facts['class']}{where}: {type(error).__name__}" + (
            f": {said}" if said else ""
        )
        terminal = sys.modules.get("bulkhead_host.terminal")
        if isinstance(error, IndexError):  # perhaps __len__, or a sampler, promises more than there is
            with contextlib.suppress(Exception):
                text += f"; __len__ says {len(self.dataset)}"
        # breakpoint() is no error of the sample.
        if terminal is not None and isinstance(error, terminal.NoTerminal):
            return terminal.NoTerminal(text).with_traceback(error.__traceback__)
        return DatasetError(text).with_traceback(error.__traceback__)

    def seeded(self, rng: np.random.Generator, make: Any) -> Any:
        """make(), under seeds of its own; again if it was what loaded torch, whose generator had no seed then."""
        word = int(rng.bit_generator.random_raw())
        knew_torch = "torch" in sys.modules
        _seed(word)
        made = make()
        if not knew_torch and "torch" in sys.modules:
            self._introduce()
            _seed(word)
            made = make()
        return made

    def together(self, indices: List[int], rng: np.random.Generator) -> Any:
        """A whole batch: each sample under seeds of its own, then the user's collate_fn."""
        if self._batched:
            try:
                samples = self.seeded(rng, lambda: self.dataset.__getitems__(indices))
            except MemoryError:
                raise
            except BaseException as error:  # sys.exit() raises one, too
                raise self._named(error, f".__getitems__({_short(indices)})") from error.__cause__
        else:
            samples = [self.seeded(rng, lambda: self.at(index)) for index in indices]
        try:
            return self.seeded(rng, lambda: self.collate(samples))
        except MemoryError:
            raise
        except BaseException as error:  # sys.exit() raises one, too
            raise self._named(error, f": collate_fn of the samples {_short(indices)}") from error.__cause__

    # The sampler's lists.

    def listed(self, place: int, epoch: int) -> int:
        """The index at this place of the epoch's list."""
        words = self._head(epoch)
        return self._words(_LIST_HEAD + words[2] + place, 1)[0]

    def listed_batch(self, place: int, epoch: int, size: int) -> List[int]:
        """The indices of this batch; `size`: of all but the last, where the sampler does not say."""
        _, length, offsets = self._head(epoch)
        begin, end = place * size, min((place + 1) * size, length)
        if offsets:
            begin, end = self._words(_LIST_HEAD + place, 2)
        return self._words(_LIST_HEAD + offsets + begin, end - begin)

    def _head(self, epoch: int) -> List[int]:
        words = self._words(0, _LIST_HEAD)
        if words[0] != epoch + 1:
            raise RuntimeError(f"the sampler's list for epoch {epoch} is not there")
        return words

    def _words(self, first: int, count: int) -> List[int]:
        data = os.pread(self._lists, 8 * count, 8 * first)
        return np.frombuffer(data, np.int64).tolist()


def _short(indices: List[int]) -> str:
    shown = ", ".join(map(str, indices[:8]))
    return f"{shown}, …" if len(indices) > 8 else shown


def _become_main(program: Dict[str, str]) -> None:
    """What multiprocessing does when it spawns: classes of the trainer's program are found in `__main__`."""
    if "__mp_main__" in sys.modules:  # of another dataset of the same trainer
        return
    main = types.ModuleType("__mp_main__")
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    if "module" in program:
        main.__dict__.update(
            runpy.run_module(program["module"], run_name="__mp_main__", alter_sys=True)
        )
    else:
        main.__dict__.update(runpy.run_path(program["path"], run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main


def _seed(word: int) -> None:
    """Seeds every generator that a sample may use."""
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(word)


def _open_all() -> List[_Dataset]:
    if "BULKHEAD_DATASET_FD" not in os.environ:
        return []
    first = _Dataset(int(os.environ["BULKHEAD_DATASET_FD"]), int(os.environ["BULKHEAD_DATASET_LISTS_FD"]))
    return [first, *(_Dataset(int(fd), -1) for fd in os.environ["BULKHEAD_DATASET_OTHER_FDS"].split(",") if fd)]


_all = _open_all()
_opened: Optional[_Dataset] = _all[0] if _all else None


@functools.lru_cache(maxsize=None)
def _layout(text: str) -> leaves.Layout:
    return leaves.Layout(*json.loads(text))


def _encoded(dataset: _Dataset, encode: Callable[[Any], Any], value: Any, what: str) -> Any:
    """encode(value); what is unlike the layout is an error of the dataset."""
    try:
        return encode(value)
    except leaves.Unlike as unlike:
        raise DatasetError(f"{dataset.facts['class']}{what}: {unlike}") from None


def sample(index, *, rng, epoch, layout, listed=False, **identity):
    """The outputs of one sample."""
    assert _opened is not None
    if listed:
        index = _opened.listed(int(index), epoch)
    index = int(index)
    return _encoded(_opened, _layout(layout).values, _opened.seeded(rng, lambda: _opened.at(index)), f"[{index}]")


def record(index, *, rng, epoch, layout, part=0, **identity):
    """One sample as features of a source; `part`: which of a mixture's datasets it is."""
    dataset = _all[part]
    value = dataset.seeded(rng, lambda: dataset.at(int(index)))
    return _encoded(dataset, _layout(layout).fields, value, f"[{int(index)}]")


def batch(index, *, rng, epoch, layout, size, total, listed=False, **identity):
    """The outputs of one whole batch, of `size` samples but the last; `total`: of the dataset."""
    assert _opened is not None
    indices = _batch_indices(int(index), epoch, size, total, listed)
    value = _opened.together(indices, rng)
    return _encoded(_opened, _layout(layout).values, value, f": collate_fn of the samples {_short(indices)}")


def _batch_indices(number: int, epoch: int, size: int, total: int, listed: bool) -> List[int]:
    assert _opened is not None
    if listed:
        return _opened.listed_batch(number, epoch, size)
    return list(range(number * size, min((number + 1) * size, total)))


def describe(index, *, rng, list_of, size, total, count, listed=False, **identity):
    """The layout of `count` samples, or with a `size` of batches, spread over all, as JSON."""
    assert _opened is not None
    values: List[Any] = []
    failure: Optional[Exception] = None
    epoch = list_of  # of the sampler's list; the stream that asks is at its own epoch 0
    of_all = (
        (total if not size else -(-total // size)) if not listed else _count_of_list(epoch, size)
    )
    whole = bool(size) or listed == "batches"
    for number in _spread(of_all, count):
        try:
            if whole:
                values.append(
                    _opened.together(_batch_indices(number, epoch, size, total, bool(listed)), rng)
                )
            else:
                values.append(_opened.at(_opened.listed(number, epoch) if listed else number))
        except DatasetError as error:  # of one that may be left out, or is told in its turn
            failure = failure or error
        if len(values) == count:
            break
    if failure is not None and not values:
        raise failure
    layout = _encoded(_opened, lambda found: leaves.layout_of(found, whole), values, "")
    return np.frombuffer(json.dumps([layout.tree, layout.leaves]).encode(), np.uint8)


def _spread(of_all: int, count: int) -> List[int]:
    """`count` numbers below `of_all`, then others in the place of those that fail."""
    first = leaves.looked_at(of_all, count)
    return first + [number for number in range(min(of_all, 8 * count)) if number not in first]


def _count_of_list(epoch: int, size: int) -> int:
    assert _opened is not None
    _, length, offsets = _opened._head(epoch)
    if offsets:
        return offsets - 1
    return -(-length // size) if size else length
