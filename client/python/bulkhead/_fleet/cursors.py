"""The cursors of a stream whose batches come from several replicas."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping

from .._batch.batch import copy_cursor, with_code
from .._batch.order import MOST_QUARANTINED
from ..errors import CodeChanged, DataError, ResourceExhausted


class Cursors:
    """The cursor after each batch, as one service would have given it.

    A replica knows only the substitutions of its own batches, so they are added up here, and
    errors.max_fraction is enforced here. The quarantine set is that of all replicas together.
    """

    def __init__(self, cursor: Mapping[str, Any], max_substitutions: int):
        """`cursor`: before the first batch. `max_substitutions`: that an epoch may have."""
        self.cursor: Dict[str, Any] = copy_cursor(cursor)  # after the last batch that was handed out
        self._most = max_substitutions
        self._counted = cursor["substitutions"]
        self._epoch = cursor["epoch"]

    @property
    def quarantined(self) -> List[str]:
        return list(self.cursor["quarantined"])

    def quarantine(self, records: Iterable[str]) -> None:
        """Records that are left out from the next batch on. ResourceExhausted when they are too many."""
        union = sorted({*self.cursor["quarantined"], *records})
        if len(union) > MOST_QUARANTINED:
            raise ResourceExhausted(
                f"the replicas together have {len(union)} records in quarantine, and a cursor holds {MOST_QUARANTINED}",
                "QUARANTINE_FULL",
                code="RESOURCE_EXHAUSTED",
            )
        self.cursor = {**self.cursor, "quarantined": union}

    def note_code(self, files: Iterable[Any], target: str) -> None:
        """A replica has loaded these files. CodeChanged when another replica has others of these names."""
        known = {file["name"]: file["digest"] for file in self.cursor.get("code", ())}
        for file in files:
            if known.get(file.name, file.digest) != file.digest:
                raise CodeChanged(
                    f"the replica at {target} has loaded another content of {file.name} than the replicas before it; "
                    "give all replicas the same code",
                    metadata={"file": file.name, "target": target},
                    code="FAILED_PRECONDITION",
                )
        if files:
            self.cursor = {**self.cursor, "code": with_code(self.cursor.get("code", ()), files)}

    def after(self, header: Any) -> Dict[str, Any]:
        """The cursor after the next batch. DataError when its epoch has too many substitutions."""
        counted = header.substituted + (self._counted if header.epoch == self._epoch else 0)
        if counted > self._most:
            raise DataError(
                f"epoch {header.epoch} needed {counted} substitutions on this rank, errors.max_fraction allows "
                f"{self._most}; the loader's `substitutions` has them",
                "TOO_MANY_SUBSTITUTIONS",
                code="DATA_LOSS",
            )
        self._epoch, self._counted = header.epoch, counted
        self.cursor = {
            **self.cursor,
            "epoch": header.next_epoch,
            "consumed": header.next_consumed,
            "substitutions": 0 if header.next_epoch != header.epoch else counted,
        }
        return self.cursor
