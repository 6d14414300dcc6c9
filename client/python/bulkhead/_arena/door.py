"""The client's end of the arena door (arena.proto).

Through it a stream's memory and its batches' slots come, and slots go back.
"""

from __future__ import annotations

import array
import collections
import os
import select
import socket
import threading
import time
import weakref
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Set, Tuple

from .._rpc import proto, socket_user
from ..errors import BulkheadError

WELCOME_SECONDS = 5.0
# That, and a moment for the door of what is started in the place of one that hangs.
SECOND_WELCOME_SECONDS = 6.0
_LARGEST_PACKET = 4096
_MOST_DESCRIPTORS = 4  # more than the one that is expected, so that a surplus is seen and closed
_ANCILLARY_BYTES = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
_POLL_SECONDS = 0.05


class DoorError(Exception):
    """The door cannot be used; the text says why."""


class DoorClosed(DoorError):
    """Nothing more comes through it."""


class DoorTorn(DoorError):
    """A reader was interrupted, and a packet may be lost."""


class Listener(NamedTuple):
    """Receives an arena's slots and events, on the thread that pumps."""

    arena_id: int
    on_packet: Callable[[str, Any], None]  # "slot" and a SlotBatch, or "event" and an ArenaEvent


def path_of(target: str) -> Optional[str]:
    """Where the door of the service at `target` is; None unless that is a Unix socket."""
    if not target.startswith("unix:"):
        return None
    path = target[len("unix:") :]
    if path.startswith("//"):
        path = path[2:]
    return path + ".arena"


_doors: "weakref.WeakSet[Door]" = weakref.WeakSet()


class Door:
    """One connection: welcome → a grant for every stream → its slots → releases, until it hangs up.

    socket ──pump, one thread at a time──▶ grants, kept for receive_grant; packets for the listener

    `close` hangs up as soon as no slot is held any more: until then the service must keep its hands
    off them. The descriptor goes with the last reference, so that no destructor can send on another
    file's. A forked child has only a closed one. Thread-safe; without a lock where destructors use it.
    """

    def __init__(
        self,
        path: str,
        timeout: float,
        cancelled: Callable[[], bool],
        socket_user: Optional[str] = None,
    ):
        self.path = path
        self._socket_user = socket_user  # who may listen there, beside this user and root
        self._closing = False
        self._hung_up = False
        self._held: Set[Tuple[int, int]] = set()  # (arena, slot)
        self._unsent: Deque[bytes] = collections.deque()
        self._pumping = threading.Lock()
        self._in_hand = False  # a packet that is not recorded yet; stays set when its reader is interrupted
        self._grants: Dict[int, Tuple[Any, int]] = {}  # that were not asked for yet
        self._newest = 0  # the arena that was granted last, if it may still have a listener
        self._early: List[Tuple[str, Any]] = []  # what came for it before the listener
        self._listener: Optional[Listener] = None
        until = time.monotonic() + timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self._socket.setblocking(False)
            self._connect(until, cancelled)
            message, descriptors = self._receive(until, cancelled)
            _close_all(descriptors)
            if message.WhichOneof("message") != "welcome" or not message.welcome.token:
                raise DoorError(f"the socket at {path} is not an arena door")
        except BaseException:
            self._socket.close()
            raise
        self.token: str = message.welcome.token
        _doors.add(self)

    def _connect(self, until: float, cancelled: Callable[[], bool]) -> None:
        while True:
            try:
                self._socket.connect(self.path)
                return socket_user.check(self._socket, self.path, self._socket_user)
            except BulkheadError as refusal:
                raise DoorError(refusal.message) from None
            except BlockingIOError:  # its backlog is full
                self._pause(0, until, cancelled)
            except OSError as error:
                text = error.strerror or str(error)  # "AF_UNIX path too long" has no strerror
                raise DoorError(f"no arena door at {self.path}: {text}") from None

    def _pause(self, events: int, until: float, cancelled: Callable[[], bool]) -> None:
        left = until - time.monotonic()
        if left <= 0 or cancelled():
            raise DoorError(f"the arena door at {self.path} did not answer in time")
        poller = select.poll()  # select.select() fails for descriptors above 1023
        if events:
            poller.register(self._socket, events)
        poller.poll(min(left, _POLL_SECONDS) * 1000)

    def _receive(self, until: float, cancelled: Callable[[], bool]) -> Tuple[Any, List[int]]:
        """The next packet and the descriptors that came with it, which are the caller's."""
        while True:
            packet = self._receive_now()
            if packet is not None:
                return packet
            self._pause(select.POLLIN, until, cancelled)

    def _receive_now(self) -> Optional[Tuple[Any, List[int]]]:
        """As `_receive`; None if there is no packet."""
        try:
            try:
                data, ancillary, flags, _ = self._receive_message()
            except ConnectionResetError:  # told once, ahead of what still lies in the queue
                data, ancillary, flags, _ = self._receive_message()
        except BlockingIOError:
            return None
        except OSError as error:
            raise DoorClosed(f"the arena door at {self.path} broke: {error.strerror}") from None
        descriptors = _descriptors(ancillary) if ancillary else []
        try:
            if not data:
                raise DoorClosed(f"the arena door at {self.path} was closed by the service")
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise DoorError(f"a packet of the arena door at {self.path} is too large")
            try:
                return proto.ArenaServerMessage.FromString(data), descriptors
            except Exception:
                raise self._malformed() from None
        except DoorError:
            _close_all(descriptors)
            raise

    def _receive_message(self):
        return self._socket.recvmsg(_LARGEST_PACKET, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)

    def _malformed(self) -> DoorError:
        return DoorError(f"a packet of the arena door at {self.path} is malformed")

    def receive_grant(self, arena_id: int, timeout: float, cancelled: Callable[[], bool]):
        """The grant of the arena and its descriptor, which is the caller's."""
        until = time.monotonic() + timeout
        while True:
            self.pump(lambda: arena_id in self._grants)  # what lies behind it is for the listener
            with self._pumping:
                if arena_id in self._grants:
                    return self._grants.pop(arena_id)
            self._pause(select.POLLIN, until, cancelled)

    # Slots and events.

    def fileno(self) -> int:
        """Readable when there is something to pump."""
        return self._socket.fileno()

    def listen(self, listener: Listener) -> None:
        """Passes packets of its arena to it from now on, including those that came before."""
        with self._pumping:
            self._listener = listener
            early, self._early = self._early, []
            for kind, message in early:
                if message.arena_id == listener.arena_id:
                    listener.on_packet(kind, message)

    def stop_listening(self, arena_id: int) -> None:
        """Nothing goes to that arena's listener any more, behind what lies in the socket now.

        Raises what `pump` raises, but for a door that is closed.
        """
        try:
            self.pump()
        except DoorClosed:  # what came before did arrive
            pass
        finally:
            with self._pumping:
                if self._listener is not None and self._listener.arena_id == arena_id:
                    self._listener = None
                if self._newest == arena_id:
                    self._newest = 0

    def pump(self, enough: Callable[[], Any] = lambda: False) -> None:
        """Takes what lies in the socket where it belongs, until `enough`, or waits until another thread did.

        DoorError. When it is left by any other exception, such as Ctrl-C's, the door is torn.
        """
        with self._pumping:
            if self._in_hand:
                raise DoorTorn(f"reading the arena door at {self.path} was interrupted")
            self._in_hand = True
            try:
                while not enough() and self._pump_one():
                    pass
            except DoorError:
                self._in_hand = False
                raise
            self._in_hand = False

    def being_pumped(self) -> bool:
        """Whether any thread is pumping, including this one."""
        return self._pumping.locked()

    def _pump_one(self) -> bool:
        """Takes one packet, with `_pumping` held; returns whether there was one."""
        received = self._receive_now()
        if received is None:
            return False
        packet, descriptors = received
        kind = packet.WhichOneof("message")
        if kind == "grant" and len(descriptors) == 1:
            # An older one was for a stream that broke before it was opened.
            self._drop_grants()
            self._early.clear()
            self._newest = packet.grant.arena_id
            self._grants[self._newest] = packet.grant, descriptors[0]
            return True
        _close_all(descriptors)
        if kind != "slot" and kind != "event":
            raise self._malformed()
        message = packet.slot if kind == "slot" else packet.event
        if self._listener is not None and self._listener.arena_id == message.arena_id:
            self._listener.on_packet(kind, message)
        elif message.arena_id == self._newest:
            self._early.append((kind, message))
        return True

    def _drop_grants(self) -> None:
        _close_all([descriptor for _, descriptor in self._grants.values()])
        self._grants.clear()

    def hung_up(self) -> bool:
        """Whether the service is gone, or this door was closed."""
        if self._closing or self._hung_up or self._socket.fileno() < 0:
            return True
        poller = select.poll()
        poller.register(self._socket, select.POLLRDHUP)
        return bool(poller.poll(0))

    # Slots. Destructors call `release`.

    def hold(self, arena_id: int, slot: int) -> None:
        self._held.add((arena_id, slot))

    def release(self, arena_id: int, slot: int, packet: bytes) -> None:
        """Gives a slot back with `packet`; what cannot be sent now goes with a later one."""
        self._held.discard((arena_id, slot))
        self.send(packet)
        self._hang_up_if_done()

    def send(self, packet: bytes) -> None:
        """Sends it now, or with a later packet."""
        self._unsent.append(packet)
        self.flush()

    def flush(self) -> None:
        """Sends what could not be sent before; never waits."""
        while self._unsent:
            try:
                packet = self._unsent.popleft()
            except IndexError:  # another thread took it
                return
            try:
                self._socket.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except (BlockingIOError, InterruptedError):
                self._unsent.appendleft(packet)
                return
            except OSError:  # hung up: all slots have come back
                self._unsent.clear()
                return

    def close(self) -> None:
        """Hangs up when nothing is held. May be called twice."""
        self._closing = True
        self._hang_up_if_done()

    def _hang_up_if_done(self) -> None:
        if not self._closing or self._held or self._hung_up:
            return
        self._hung_up = True
        try:
            # Not close(): another thread may be about to send.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def abandon(self) -> None:
        """In a forked child: the connection stays the parent's."""
        self._hung_up = True
        self._socket.close()

    def __del__(self) -> None:
        try:
            self._socket.close()
            self._drop_grants()
        except Exception:  # __init__ failed, or the interpreter is half gone
            pass


def _descriptors(ancillary) -> List[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _close_all(descriptors: List[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _abandon_in_child() -> None:
    for door in list(_doors):
        door.abandon()


os.register_at_fork(after_in_child=_abandon_in_child)
