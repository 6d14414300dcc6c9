"""The results of a call: PythonHost::Verdict."""

from __future__ import annotations

# Not 0, which a call with an uncaught exception returns.
FAILED, WRONG_SHAPE, OVER_BOUND, UNUSABLE, OUT_OF_MEMORY, OK = 1, 2, 3, 4, 5, 100
LOAD_FAILED, LOAD_OUT_OF_MEMORY = -1, -2
MAX_TEXT = 3000  # bytes


class Refusal(Exception):
    """A verdict with its text."""

    def __init__(self, text: str, verdict: int = UNUSABLE):
        super().__init__(text)
        self.verdict = verdict
