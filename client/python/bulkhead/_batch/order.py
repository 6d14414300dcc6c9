"""Which batches came, and the cursor after each of them."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Dict, Iterable, Mapping, Set

from ..errors import ProtocolError
from .batch import UNORDERED_CURSOR_FIELDS, Layout, copy_cursor, with_code

MOST_QUARANTINED = 256
WINDOW = 64  # an unordered batch is fewer places than this ahead of the low-water mark


def quarantine_digest(records: Iterable[str]) -> str:
    """BatchHeader.quarantine_digest of a batch that was made without these records."""
    names = b"".join(record.encode() + b"\0" for record in sorted(records))
    return hashlib.sha256(names).hexdigest() if names else ""


class Expected:
    """What every batch of a stream must agree with: the layout, and the records in quarantine."""

    def __init__(self, layout: Layout, cursor: Mapping[str, Any]):
        """`cursor`: that the stream was opened with."""
        self._layout = layout
        self.cursor: Dict[str, Any] = copy_cursor(cursor)
        self._quarantine_digest = quarantine_digest(cursor["quarantined"])

    def quarantine(self, record: str) -> None:
        """The record is left out of the batches that come from now on."""
        records = sorted({*self.cursor["quarantined"], record})
        if not record or len(records) > MOST_QUARANTINED:
            raise ProtocolError(
                f"the service quarantined record '{record}', which has no name or is more than a "
                "cursor holds"
            )
        self.cursor = {**self.cursor, "quarantined": records}
        self._quarantine_digest = quarantine_digest(records)

    def _check_header(self, header) -> None:
        """Raises ProtocolError unless the header makes sense."""
        if not 1 <= header.sample_count <= self._layout.batch_size:
            raise ProtocolError(f"the service sent a batch of {header.sample_count} samples")
        if header.valid_count > header.sample_count or header.payload_bytes > self._layout.batch_bytes:
            raise ProtocolError("the service sent a batch header that contradicts itself")
        if header.quarantine_digest != self._quarantine_digest:
            raise ProtocolError(
                f"batch {header.sequence} was made with other records in quarantine than the "
                f"{len(self.cursor['quarantined'])} that the service reported"
            )


class Order(Expected):
    """Every batch exactly once; in turn, unless the stream is unordered.

    low-water mark: the first sequence number that has not come. Numbers are those on the wire,
    where 0 is the mark of the cursor that the stream was opened with. Owned by one thread.
    """

    def __init__(self, opened, layout: Layout, world_size: int, cursor: Mapping[str, Any]):
        """`cursor` is that of `opened`."""
        super().__init__(layout, cursor)
        self._unordered: bool = opened.unordered
        self._epochs: float = opened.epochs if opened.HasField("epochs") else math.inf
        # The cursor stands in the last epoch, where no whole batch is left.
        self._nothing_left = opened.batches_left_in_epoch == 0 and cursor["epoch"] + 1 >= self._epochs
        self._world_size = world_size
        self.low_water = 0
        self._ahead: Set[int] = set(cursor.get("completed", ()))
        self._epoch: int = cursor["epoch"]
        # Where the mark of the epoch's first batch of this stream stands.
        self._epoch_base = (0, cursor["consumed"])
        if self._ahead and not (self._unordered and max(self._ahead) < WINDOW and 0 not in self._ahead):
            raise ProtocolError("the service opened the stream with a cursor that contradicts itself")

    @property
    def is_complete(self) -> bool:
        """Whether all batches of the last epoch have come."""
        return bool(self._nothing_left and self.low_water == 0 or self.cursor["epoch"] >= self._epochs)

    def check(self, header) -> None:
        """Raises ProtocolError unless the batch may come now."""
        sequence, low = header.sequence, self.low_water
        if not self._unordered and sequence != low:
            raise ProtocolError(f"batch {low} was due, the service sent batch {sequence}")
        if not low <= sequence < low + WINDOW or sequence in self._ahead:
            raise ProtocolError(
                f"the service sent batch {sequence}, which came before or is not due until "
                f"batch {low} has come"
            )
        begun = bool(self._ahead) or low != self._epoch_base[0]
        if self._unordered and (header.epoch < self._epoch or begun and header.epoch != self._epoch):
            raise ProtocolError("the service sent a batch of another epoch than the one under way")
        self._check_header(header)

    def note(self, header) -> Dict[str, Any]:
        """Notes that the checked batch came whole; returns the cursor after it."""
        if header.epoch != self._epoch:  # the cursor stood at an epoch's end
            self._epoch = header.epoch
            self._epoch_base = (self.low_water, 0)
        self._ahead.add(header.sequence)
        while self.low_water in self._ahead:
            self._ahead.remove(self.low_water)
            self.low_water += 1
        if self._unordered:
            epoch, consumed = self._mark_behind(header)
        else:
            epoch, consumed = header.next_epoch, header.next_consumed
        cursor = {**self.cursor, "epoch": epoch, "consumed": consumed}
        cursor["substitutions"] = header.substitutions
        if header.code:
            cursor["code"] = with_code(cursor.get("code", ()), header.code)
        for name in UNORDERED_CURSOR_FIELDS:
            cursor.pop(name, None)
        if self._ahead:
            cursor["completed"] = sorted(number - self.low_water for number in self._ahead)
            cursor["batch_size"] = self._layout.batch_size
            cursor["world_size"] = self._world_size
        self.cursor = cursor
        return cursor

    def _mark_behind(self, header):
        """Epoch and position of the low-water mark.

        Counted rather than taken from headers: those of batches that came before the stream was
        lost are gone. All batches below the mark are full ones until the epoch is over.
        """
        if header.batches_left_in_epoch == 0:
            if self._ahead:
                raise ProtocolError("the service ended an epoch before all its batches had come")
            self._epoch += 1
            self._epoch_base = (self.low_water, 0)
        first, consumed = self._epoch_base
        step = self._layout.batch_size * self._world_size
        return self._epoch, consumed + (self.low_water - first) * step
