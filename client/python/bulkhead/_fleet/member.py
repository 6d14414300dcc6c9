"""One replica of a fleet, and what keeps it away."""

from __future__ import annotations

import threading
from typing import List, Optional

from .. import errors
from .._arena.arena import Arena
from .._stream.healing import REFUSED, is_loss
from .replica_stream import ReplicaStream
from .replicas import Replica

AWAY, OPENING, HERE = "away", "opening", "here"

FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
LEFT_OUT_PAUSE = 30.0  # of a replica that answers, and cannot serve


# What a service says of a stream when the same consumer opens another one (server/service/stream_directory.cc).
_CONNECTED_AGAIN = "the consumer connected again"


class Member:
    """One replica of the fleet. Guarded by the fleet's lock.

        away ──keeper──▶ opening ──opened, the same stream──▶ here ──lost, left out, other quarantine──▶ away
    """

    def __init__(self, replica: Replica):
        self.replica = replica
        self.state = AWAY
        self.stream: Optional[ReplicaStream] = None
        self.base = 0  # the batch that is number 0 on the wire
        self.boot_id = ""
        self.pause = 0.0  # before it is opened again
        self.error: Optional[errors.BulkheadError] = None  # why it is away
        self.answered = False
        self.keeper: Optional[threading.Thread] = None

    def is_service(self, boot_id: str) -> bool:
        """Whether it is the service of that boot id, or was until another stream of this consumer took its stream's place."""
        was_until_now = self.error is not None and is_of_another_address(self.error)
        return self.boot_id == boot_id and (self.state == HERE or was_until_now)

    @property
    def target(self) -> str:
        return self.replica.target

    @property
    def arena(self) -> Optional[Arena]:
        """Of its stream, while its batches come through shared memory."""
        return self.stream.arena if self.stream is not None else None

    @property
    def cannot_serve(self) -> bool:
        """It was left out, for another reason than that it cannot be reached now."""
        return self.error is not None and not passes(self.error)

    def has_failed(self, patient: bool) -> bool:
        """Whether its last attempt failed; not when it is `patient`ly waited for, because it answered before it was lost."""
        return self.error is not None and not (patient and self.answered and is_loss(self.error))

    def wait_longer(self) -> None:
        """Another attempt has failed with `error`."""
        if self.error is None:
            self.pause = 0.0
        elif passes(self.error):
            self.pause = min(max(2 * self.pause, FIRST_PAUSE), _LONGEST_PAUSE)
        else:
            self.pause = LEFT_OUT_PAUSE


def passes(error: errors.BulkheadError) -> bool:
    """Whether the replica may well be back in a moment."""
    # Files of credentials that are just being replaced may be right in a moment.
    passing = (errors.CredentialsInvalid, errors.DeadlineExceeded, errors.OutOfThreads)
    return is_loss(error) or error.reason in REFUSED or isinstance(error, passing)


def is_of_another_address(error: errors.BulkheadError) -> bool:
    """Whether another stream of this consumer took the place of the one that failed so."""
    return _CONNECTED_AGAIN in error.message


def none_can(missing: List[Member]) -> errors.BulkheadError:
    """The error of a fleet of which no replica can serve: that of one that answered, if there is one."""
    worst = next((member for member in missing if member.cannot_serve), missing[0])
    assert worst.error is not None
    if len(missing) == 1:
        return worst.error.again()
    others = "; ".join(f"{member.target}: {member.error}" for member in missing if member is not worst)
    text = f"none of the {len(missing)} replicas can serve; {worst.target}: {worst.error}; {others}"
    return type(worst.error)(text, worst.error.reason, worst.error.metadata, worst.error.code)
