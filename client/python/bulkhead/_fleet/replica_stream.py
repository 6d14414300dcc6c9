"""The stream of one replica, which makes the batches that it is asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional

import numpy as np

from .. import errors
from .._arena.arena import Arena
from .._stream.stream import Stream
from .assigned_order import AssignedOrder
from .received import Received
from .replicas import Replica

if TYPE_CHECKING:
    from .fleet_stream import FleetStream


class ReplicaStream(Stream):
    """Hands its batches to the fleet as they come, on its reader's thread: over gRPC, or from shared memory."""

    def __init__(self, fleet: FleetStream, replica: Replica, open_request: Any, received: Optional[Received]):
        """`received`: where its batches come to shared memory; it is the stream's from now on."""
        self._fleet = fleet
        self._memory = received
        if received is not None:
            open_request.arena_token = received.door.token
        try:
            super().__init__(
                replica.target, fleet.credentials, open_request, received and received.door, None, 0, fleet.events,
                fleet.endpoint.words, AssignedOrder, replica.authority, received and received.receiver,
            )
        except BaseException:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._memory is not None:
            self._memory.door.close()

    def has_lost_receiver(self) -> bool:
        """Whether its batches were to come through a receiver, and that is gone."""
        return self._memory is not None and self._memory.door.hung_up()

    @property
    def records(self) -> List[str]:
        """The quarantine set that the replica's next batch is made with."""
        assert self._order is not None
        return list(self._order.cursor["quarantined"])

    @property
    def arena(self) -> Optional[Arena]:
        """Where its batches come, over shared memory."""
        return self._transport.arena if self._transport is not None else None

    @property
    def end(self) -> Optional[errors.BulkheadError]:
        """Why the stream has ended; None while it has not. Takes no lock: the fleet is told of the end after this says so."""
        return self._error if self._ended else None

    def ask(self, batches: Iterable[int], needed_from: int) -> None:
        """Asks for batches, by their numbers on the wire. Does not wait, and takes no lock that a reader holds."""
        assert isinstance(self._order, AssignedOrder)
        batches = list(batches)
        self._order.assign(batches, needed_from)
        self._call.assign(batches, needed_from)

    def ask_no_more(self, needed_from: int) -> None:
        """The service ends the stream when it has said all. As `ask`."""
        assert isinstance(self._order, AssignedOrder)
        self._order.is_complete = True
        self._call.assign([], needed_from, last=True)

    def wait_for_last_words(self, until: float) -> None:
        """Until a stream that was asked for no more has ended, or that time. Not for a replica that is at a batch that others made."""
        if self._order is not None and self._order.is_at_its_end:
            with self._changed:
                self._changed.wait_for(lambda: self._ended, max(until - time.monotonic(), 0.0))

    def begin_wait(self, left: float) -> float:
        """For how long to wait before `waited` is called, at most the `left` seconds."""
        if self._memory is not None:
            self._memory.door.flush()
        with self._changed:
            return self._silence.begin_wait(left)

    def waited(self, seconds: float, moment: float) -> None:
        """A wait of `moment` seconds took `seconds`. A service that was silent for too long is lost."""
        with self._changed:
            self._lose_if_silent(seconds, moment)

    @property
    def activity(self) -> str:
        """What the replica's workers were doing at its last heartbeat, if no batch has come since."""
        return self._activity

    def _deliver(self, header: Any, arrays: Dict[str, np.ndarray]) -> None:
        assert self._order is not None and self._transport is not None
        self._order.note(header)
        with self._changed:
            if self._ended or self._closed:
                return
            self._silence.told(0.0)
            self._activity = ""
            self._transport.hand_out(header.sequence, self._ended)
        self._fleet.on_batch(self, header, arrays)

    def _on_quarantined(self, event: Any) -> None:
        super()._on_quarantined(event)
        self._fleet.on_quarantined(self)

    def _notify(self) -> None:
        super()._notify()
        error = self.end
        if error is not None and not self._closed:
            self._fleet.on_end(self, error)

    def close(self) -> None:
        super().close()
        self._hang_up()
