"""How tensors get to another device, for bulkhead.torch."""

from __future__ import annotations

import functools
import logging
import queue
import threading
import weakref
from typing import Any, Collection, Dict, Mapping, Optional, Tuple

import numpy as np
import torch

from .. import errors
from .._arena import reaper
from .._arena.arena import Arena, arena_of

_log = logging.getLogger("bulkhead")

_PORTABLE = 1  # cudaHostRegisterPortable: pinned for every GPU of the process

Tensors = Mapping[str, torch.Tensor]
Arrays = Mapping[str, np.ndarray]


class PlainCopy:
    """Copies to a device that is not a CUDA GPU: `Tensor.to`, in the caller's thread."""

    def __init__(self, device: torch.device):
        self._device = device

    def send(self, tensors: Tensors, arrays: Arrays) -> Dict[str, torch.Tensor]:
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def arrive(self, sent: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        return sent

    def close(self) -> None:
        pass


class Cuda:
    """The calls to CUDA, for one GPU and a stream of its own. Thread-safe."""

    def __init__(self, device: torch.device):
        if not torch.cuda.is_available():
            raise errors.InvalidArgument(f"device is '{device}', but PyTorch finds no GPU here")
        # "cuda" is the GPU that is current now, not whatever another thread has current later.
        index = torch.cuda.current_device() if device.index is None else device.index
        self._device = torch.device("cuda", index)
        self._stream = torch.cuda.Stream(self._device)

    def start(self, tensors: Tensors, pin: Collection[str]) -> Tuple[Dict[str, torch.Tensor], Any]:
        """Starts the copies; returns them and the event after them. The memory of a tensor in `pin` is free at once."""
        with torch.cuda.stream(self._stream):
            copies = {}
            for name, tensor in tensors.items():
                # PyTorch keeps pinned memory for reuse, and until the copy out of it is done.
                source = tensor.pin_memory() if name in pin else tensor
                copies[name] = source.to(self._device, non_blocking=True)
            copied = torch.cuda.Event(blocking=True)  # a thread that waits for it sleeps
            copied.record(self._stream)
            return copies, copied

    def arrive(self, copies: Tensors, copied: Any) -> None:
        """Makes the caller's stream wait for the copies, not the caller."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(copied)
        for copy in copies.values():
            copy.record_stream(current)

    def wait(self, copied: Any) -> None:
        with torch.cuda.device(self._device):
            copied.synchronize()

    def register(self, memory: np.ndarray) -> str:
        """Pins a mapping's pages, so that a GPU can read them. Returns why that failed, or ""."""
        with torch.cuda.device(self._device):
            try:
                runtime = torch.cuda.cudart()
                status = runtime.cudaHostRegister(_address(memory), memory.nbytes, _PORTABLE)
                if int(status) == 0:
                    return ""
                why = f"cudaHostRegister: {runtime.cudaGetErrorString(status)} ({int(status)})"
            except (AttributeError, RuntimeError) as failure:
                why = str(failure)
            self._forget_error()
            return why

    def unregister(self, memory: np.ndarray) -> None:
        with torch.cuda.device(self._device):
            torch.cuda.cudart().cudaHostUnregister(_address(memory))

    def _forget_error(self) -> None:
        """Clears the thread's last error, which PyTorch would report for its next kernel."""
        try:
            torch.zeros((), device=self._device).add_(1)
        except RuntimeError:
            pass


def _address(memory: np.ndarray) -> int:
    return memory.__array_interface__["data"][0]


class _Registrations:
    """Arenas that CUDA pinned, each until its mapping goes."""

    def __init__(self, cuda: Cuda):
        self._cuda = cuda
        self._pinned: "weakref.WeakKeyDictionary[Arena, bool]" = weakref.WeakKeyDictionary()
        self._told = False

    def covers(self, array: np.ndarray) -> bool:
        """Whether a GPU can read the array. Registers its arena on the first call for it."""
        arena = arena_of(array)
        if arena is None:
            return False
        pinned = self._pinned.get(arena)
        if pinned is None:
            pinned = self._pinned[arena] = self._register(arena)
        return pinned

    def _register(self, arena: Arena) -> bool:
        # The reaper's job keeps the mapping until CUDA has released it. A process that exits, and
        # a forked child, leave that to the driver.
        unregister = functools.partial(self._cuda.unregister, arena.memory)
        at_the_end = weakref.finalize(arena, reaper.bury, unregister)
        at_the_end.atexit = False
        refusal = self._cuda.register(arena.memory)
        if refusal:
            at_the_end.detach()
            self.tell(refusal)
        return not refusal

    def tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            _log.warning("batches are copied to pinned memory on their way to the GPU: %s", why)


class CudaCopy:
    """Copies ahead of the loop, on a CUDA stream of their own.

    By way of pinned memory, and the batch's slot is free as soon as its bytes lie there. With
    `from_arena` out of the slot itself, which a thread keeps until the copy is done: no CPU copies.

        slot ──(pinned memory)──▶ GPU      slot ────DMA────▶ GPU, then the slot goes back
    """

    def __init__(self, cuda: Cuda, from_arena: bool):
        self._cuda = cuda
        self._registrations = _Registrations(cuda) if from_arena else None
        self._reading: Optional["queue.SimpleQueue[Any]"] = None
        if from_arena:
            reaper.start()
            self._reading = queue.SimpleQueue()
            arguments = (cuda, self._reading)
            threading.Thread(target=_keep, args=arguments, name="bulkhead-copies", daemon=True).start()

    def send(self, tensors: Tensors, arrays: Arrays) -> Any:
        registrations = self._registrations
        if registrations is None or self._reading is None:
            return self._cuda.start(tensors, pin=tensors.keys())
        pin = {name for name in tensors if not registrations.covers(arrays[name])}
        if len(pin) == len(tensors):
            registrations.tell("they do not come over shared memory")
        copies, copied = self._cuda.start(tensors, pin)
        self._reading.put((copied, [tensors[name] for name in tensors if name not in pin]))
        return copies, copied

    def arrive(self, sent: Any) -> Dict[str, torch.Tensor]:
        copies, copied = sent
        self._cuda.arrive(copies, copied)
        return copies

    def close(self) -> None:
        """Does not wait: tensors that are being copied are kept until that is done. May be called twice."""
        if self._reading is not None:
            self._reading.put(None)

    def __del__(self) -> None:
        self.close()


def _keep(cuda: Cuda, reading: "queue.SimpleQueue[Any]") -> None:
    """The thread: keeps each copy's sources until it is done."""
    while True:
        item = reading.get()
        if item is None:
            return
        try:
            cuda.wait(item[0])
        except RuntimeError:  # the GPU failed, which the loop hears at its next step
            pass
        del item  # else the slot would be kept until the next one
