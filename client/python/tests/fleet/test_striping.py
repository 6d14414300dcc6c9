"""Which replica makes which batch: the shares, and a model checker of the exactly-once order."""

import copy
import random
from fractions import Fraction

import pytest

from bulkhead._fleet.shares import PROBE_SECONDS, Shares
from bulkhead._fleet.striping import Striping


def measured(*seconds):
    """Shares of replicas 0, 1, …, of which each takes so long for a batch."""
    shares = Shares()
    for replica in range(len(seconds)):
        shares.join(replica, 0.0)
    for replica, each in enumerate(seconds):
        shares.measured(replica, 100.0)  # of a first batch
        shares.measured(replica, each)
    return shares


def test_shares_follow_the_rates():
    assert measured(0.1, 0.3).of(8) == {0: pytest.approx(0.75), 1: pytest.approx(0.25)}


def test_a_replica_of_which_nothing_is_known_counts_as_an_average_one():
    shares = measured(0.2, 0.2)
    shares.join("new", 0.0)
    assert shares.of(8)["new"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("seed", range(20))
def test_each_count_stays_within_one_of_its_share_while_the_rates_change(seed):
    dice = random.Random(seed)
    replicas = dice.randint(2, 5)
    shares = measured(*[dice.uniform(0.5, 2.0) for _ in range(replicas)])
    due, given = [0.0] * replicas, [0] * replicas
    for _ in range(500):
        for replica, share in shares.of(64).items():
            due[replica] += share
        given[shares.choose(64, 0.0)] += 1
        assert all(abs(a - b) <= 1 + 1e-6 for a, b in zip(due, given))
        if dice.random() < 0.1:
            shares.measured(dice.randrange(replicas), dice.uniform(0.5, 2.0))


def test_with_two_replicas_every_window_is_within_one_of_the_shares():
    shares = measured(0.1, 0.23)
    share = shares.of(64)[0]
    chosen = [shares.choose(64, 0.0) for _ in range(300)]
    for start in range(0, 300, 7):
        for end in range(start, 300):
            assert abs(chosen[start:end].count(0) - share * (end - start)) <= 1 + 1e-6


def test_more_replicas_than_the_window_has_places_all_make_batches():
    assert measured(0.1, 0.1, 0.1).of(3) == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert sum(measured(*[0.1] * 9).of(3).values()) == pytest.approx(1.0)


# As in tests/client/striping_test.cc: both clients decide alike.
CHOICES = "010200102010021001020010201002010010201002100102001020100201"


def test_it_decides_as_the_other_client_does():
    shares = measured(0.1, 0.23, 0.31)
    assert "".join(str(shares.choose(64, 0.0)) for _ in range(60)) == CHOICES


def test_a_replica_too_slow_for_the_window_gets_one_batch_now_and_then():
    shares = measured(0.01, 1.0)
    assert {shares.choose(8, 1.0) for _ in range(50)} == {0}
    assert shares.choose(8, PROBE_SECONDS) == 1
    assert {shares.choose(8, PROBE_SECONDS + 1.0) for _ in range(50)} == {0}


def test_a_replica_that_stood_still_has_its_share_again_after_one_quick_batch():
    shares = measured(0.01, 0.01)
    shares.late(1, 3.0)
    shares.measured(1, 3.0)
    assert shares.of(8)[1] == 0.0
    assert shares.choose(8, PROBE_SECONDS) == 1
    shares.measured(1, 0.02)
    assert shares.of(8)[1] == pytest.approx(1 / 3)


def run(striping, replica, batch, now):
    """The replica makes that batch."""
    assert batch in {each for each in range(100) if replica in striping.makers(each)}
    return striping.arrived(replica, batch, now)


def striping_of(window, *replicas, total=None):
    striping = Striping(window, total)
    striping.join(replicas, 0.0)
    return striping


def test_the_window_is_asked_for_and_no_more():
    striping = striping_of(4, "a", "b")
    asked = striping.orders()
    assert sorted(asked["a"] + asked["b"]) == [0, 1, 2, 3] and len(asked["a"]) == 2
    assert striping.orders() == {}
    [maker] = striping.makers(0)
    run(striping, maker, 0, 0.1)
    assert striping.take(0.1) == 0
    assert sum(striping.orders().values(), []) == [4]


def test_the_last_batch_is_the_last():
    striping = striping_of(4, "a", total=2)
    assert striping.orders() == {"a": [0, 1]}
    for batch in range(2):
        run(striping, "a", batch, 0.1)
        striping.take(0.1)
    assert striping.finished and striping.orders() == {}


def test_what_a_replica_owed_is_asked_of_the_others_and_what_came_stays():
    striping = striping_of(6, "a", "b")
    asked = striping.orders()
    first, later = asked["a"][0], asked["a"][1:]
    run(striping, "a", first, 0.1)
    striping.leave("a", 0.2)
    assert striping.orders() == {"b": later}
    assert first not in later


def test_without_a_replica_nothing_is_lost():
    striping = striping_of(3, "a")
    striping.orders()
    run(striping, "a", 1, 0.1)
    striping.leave("a", 0.2)
    assert striping.orders() == {}
    striping.join(["b"], 0.3)
    assert striping.orders() == {"b": [0, 2]}


def test_nothing_is_asked_of_a_replica_that_is_gone_before_it_was_told():
    striping = striping_of(3, "a")
    striping.leave("a", 0.1)
    assert striping.orders() == {}


def test_after_another_quarantine_what_waits_is_made_again():
    striping = striping_of(3, "a")
    striping.orders()
    run(striping, "a", 0, 0.1)
    run(striping, "a", 1, 0.1)
    striping.take(0.1)
    striping.orders()
    striping.redo(0.2)
    assert striping.orders() == {"a": [1]} and not striping.has_head


def test_a_replica_that_keeps_the_head_waiting_is_helped_and_gets_no_new_batches():
    striping = striping_of(6, "a", "b")
    now = 0.0
    for _ in range(20):  # both take 0.1 s
        now += 0.05
        [maker] = striping.makers(striping.head)
        run(striping, maker, striping.head, now)
        striping.take(now)
    striping.orders()
    [slow] = striping.makers(striping.head)
    [quick] = {"a", "b"} - {slow}
    owed = [batch for batch in range(100) if slow in striping.makers(batch)]
    due = striping.late_at()
    striping.tick(due - 0.01)
    assert striping.orders() == {}
    striping.tick(due)
    assert striping.orders() == {quick: owed}
    assert striping.shares()[slow] == 0.0
    gone = copy.deepcopy(striping)
    gone.leave(slow, due)
    assert gone.orders() == {}, "the others make them already"
    assert run(striping, quick, owed[0], due + 0.1)
    striping.take(due + 0.1)
    assert slow not in striping.orders()
    assert not striping.arrived(slow, owed[0], due + 0.2), "the second copy does not count"
    assert striping.shares()[slow] > 0.0, "it works again"


# The model checker.


class World:
    """A stream of `total` batches, replicas that make what they are asked for, and a trainer.

    A replica makes the batch with the lowest number first; what it has sent arrives in that order. It
    may die or be dismissed at any moment, with what it has sent and what it has not. Every state
    that some order of events leads to is visited once.
    """

    TOTAL, WINDOW = 4, 3

    def __init__(self):
        self.striping = Striping(self.WINDOW, self.TOTAL)
        self.asked = {}  # by replica: batches, not sent yet
        self.sent = {}  # by replica: on their way
        self.taken = []
        self.deaths = self.joins = self.redone = self.late = 0

    def now(self):
        return 1e3 * self.late

    def carry_orders(self):
        for replica, batches in self.striping.orders().items():
            assert replica in self.asked, "nothing is asked of one that is gone"
            assert batches == sorted(batches)
            self.asked[replica] = tuple(sorted({*self.asked[replica], *batches}))

    def key(self):
        s = self.striping
        return (
            s.head,
            s._end,
            tuple(s._free),
            frozenset(s._here),
            tuple(sorted((r, frozenset(m.asked), s._shares.is_late(r), Fraction(s._shares._known[r].owed).limit_denominator(1000)) for r, m in s._members.items())),
            tuple(sorted(self.asked.items())),
            tuple(sorted(self.sent.items())),
            self.deaths,
            self.joins,
            self.redone,
            self.late,
        )

    def events(self, limits):
        deaths, joins, redone, late = limits
        events = []
        for replica in self.asked:
            if self.asked[replica]:
                events.append(("send", replica))
            if self.sent[replica]:
                events.append(("arrive", replica))
            if self.deaths < deaths:
                events.append(("die", replica))
        if self.joins < joins:
            events.append(("join", self.joins))
        if self.striping.has_head:
            events.append(("take", None))
        if self.redone < redone and self.asked:
            events.append(("redo", None))
        if self.late < late:
            events.append(("late", None))
        return events

    def do(self, event, replica):
        s = self.striping
        if event == "send":
            first, *rest = self.asked[replica]
            self.asked[replica] = tuple(rest)
            self.sent[replica] += (first,)
        elif event == "arrive":
            first, *rest = self.sent[replica]
            self.sent[replica] = tuple(rest)
            s.arrived(replica, first, self.now())
        elif event == "die":
            self.deaths += 1
            del self.asked[replica], self.sent[replica]
            s.leave(replica, self.now())
        elif event == "join":
            self.joins += 1
            self.asked[replica], self.sent[replica] = (), ()
            s.join([replica], self.now())
        elif event == "take":
            self.taken.append(s.take(self.now()))
        elif event == "redo":
            self.redone += 1
            s.redo(self.now())
        else:
            self.late += 1
            s._recent.extend([0.0] * 10)
            s.tick(self.now())
            s._recent.clear()
        self.carry_orders()
        self.check()

    def check(self):
        s = self.striping
        assert self.taken == list(range(len(self.taken))), "each once, in order"
        assert len(self.taken) == s.head
        for batch in range(s.head, min(s.head + self.WINDOW, self.TOTAL)):
            makers = [each for each in self.asked if batch in self.asked[each] + self.sent[each]]
            if batch not in s._here and self.asked:
                assert set(s.makers(batch)) <= set(makers) and s.makers(batch), f"nobody makes batch {batch}"
            assert batch < s._end or not self.asked
        waiting = sum(len(each) for each in (s._here, s._free)) + len({b for m in s._members.values() for b in m.asked})
        assert waiting <= self.WINDOW, "the window bounds what is in memory"


def explore(limits):
    """Visits every state; returns their number, and how many of them are ends."""
    start = World()
    start.do("join", 0)
    seen, todo, finished = {start.key()}, [start], 0
    while todo:
        world = todo.pop()
        events = world.events(limits)
        if world.striping.finished:
            finished += 1
        elif world.asked:
            assert any(kind in ("send", "arrive", "take") for kind, _ in events), "it stands still"
        for event in events:
            following = copy.deepcopy(world)
            following.do(*event)
            key = following.key()
            if key not in seen:
                seen.add(key)
                todo.append(following)
    return len(seen), finished


@pytest.mark.parametrize(
    "limits",
    [(0, 2, 0, 0), (1, 2, 0, 0), (2, 3, 0, 0), (0, 2, 1, 1), (1, 2, 0, 1)],
    ids=lambda limits: "deaths{} joins{} redo{} late{}".format(*limits).replace(" ", "-"),
)
def test_model(limits):
    states, finished = explore(limits)
    assert states > 50 and finished > 0
