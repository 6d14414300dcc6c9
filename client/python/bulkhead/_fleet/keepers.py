"""The threads that open the streams of a fleet's replicas, and that watch which replicas there are."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List

from .. import errors
from .._stream.stream import LAST_WORDS_SECONDS
from .._stream.transport import UnusableArena
from .member import AWAY, HERE, OPENING, Member
from .replica_stream import ReplicaStream
from .replicas import Replica

if TYPE_CHECKING:
    from .fleet_stream import FleetStream

_END_SECONDS = 10.0
_LEAST_PATIENCE = 30.0


class Again(Exception):
    """The replica must be opened once more, at once."""


class Keepers:
    """A thread for each replica, which opens its stream, again when it was lost; and one that looks for other replicas.

    The fleet's lock guards the members.
    """

    def __init__(self, fleet: FleetStream):
        self._fleet = fleet
        self._lock = fleet.lock
        self._moved = threading.Condition(fleet.lock)
        self._patience = max(fleet.deadline, _LEAST_PATIENCE)
        self._closed = False
        self.members: Dict[Replica, Member] = {}

    def start(self) -> None:
        with self._lock:
            for replica in self._fleet.endpoint.replicas:
                self._add(replica)
        if self._fleet.endpoint.look_every:
            self._start_thread(self._watch, "bulkhead-replicas")

    # With the lock held.

    def all(self) -> List[Member]:
        return list(self.members.values())

    def here(self) -> List[Member]:
        """Those that make batches."""
        return [member for member in self.all() if member.state == HERE]

    def streams_here(self) -> List[ReplicaStream]:
        return [member.stream for member in self.here() if member.stream is not None]

    def wake(self) -> None:
        """A member is away."""
        self._moved.notify_all()

    # Without it.

    def close(self) -> None:
        """Ends all streams and threads. Those that were asked for no more may say their last words."""
        until = time.monotonic() + LAST_WORDS_SECONDS
        for stream in self.streams_here():
            stream.wait_for_last_words(until)
        with self._lock:
            self._closed = True
            members = self.all()
            self._moved.notify_all()
        for member in members:
            stream = member.stream
            if stream is not None:
                stream.close()
        for member in members:
            if member.keeper is not None and member.keeper is not threading.current_thread():
                member.keeper.join(_END_SECONDS)

    def _start_thread(self, run: Any, name: str, *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=run, args=arguments, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as failure:
            raise errors.OutOfThreads(f"the loader cannot watch its replicas: {failure}") from None
        return thread

    def _add(self, replica: Replica) -> None:
        member = self.members[replica] = Member(replica)
        member.keeper = self._start_thread(self._keep, "bulkhead-replica", member)

    # The watcher's thread.

    def _watch(self) -> None:
        while True:
            with self._lock:
                self._moved.wait_for(lambda: self._closed, self._fleet.endpoint.look_every)
                if self._closed:
                    return
            replicas = self._fleet.endpoint.look(lambda text: self._fleet.log.say(logging.WARNING, text))
            try:
                with self._lock:
                    self._go_by(replicas)
            except errors.OutOfThreads as failure:
                self._fleet.log.say(logging.WARNING, failure.message)
            self._fleet.log.tell()

    def _go_by(self, replicas: List[Replica]) -> None:
        """Adds replicas that are new, and drops those that are gone."""
        known = list(self.members)
        for replica in replicas:
            if replica not in self.members:
                self._add(replica)
        for replica in known:
            member = self.members[replica]
            # A name may be slow to tell of one that works: that one ends by itself.
            if replica not in replicas and (not replica.authority or member.state != HERE):
                if member.state == HERE:
                    self._fleet.dismiss(member, None)
                    self._fleet.log.say(logging.INFO, f"the replica at {member.target} is not asked any more: it is named no more")
                del self.members[replica]
        self._moved.notify_all()
        if known != list(self.members):
            self._fleet.resize(len(self.members))

    # The thread of a member's keeper.

    def _keep(self, member: Member) -> None:
        while True:
            request = self._next_attempt(member)
            if request is None:
                break
            try:
                self._try(member, request)
            except Again:
                self._fleet.note_away(member, None)
            except errors.BulkheadError as failure:
                self._fleet.note_away(member, failure.again())
            except Exception as failure:
                self._fleet.note_away(member, errors.BulkheadError(f"the loader could not connect: {failure!r}"))
            self._fleet.log.tell()
        if member.stream is not None:
            member.stream.close()

    def _next_attempt(self, member: Member) -> Any:
        """Waits until the member is to be opened; what to open it with, None when it is not to be any more."""

        def over() -> bool:
            return self._over(member)

        with self._lock:
            self._moved.wait_for(lambda: over() or member.state == AWAY)
        self._fleet.log.tell()
        with self._lock:
            self._moved.wait_for(over, member.pause)
            if over():
                return None
            member.state = OPENING
            old, member.stream = member.stream, None
            request = self._fleet.request_for(member)
        if old is not None:
            old.close()
        return request

    def _over(self, member: Member) -> bool:
        return self._closed or self.members.get(member.replica) is not member

    def _try(self, member: Member, request: Any) -> None:
        fleet, replica = self._fleet, member.replica
        if fleet.endpoint.upload is not None:
            fleet.endpoint.upload.send(replica.target, fleet.credentials, replica.authority, lambda: self._over(member))
        received = fleet.memory.open(self._patience, lambda: self._over(member))
        stream = ReplicaStream(fleet, replica, request, received)
        try:
            with self._lock:
                if self._closed:
                    raise errors.LoaderClosed("the loader is closed")
                member.stream = stream
            stream.wait_opened(self._patience, fleet.note_progress)
            with self._lock:
                member.answered = True
                if self.members.get(member.replica) is not member:
                    raise errors.LoaderClosed("it is not among the replicas any more")
                fleet.admit(member, stream)
        except UnusableArena as failure:
            stream.close()
            fleet.memory.give_up(failure.message)
            raise Again from None
        except BaseException as failure:
            lost_receiver = isinstance(failure, errors.ServiceUnavailable) and stream.has_lost_receiver()
            member.answered = member.answered or stream.answered
            stream.close()
            if lost_receiver:  # another member's keeper may have found that it hangs
                raise Again from None
            raise
