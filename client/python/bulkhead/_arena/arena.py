"""A stream's memory, shared with the service; its slots as arrays that give themselves back."""

from __future__ import annotations

import _thread
import fcntl
import mmap
import os
from typing import TYPE_CHECKING, Dict, Optional, Set, Tuple

import numpy as np

from .._rpc import proto
from ..errors import ProtocolError
from . import reaper
from .door import Door

if TYPE_CHECKING:
    from .holdings import Given

_F_GET_SEALS = 1034
_F_SEAL_SHRINK, _F_SEAL_GROW = 2, 4
_ALIGNMENT = 64


class ArenaUnusable(Exception):
    """The arena cannot be mapped; the text says why."""


class Arena:
    """Maps the arena of a grant; the mapping lives as long as any array that views it.

    Thread-safe without a lock: `held` changes in destructors.
    """

    def __init__(self, grant, descriptor: int, batch_bytes: int, door: Door):
        """Takes the descriptor."""
        self.arena_id: int = grant.arena_id
        self.slot_count: int = grant.slot_count
        self._slot_bytes: int = grant.slot_bytes
        self._door = door
        self.held: Set[int] = set()  # slots that are announced or handed out
        self.given: Dict[int, Given] = {}  # what the program got of each slot last
        self._releases: Dict[int, bytes] = {}
        try:
            self.memory = self._map(descriptor, batch_bytes)
        finally:
            os.close(descriptor)
        self._address: int = self.memory.__array_interface__["data"][0]

    def _map(self, descriptor: int, batch_bytes: int) -> np.ndarray:
        size = self._slot_bytes * self.slot_count
        if size == 0 or self._slot_bytes % _ALIGNMENT or self._slot_bytes < batch_bytes:
            raise ArenaUnusable(
                f"the granted arena has {self.slot_count} slots of {self._slot_bytes} bytes for "
                f"batches of {batch_bytes}"
            )
        try:
            seals = fcntl.fcntl(descriptor, _F_GET_SEALS)
            if seals & _F_SEAL_SHRINK == 0 or seals & _F_SEAL_GROW == 0:
                raise ArenaUnusable("the granted arena is not sealed against changes of its size")
            if os.fstat(descriptor).st_size < size:
                raise ArenaUnusable("the granted arena is smaller than its slots")
            mapping = mmap.mmap(
                descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE
            )
        except (OSError, ValueError, OverflowError) as error:
            raise ArenaUnusable(f"the granted arena cannot be mapped: {error}") from None
        return np.frombuffer(mapping, np.uint8)

    def take(self, slot: int) -> "SlotLease":
        """A slot that the service announced; it is given back with the last array that views it."""
        if slot >= self.slot_count:
            raise ProtocolError(f"the service sent slot {slot} of {self.slot_count}")
        if slot in self.held:
            raise ProtocolError(f"the service sent slot {slot}, which was not given back")
        return SlotLease(self, slot)

    def _release_of(self, slot: int) -> bytes:
        """The packet that gives the slot back."""
        packet = self._releases.get(slot)
        if packet is None:
            message = proto.ArenaClientMessage(release={"arena_id": self.arena_id, "slots": [slot]})
            packet = self._releases[slot] = message.SerializeToString()
        return packet

    def retire(self) -> None:
        """The stream is not read any more: slots that were announced and not read are given back, too."""
        packet = proto.ArenaClientMessage(
            retire={"arena_id": self.arena_id, "held_slots": sorted(self.held.copy())}
        )
        self._door.send(packet.SerializeToString())


class SlotLease:
    """Owner of a slot, at the base of every view's chain: NumPy, DLPack, torch and memoryview hold it."""

    def __init__(self, arena: Arena, slot: int):
        self.arena = arena  # and with it the mapping
        self.slot = slot
        self._packet = arena._release_of(slot)
        self.__array_interface__ = {
            "version": 3,
            "data": (arena._address + slot * arena._slot_bytes, False),
            "shape": (arena._slot_bytes,),
            "typestr": "|u1",
        }
        arena._door.hold(arena.arena_id, slot)
        arena.held.add(slot)

    def __del__(self) -> None:
        # On any thread, at any time: no lock is taken and nothing waits.
        try:
            arena = self.arena
            arena.held.discard(self.slot)
            arena._door.release(arena.arena_id, self.slot, self._packet)
        except KeyboardInterrupt:  # Python drops what a destructor raises: Ctrl-C comes once more
            reaper.bury(_thread.interrupt_main)
        except Exception:  # the interpreter may be half gone
            pass


def lease_of(array: np.ndarray) -> Tuple[np.ndarray, Optional[SlotLease]]:
    """The array at the root of the chain of views, and the lease that it holds, if it lies in a slot."""
    root: np.ndarray = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root, root.base if isinstance(root.base, SlotLease) else None


def arena_of(array: np.ndarray) -> Optional[Arena]:
    """The arena in whose slot the array lies; None when it lies elsewhere."""
    _, lease = lease_of(array)
    return lease.arena if lease is not None else None
