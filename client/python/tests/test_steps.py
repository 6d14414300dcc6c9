import pytest
from bulkhead import InvalidArgument
from bulkhead._adapters.steps import Steps


def cursor(place):
    return {"consumed": place, "quarantined": []}


def place_of(steps):
    return steps.state()["consumed"]


def test_the_state_is_that_of_the_last_step_not_of_what_was_fetched():
    steps = Steps(cursor(0))
    steps.count()
    for place in (1, 2, 3):
        steps.fetched(cursor(place))
    steps.taken(2)
    assert place_of(steps) == 2 and steps.dropped
    steps.taken(5)  # more than was fetched
    assert place_of(steps) == 3 and not steps.dropped


def test_without_anybody_who_tells_the_state_is_known_only_before_the_first_batch():
    steps = Steps(cursor(0))
    assert place_of(steps) == 0
    steps.fetched(cursor(1))
    with pytest.raises(InvalidArgument, match="callback"):
        steps.state()
    steps.count()
    assert place_of(steps) == 1
    steps.fetched(cursor(2))
    assert place_of(steps) == 1


def test_a_restart_forgets_what_was_fetched():
    steps = Steps(cursor(0))
    steps.fetched(cursor(1))
    steps.restart(cursor(7))
    assert place_of(steps) == 7
    steps.count()
    steps.fetched(cursor(8))
    steps.restart(cursor(5))
    steps.taken(1)
    assert place_of(steps) == 5 and not steps.dropped


def test_cursors_do_not_pile_up_when_nobody_tells_any_more():
    steps = Steps(cursor(0))
    steps.count()
    for place in range(1, 10000):
        steps.fetched(cursor(place))
    assert not steps.dropped
    with pytest.raises(InvalidArgument, match="callback"):
        steps.state()
