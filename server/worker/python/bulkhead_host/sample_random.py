"""Random numbers: seeds every generator that a function may use from the sample's key."""

from __future__ import annotations

import random


class SampleRandom(random.Random):
    """The generator behind the functions of `random`, seeded on its first use in a sample.

    Most functions do not use it, and seeding takes longer than most functions do.
    """

    _key = 0
    _stale = False

    def renew(self, key: int) -> None:
        self._key = key
        self._stale = True
        self.gauss_next = None

    def _fresh(self) -> None:
        if self._stale:
            self._stale = False
            super().seed(self._key)

    def seed(self, *args, **kwargs):
        self._stale = False
        return super().seed(*args, **kwargs)

    def random(self):
        if self._stale:
            self._fresh()
        return super().random()

    def getrandbits(self, k):
        if self._stale:
            self._fresh()
        return super().getrandbits(k)

    def getstate(self):
        self._fresh()
        return super().getstate()

    def setstate(self, state):
        self._stale = False
        return super().setstate(state)


def _install_random() -> SampleRandom:
    """Makes `random.random`, `random.shuffle` and the others use a SampleRandom."""
    old = random._inst
    new = SampleRandom()
    for name, value in list(vars(random).items()):
        if getattr(value, "__self__", None) is old:
            setattr(random, name, getattr(new, name))
    random._inst = new
    return new


class Generators:
    """Every generator that a function may use. All stages share them, because one runs at a time."""

    def __init__(self, numpy):
        self._legacy = _install_random()
        self._seed_numpy = numpy.random.seed
        self._philox = numpy.random.Philox(0)
        # Setting a state takes a tenth of the time of making a generator.
        self._state = self._philox.state
        self._state["state"]["counter"][:] = 0
        self._key = self._state["state"]["key"]
        self.rng = numpy.random.Generator(self._philox)

    def renew_rng(self, low: int, high: int) -> None:
        key = self._key
        key[0] = low
        key[1] = high
        self._philox.state = self._state

    def renew_legacy(self, word: int) -> None:
        self._legacy.renew(word)
        self._seed_numpy(word & 0xFFFFFFFF)
