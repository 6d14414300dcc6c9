"""The checker must see every kind of damage: a chaos run is worth what its checker notices."""

import copy
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from history import HistoryError, check  # noqa: E402

UNDISTURBED = [
    {"epoch": number // 4, "first": number % 4 * 8, "valid": 8, "digest": f"{number:016x}"}
    for number in range(10)
]


def test_an_equal_history_passes():
    check(copy.deepcopy(UNDISTURBED), UNDISTURBED)


@pytest.mark.parametrize(
    "damage",
    [
        lambda history: history.pop(3),  # lost
        lambda history: history.insert(3, history[3]),  # repeated
        lambda history: history.reverse(),
        lambda history: history[4].update(digest="0"),
        lambda history: history[4].update(valid=7),
        lambda history: history[9].update(epoch=9),
        lambda history: history.pop(),  # the end
    ],
    ids=["lost", "repeated", "reordered", "changed", "shortened", "epoch", "cut"],
)
def test_damage_is_seen(damage):
    history = copy.deepcopy(UNDISTURBED)
    damage(history)
    with pytest.raises(HistoryError):
        check(history, UNDISTURBED)
