"""The client's end of the arena door (arena.proto): how it gets a stream's memory and gives slots back."""

from __future__ import annotations

import array
import collections
import os
import select
import socket
import time
import weakref
from typing import Any, Callable, Deque, List, Optional, Set, Tuple

from . import _proto

WELCOME_SECONDS = 5.0
_LARGEST_PACKET = 4096
_MOST_DESCRIPTORS = 4  # more than the one that is expected, so that a surplus is seen and closed
_POLL_SECONDS = 0.05


class DoorError(Exception):
    """The door cannot be used; the text says why."""


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
    """One connection: welcome → a grant for every stream → releases, until it hangs up.

    `close` hangs up as soon as no slot is held any more: until then the service must keep its hands
    off them. The descriptor goes with the last reference, so that no destructor can send on another
    file's. A forked child has only a closed one. Thread-safe without a lock: destructors use it.
    """

    def __init__(self, path: str, timeout: float, cancelled: Callable[[], bool]):
        self.path = path
        self._closing = False
        self._hung_up = False
        self._held: Set[Tuple[int, int]] = set()  # (arena, slot)
        self._unsent: Deque[bytes] = collections.deque()
        until = time.monotonic() + timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self._socket.setblocking(False)
            self._connect(until, cancelled)
            message, descriptors = self._receive(until, cancelled)
            _close_all(descriptors)
            if message.WhichOneof("message") != "welcome" or not message.welcome.token:
                raise DoorError(f"what listens at {path} is no arena door")
        except BaseException:
            self._socket.close()
            raise
        self.token: str = message.welcome.token
        _doors.add(self)

    def _connect(self, until: float, cancelled: Callable[[], bool]) -> None:
        while True:
            try:
                return self._socket.connect(self.path)
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
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(
                    _LARGEST_PACKET,
                    socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize),
                    socket.MSG_CMSG_CLOEXEC,
                )
                break
            except BlockingIOError:
                self._pause(select.POLLIN, until, cancelled)
            except OSError as error:
                raise DoorError(f"the arena door at {self.path} broke: {error.strerror}") from None
        descriptors = _descriptors(ancillary)
        try:
            if not data:
                raise DoorError(f"the arena door at {self.path} was closed by the service")
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise DoorError(f"a packet of the arena door at {self.path} is too large")
            try:
                return _proto.ArenaServerMessage.FromString(data), descriptors
            except Exception:
                raise DoorError(f"a packet of the arena door at {self.path} is malformed") from None
        except DoorError:
            _close_all(descriptors)
            raise

    def receive_grant(self, arena_id: int, timeout: float, cancelled: Callable[[], bool]):
        """The grant of the arena and its descriptor, which is the caller's."""
        until = time.monotonic() + timeout
        while True:
            message, descriptors = self._receive(until, cancelled)
            grant = message.grant if message.WhichOneof("message") == "grant" else None
            if grant is not None and grant.arena_id == arena_id and len(descriptors) == 1:
                return grant, descriptors[0]
            _close_all(descriptors)
            # One of another arena was for a stream that broke before it was opened.
            if grant is None or grant.arena_id == arena_id:
                raise DoorError(f"a packet of the arena door at {self.path} is malformed")

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
        """Now, or with a later one."""
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
