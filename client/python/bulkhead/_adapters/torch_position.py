"""Where a bulkhead.torch.DataLoader is, and the state that a checkpoint keeps of it."""

from __future__ import annotations

import copy
import json
from typing import Any, Dict, Mapping, NamedTuple, Optional

from .. import errors as _errors
from .._batch.batch import cursor_from_dict
from .._dataset.worker.bulkhead_leaves import Layout

_VERSION = 1
_NAMES = ("begun", "cursor", "epoch", "first_epoch", "layout", "list", "seed", "standings")  # of one that is not at the start


class Position(NamedTuple):
    seed: int
    epoch: int = -1  # of the last loop that began
    # The epoch that is number 0 of the stream, which begins anew when the length of the sampler's lists changes.
    first_epoch: int = 0
    size: int = 0  # samples of an epoch, or batches where a worker makes them whole
    layout: Optional[Layout] = None
    list_digest: str = ""
    cursor: Optional[Dict[str, Any]] = None  # after the last batch that a loop got

    def has_ended(self) -> bool:
        """Whether a loop got all of the epoch."""
        return self.cursor is not None and self.cursor["epoch"] > self.epoch - self.first_epoch

    def state(self, standings: Any) -> Dict[str, Any]:
        """Ready for JSON. `standings`: of the samplers, when the epoch began."""
        if self.cursor is None or self.layout is None:
            return {"bulkhead": _VERSION, "epoch": 0}
        return {
            "bulkhead": _VERSION,
            "epoch": self.epoch + self.has_ended(),
            "begun": self.epoch,
            "first_epoch": self.first_epoch,
            "seed": self.seed,
            "layout": json.dumps(list(self.layout)),
            "list": self.list_digest,
            "standings": copy.deepcopy(standings),
            "cursor": dict(self.cursor),
        }

    @staticmethod
    def of_state(state: Mapping[str, Any]) -> Position:
        """Of one that is not at the start."""
        layout = Layout(*json.loads(state["layout"]))
        return Position(state["seed"], state["begun"], state["first_epoch"], 0, layout, "", state["cursor"])


def check_state(state: Mapping[str, Any]) -> bool:
    """Whether `state` is not that of the start. InvalidArgument if it is none."""
    known = isinstance(state, Mapping) and state.get("bulkhead") == _VERSION
    if not known or "cursor" in state and not all(name in state for name in _NAMES):
        raise _errors.InvalidArgument("this is not a state that bulkhead.torch.DataLoader.state_dict() gave")
    if "cursor" not in state:
        return False
    cursor_from_dict(state["cursor"])  # for its errors
    return True
