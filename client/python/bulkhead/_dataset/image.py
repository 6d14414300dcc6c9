"""A dataset in sealed memory, which workers map and unpickle."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import mmap
import os
import pickle
import secrets
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import numpy as np

from .._service.embedded import refuse_in_worker
from ..errors import InvalidArgument
from .worker.bulkhead_leaves import TheOnlyOne, rebuilt_tensor

if TYPE_CHECKING:
    from .upload import ListPlace, ListToSend

try:
    import cloudpickle as _by_value
except ImportError:
    _by_value = None

rebuilt_tensor.__module__ = TheOnlyOne.__module__ = "bulkhead_leaves"

_ALIGNMENT = 64
# By number, as some builds of Python have no names for them (linux/fcntl.h): F_ADD_SEALS; SEAL, SHRINK, GROW and WRITE.
_ADD_SEALS, _SEALS = 1033, 1 | 2 | 4 | 8
# The pickle itself, which every worker unpickles for itself. Arrays lie beside it and do not count.
_MOST_PICKLE_BYTES = 1 << 30

_LIST_HEAD_WORDS = 3  # of a list (worker/bulkhead_dataset.py)

_ADVICE = (
    "; open files, locks, connections and generators stay in their process: a dataset that makes them when it is first read "
    "(in __getitem__), not when it is made, can be sent"
)


class _Pickler((_by_value.Pickler if _by_value else pickle.Pickler)):  # type: ignore[misc]
    """Keeps arrays and tensors out of the pickle, and notes whether it names the trainer's own program."""

    names_main = False

    def reducer_override(self, obj: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(obj) is torch.Tensor:
            reduced = _reduced_tensor(torch, obj)
            if reduced is not None:
                return reduced
        if _by_value is not None:
            return super().reducer_override(obj)
        if isinstance(obj, type) or type(obj).__name__ == "function":
            self.names_main = self.names_main or getattr(obj, "__module__", "") == "__main__"
        return NotImplemented


def _reduced_tensor(torch: Any, tensor: Any) -> Any:
    plain = (
        tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.requires_grad
    )
    if not plain or tensor.is_quantized or vars(tensor):
        return None
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:
        return rebuilt_tensor, (tensor.view(torch.int16).numpy(), "bfloat16")
    try:
        array = tensor.numpy()
    except TypeError:  # a dtype that NumPy lacks
        return None
    return rebuilt_tensor, (array, array.dtype.name)


class Image:
    """The memory of one dataset, and of the sampler's lists; both belong to this process.

    `code`: a digest of code that travels inside of the pickle, or of the program that it names; workers report all
    other code by themselves.
    """

    def __init__(self, sent: Dict[str, Any], facts: Dict[str, Any]):
        refuse_in_worker()
        buffers: List[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        pickler = _Pickler(stream, protocol=5, buffer_callback=buffers.append)
        try:
            pickler.dump(sent)
        except Exception as error:
            raise InvalidArgument(_unpicklable(sent, error)) from None
        data = stream.getvalue()
        if len(data) > _MOST_PICKLE_BYTES:
            raise InvalidArgument(
                f"the pickle of {facts['class']} takes {len(data)} bytes without its arrays, over the limit of {_MOST_PICKLE_BYTES}; "
                "keep large tables in NumPy arrays or tensors, which all workers share"
            )
        main = _main_program() if pickler.names_main else None
        self.code = _digest_of_main(main is not None or _names_main(sent))
        self.fd = _sealed({**facts, "main": main, "argv": sys.argv}, data, [buffer.raw() for buffer in buffers])
        self._owner = os.getpid()
        self.lists_fd = -1
        self.lists_fd = _memory_file("bulkhead-lists")
        os.fchmod(self.lists_fd, 0o400)  # nobody else opens it for writing
        self._digest = ""
        self._place: Optional["ListPlace"] = None  # of the lists at a service that somebody else started

    def check_process(self) -> None:
        """InvalidArgument in a forked child, which shares this memory with its parent."""
        if self._owner != os.getpid():
            raise InvalidArgument(
                "this process was forked from the one that made the dataset's loader: make one in each process"
            )

    def paths(self) -> List[str]:
        """Where a process of the same user opens them."""
        self.check_process()
        return [f"/proc/{self._owner}/fd/{fd}" for fd in (self.fd, self.lists_fd)]

    # For a service that cannot open them (upload.py).

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def part(self, offset: int, length: int) -> bytes:
        return os.pread(self.fd, length, offset)

    def digest(self) -> str:
        """SHA-256 of the dataset's memory."""
        if not self._digest:
            with mmap.mmap(self.fd, self.size(), prot=mmap.PROT_READ) as memory:
                self._digest = hashlib.sha256(memory).hexdigest()
        return self._digest

    def list_to_send(self) -> "ListToSend":
        """The list that is written now. Its place stays the same while there is room for the list."""
        from .upload import ListPlace, ListToSend

        size = os.fstat(self.lists_fd).st_size
        if self._place is None or size > self._place.room:
            self._place = ListPlace(secrets.token_hex(16), 1 << max(12, size.bit_length()))
        with mmap.mmap(self.lists_fd, size, prot=mmap.PROT_READ) as memory:
            written = memory[:]
        head = 8 * _LIST_HEAD_WORDS
        return ListToSend(self._place, written[:head], written[head:])

    def write_list(self, epoch: int, indices: Any, offsets: Optional[Any] = None) -> str:
        """Replaces the list; returns its digest. No stream reads the one before any more."""
        ends = np.zeros(0, np.int64) if offsets is None else np.asarray(offsets, np.int64)
        body = b"".join([ends.tobytes(), np.asarray(indices, np.int64).tobytes()])
        head = np.array([epoch + 1, len(indices), len(ends)], np.int64).tobytes()
        assert len(head) == 8 * _LIST_HEAD_WORDS
        os.pwrite(self.lists_fd, bytes(len(head)), 0)  # of no epoch while it changes
        at = len(head)
        view = memoryview(body)
        while view:
            written = os.pwrite(self.lists_fd, view[: 1 << 30], at)
            view, at = view[written:], at + written
        os.ftruncate(self.lists_fd, at)
        os.pwrite(self.lists_fd, head, 0)
        return hashlib.sha256(body).hexdigest()[:16]

    def close(self) -> None:
        """May be called twice. A forked child leaves its parent's alone."""
        if self._owner != os.getpid():
            return
        for fd in (self.fd, self.lists_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self.lists_fd = -1

    def __del__(self) -> None:
        if "lists_fd" in self.__dict__:
            self.close()


def _memory_file(name: str) -> int:
    if not hasattr(os, "memfd_create"):
        raise InvalidArgument(
            f"this Python ({sys.executable}) was built without os.memfd_create, which datasets need: use another build"
        )
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def _sealed(facts: Dict[str, Any], data: bytes, buffers: List[memoryview]) -> int:
    """A memory file: the length of the head (uint64), the head as JSON, the pickle, the buffers."""
    sizes = [len(data), *(buffer.nbytes for buffer in buffers)]
    head_room = 4096 + 48 * len(sizes) + len(json.dumps(facts))
    places, at = [], head_room
    for size in sizes:
        at = -(-at // _ALIGNMENT) * _ALIGNMENT
        places.append([at, size])
        at += size
    head = json.dumps({**facts, "pickle": places[0], "buffers": places[1:]}).encode()
    fd = _memory_file("bulkhead-dataset")
    try:
        os.ftruncate(fd, max(at, 1))
        _write(fd, 0, memoryview(len(head).to_bytes(8, "little") + head))
        for (place, _), part in zip(places, [memoryview(data), *buffers]):
            _write(fd, place, part)
        fcntl.fcntl(fd, _ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _write(fd: int, at: int, view: memoryview) -> None:
    while view:
        written = os.pwrite(fd, view[: 1 << 30], at)
        view, at = view[written:], at + written


def _main_program() -> Dict[str, str]:
    """How a worker finds the trainer's program, as multiprocessing does: by its module's name, or its path."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package.train
        return {"module": spec.name}
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):
        raise InvalidArgument(
            "the dataset, or a function that goes with it, was defined here and in no file, so that workers cannot import it: "
            "put it into a file and import it, or install cloudpickle"
        )
    return {"path": os.path.abspath(path)}


def _digest_of_main(used: bool) -> str:
    """Of the trainer's program, if a part of it is sent; empty: none is, or it is no file."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    if not used or not path or not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def _names_main(sent: Dict[str, Any]) -> bool:
    """Whether the dataset, a part of it, or a function that goes with it is of the trainer's program."""
    dataset, *others = sent.values()
    inside = vars(dataset).values() if hasattr(dataset, "__dict__") else ()
    parts = [part for part in (dataset, *others, *inside) if part is not None]
    return any(
        getattr(part, "__module__", getattr(type(part), "__module__", "")) == "__main__"
        for part in parts
    )


def _unpicklable(sent: Dict[str, Any], error: Exception) -> str:
    """Which part it is, as far as that can be told, and what to do."""
    name, value = "the dataset", sent["dataset"]
    for role, part in (("collate_fn", sent["collate"]), ("worker_init_fn", sent["worker_init"])):
        if part is not None and not _pickles(part):
            name, value = role, part
    inside = (
        [key for key, part in vars(value).items() if not _pickles(part)]
        if hasattr(value, "__dict__")
        else []
    )
    where = f"{name} ({type(value).__name__})"
    if inside:
        held = vars(value)[inside[0]]
        where += (
            f": its attribute `{inside[0]}`, a {type(held).__module__}.{type(held).__qualname__},"
        )
    advice = _ADVICE
    if "<lambda>" in str(error) or "<locals>" in str(error) or "local object" in str(error):
        advice = "; write a function at the top of a module instead of a lambda or an inner one, or install cloudpickle"
    return f"{where} cannot be sent to workers: {error}{advice}"


def _pickles(value: Any) -> bool:
    try:
        _Pickler(io.BytesIO(), protocol=5, buffer_callback=lambda _: None).dump(value)
    except Exception:
        return False
    return True
