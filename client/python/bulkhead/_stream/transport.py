"""The two ways in which batches come: as bytes over gRPC, or in slots of shared memory."""

from __future__ import annotations

import collections
import math
import threading
from typing import Callable, Deque, Dict, Optional, Union

import numpy as np

from .._arena import door as door_module
from .._arena.arena import Arena, ArenaUnusable
from .._arena.door import Door, DoorClosed, DoorError
from .._arena.exhaustion import ExhaustionWatch
from .._arena.holdings import describe
from .._batch.assembler import Arrived, Assembler
from .._batch.batch import Layout, arrays_in
from .._batch.order import Order
from .._rpc.stream_call import StreamCall
from .._rpc.wire import Part
from ..errors import ProtocolError, ServiceUnavailable, TransportUnavailable

_GRANT_SECONDS = 10.0  # the grant is sent before the message that leads to it


class UnusableArena(TransportUnavailable):
    """The service opened the stream over shared memory, and this end cannot use it."""


def transport_unavailable(why: str, target: str) -> TransportUnavailable:
    """The error of a loader with transport="shm"."""
    return TransportUnavailable(
        f"shared memory was demanded and cannot be had: {why}; transport='auto' takes gRPC instead",
        metadata={"target": target},
    )


def _check_count(held: int, credits) -> None:
    if held >= credits.batches:
        raise ProtocolError(f"the service sent more than the {credits.batches} batches of credit")


def receive_arena(door: Optional[Door], opened, layout: Layout, target: str, closed: Callable[[], bool]) -> Arena:
    """Waits for the arena that was granted to the stream; the errors are those of a stream to `target`."""
    if door is None:
        raise ProtocolError("the service chose shared memory for a client without a door")
    try:
        grant, descriptor = door.receive_grant(opened.arena_id, _GRANT_SECONDS, closed)
        return Arena(grant, descriptor, layout.batch_bytes, door)
    except DoorClosed as failure:
        raise ServiceUnavailable(
            f"the service at {target} was lost while it opened the stream: {failure}",
            metadata={"target": target},
        ) from None
    except (ArenaUnusable, DoorError) as failure:
        raise UnusableArena(str(failure), metadata={"target": target}) from None


def check_greeting(door: Door, target: str, over: Callable[[], bool]) -> None:
    """UnusableArena if nobody is greeted at the door any more: what listens there hangs. Nothing once it is `over`."""
    try:
        Door(door.path, door_module.WELCOME_SECONDS, over).close()
    except DoorError as failure:
        if not over() and not door.hung_up():
            raise UnusableArena(f"what was started to receive batches hangs: {failure}", metadata={"target": target}) from None


class OverGrpc:
    """Batches come in parts and are put together; a credit goes back when its batch is handed out."""

    name = "grpc"
    arena: Optional[Arena] = None

    def __init__(self, call: StreamCall, credits, layout: Layout, order: Order, lock: threading.Condition):
        self._call = call
        self._credits = credits
        self._order = order
        self._lock = lock
        self._held: Deque[int] = collections.deque()  # sizes of what began to arrive and is not handed out
        self._assembler = Assembler(layout, credits.batches, self._check_header)

    def _check_header(self, header) -> None:
        """Checks a batch that begins: it must be the expected one, and within the credit."""
        with self._lock:
            _check_count(len(self._held), self._credits)
            self._order.check(header)
            # One batch is always allowed.
            if self._held and sum(self._held) + header.payload_bytes > self._credits.bytes:
                raise ProtocolError(f"the service sent more than the {self._credits.bytes} bytes of credit")
            self._held.append(header.payload_bytes)

    def add(self, part: Part) -> Optional[Arrived]:
        """The batch that the part completes, if it does."""
        return self._assembler.add(part)

    def take(self, message) -> Dict[str, np.ndarray]:
        raise ProtocolError("the service sent a slot of shared memory that was not agreed on")

    @property
    def in_batch(self) -> bool:
        """Whether a batch began and is not whole."""
        return self._assembler.in_batch

    def hand_out(self, sequence: int, ended: bool) -> None:
        """The program gets the batch with that number on the wire; `ended`: the service no longer needs the credit."""
        self._held.popleft()
        if not ended:
            self._call.release(sequence)

    # What there is of slots.

    def held_slots(self, ready: int) -> int:
        return 0

    def begin_wait(self, now: float) -> None:
        pass

    def free_slots(self) -> float:
        return math.inf

    def check_exhausted(self, until: float) -> None:
        pass

    def end(self) -> None:
        pass


class OverArena:
    """Batches lie in slots; one goes back when the last array that views it goes away."""

    name = "shm"
    in_batch = False

    def __init__(self, arena: Arena, credits, layout: Layout, order: Order, target: str):
        self.arena = arena
        self._credits = credits
        self._layout = layout
        self._order = order
        # With so many slots held, the service can send no more.
        self._most_held = min(arena.slot_count - 1, credits.batches)
        self._exhaustion = ExhaustionWatch(target)

    def add(self, part: Part) -> Optional[Arrived]:
        raise ProtocolError("the service sent a batch's bytes although it lies in shared memory")

    def take(self, message) -> Dict[str, np.ndarray]:
        """The arrays of a batch that the service announced."""
        if message.arena_id != self.arena.arena_id:
            raise ProtocolError("the service sent a slot of another arena")
        _check_count(len(self.arena.held), self._credits)
        lease = self.arena.take(message.slot)
        self._order.check(message.header)
        return arrays_in(lease, self._layout, message.header.sample_count)

    def hand_out(self, sequence: int, ended: bool) -> None:
        pass

    def held_slots(self, ready: int) -> int:
        """Slots that the program's arrays keep, besides the `ready` ones, which it has not got yet."""
        return len(self.arena.held) - ready

    def begin_wait(self, now: float) -> None:
        """A call begins to wait for a batch."""
        self._exhaustion.begin(now)

    def free_slots(self) -> float:
        """If the program holds all batches that it may: frees unused arrays. Returns when to look again, in seconds."""
        return self._exhaustion.pause(len(self.arena.held), self._most_held)

    def check_exhausted(self, until: float) -> None:
        """Warns, then raises, when a call waits because the program keeps all it may have."""
        arena = self.arena
        self._exhaustion.check(len(arena.held), self._most_held, until, lambda: describe(arena))

    def end(self) -> None:
        """The stream is over."""
        self.arena.retire()


Transport = Union[OverGrpc, OverArena]
