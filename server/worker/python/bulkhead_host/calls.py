"""The functions that the worker calls: one loads a stage, one runs it."""

from __future__ import annotations

import faulthandler
import gc
import json
import signal
import sys

from bulkhead_host import notes
from bulkhead_host.functions import describe
from bulkhead_host.memory import put_text
from bulkhead_host.sample_random import Generators
from bulkhead_host.stage import Stage
from bulkhead_host.verdict import FAILED, LOAD_FAILED, LOAD_OUT_OF_MEMORY, OUT_OF_MEMORY, Refusal


class Calls:
    """The stages of one worker, by number."""

    def __init__(self, growth=None):
        """`growth`: a Growth, which looks at what calls leave allocated; None: nobody does."""
        self._stages: list[Stage] = []
        self._growth = growth
        self._generators: Generators | None = None  # made once NumPy is loaded

    def load(self, stage: bytes, inputs: bytes, error: int, error_bytes: int) -> int:
        """Returns the stage's number + 1, or a verdict below 0 and writes the reason to `error`."""
        try:
            try:
                import numpy
                import numpy.random
            except ImportError as missing:
                raise Refusal(
                    f"{sys.executable} cannot import NumPy ({missing}); install it there, or name another interpreter "
                    "with --python",
                ) from None
            if self._generators is None:
                self._generators = Generators(numpy)
            texts = inputs.decode().split(",") if inputs else []
            spec = json.loads(stage)
            notes.now_runs(spec["function"])
            self._stages.append(Stage(numpy, self._generators, spec, texts))
            if self._growth is not None:
                self._growth.add_stage(self._stages[-1].name, self._stages[-1].function)
            # Objects made by imports stay: collections need not examine them every time.
            gc.collect()
            gc.freeze()
            return len(self._stages)
        except MemoryError:
            return LOAD_OUT_OF_MEMORY
        except Refusal as refusal:
            put_text(str(refusal), error, error_bytes)
        except BaseException as unforeseen:
            put_text(describe(unforeseen), error, error_bytes)
        return LOAD_FAILED

    def call(self, number: int, words: int, error: int, error_bytes: int) -> int:
        """Returns a verdict; `words` are Stage.run's. Writes the reason to `error`."""
        try:
            try:
                stage = self._stages[number]
                notes.now_runs(stage.name)
                verdict = stage.run(words)
                if self._growth is not None:
                    self._growth.after_call()
                return verdict
            except MemoryError:
                raise
            except Refusal as refusal:
                verdict, text = refusal.verdict, str(refusal)
            except BaseException as raised:
                verdict, text = FAILED, describe(raised)
            put_text(text, error, error_bytes)
            return verdict
        except MemoryError:
            return OUT_OF_MEMORY

    def write_stacks_to(self, fd: int) -> int:
        """From now on SIGQUIT writes the stacks of all threads to `fd`, even while one holds the lock for ever."""
        try:
            faulthandler.register(signal.SIGQUIT, file=fd, all_threads=True)
        except BaseException:
            return 0
        return 1

    def addresses(self, number: int) -> list[int]:
        """Which words of a call of this stage are addresses."""
        return self._stages[number].addresses
