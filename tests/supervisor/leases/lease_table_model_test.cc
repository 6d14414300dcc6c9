// Goes through everything that can happen to a small LeaseTable, breadth first: every order in
// which batches begin, leases are given, written, reported and lost, workers are killed, written
// off and reaped, and slots come back. What is unbounded in the real thing is bounded here: 3
// slots, 2 workers, 3 batches of 2 leases, 2 leases in a worker's hands, 2 batches that are
// promised from outside, 1 message of a reaped worker, one bad sample; the number of deaths is not.
// The two largest of these spaces take minutes: without BULKHEAD_EXTENDED they have one batch or
// slot less (scripts/extended.sh slow).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tests/supervisor/leases/lease_table_world.h"

namespace bulkhead {
namespace {

// Everything reachable from one beginning, or the shortest way to a broken promise.
class StateSpace {
 public:
  explicit StateSpace(LeaseTableWorld start) {
    Add(start, -1, {Event::Kind::kBegin});
    frontier_.emplace_back(0, std::move(start));
    while (!frontier_.empty() && broken_.empty()) {
      Expand(frontier_.front().first, frontier_.front().second);
      frontier_.pop_front();
    }
  }

  size_t states() const { return facts_.size(); }
  size_t steps() const { return edges_.size(); }
  // Empty, or the broken promise and what led to it.
  const std::string& broken() const { return broken_; }

  // The states that cannot come to an end when only the `allowed` events happen and killed workers
  // do nothing more; with `one_alive`
  // those without a living worker are not asked.
  template <typename Allowed>
  std::vector<size_t> Stuck(Allowed allowed, bool one_alive) const {
    std::vector<std::vector<size_t>> before(facts_.size());
    for (const Edge& edge : edges_) {
      if (!edge.needs_the_dead && allowed(edge.event)) before[edge.to].push_back(edge.from);
    }
    std::vector<bool> ends(facts_.size());
    std::vector<size_t> todo;
    for (size_t state = 0; state < facts_.size(); ++state) {
      if (!facts_[state].over) continue;
      ends[state] = true;
      todo.push_back(state);
    }
    while (!todo.empty()) {
      const size_t state = todo.back();
      todo.pop_back();
      for (const size_t earlier : before[state]) {
        if (ends[earlier]) continue;
        ends[earlier] = true;
        todo.push_back(earlier);
      }
    }
    std::vector<size_t> stuck;
    for (size_t state = 0; state < facts_.size(); ++state) {
      if (!ends[state] && (!one_alive || facts_[state].worker_alive)) stuck.push_back(state);
    }
    return stuck;
  }

  // The shortest way to `state`, an event a line.
  std::string Way(size_t state) const {
    std::string way;
    for (; facts_[state].parent >= 0; state = static_cast<size_t>(facts_[state].parent)) {
      way = "  " + facts_[state].event.Text() + "\n" + way;
    }
    return way;
  }

 private:
  struct Facts {
    int64_t parent;
    Event event;  // that led here first
    bool over;    // everything is delivered, or the stream ended with an error
    bool worker_alive;
  };
  struct Edge {
    uint32_t from;
    uint32_t to;
    Event::Kind event;
    bool needs_the_dead;
  };

  std::pair<size_t, bool> Add(const LeaseTableWorld& world, int64_t parent, const Event& event) {
    const auto [found, is_new] = ids_.try_emplace(world.Key(), facts_.size());
    if (is_new) {
      facts_.push_back(
          {parent, event, world.complete() || world.failed(), world.any_worker_alive()});
    }
    return {found->second, is_new};
  }

  void Expand(size_t from, const LeaseTableWorld& world) {
    for (const Event& event : world.Enabled()) {
      LeaseTableWorld next = world;
      std::string broken = next.Apply(event);
      if (broken.empty()) broken = next.Check();
      if (!broken.empty()) {
        broken_ = broken + "\n" + Way(from) + "  " + event.Text() + "\n";
        return;
      }
      const auto [to, is_new] = Add(next, static_cast<int64_t>(from), event);
      edges_.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(to), event.kind,
                        world.NeedsTheDead(event)});
      if (is_new) frontier_.emplace_back(to, std::move(next));
    }
  }

  std::deque<std::pair<size_t, LeaseTableWorld>> frontier_;
  absl::flat_hash_map<std::string, size_t> ids_;
  std::vector<Facts> facts_;
  std::vector<Edge> edges_;
  std::string broken_;
};

// Everybody does their part, and a killed worker is reaped.
bool IsOrderly(Event::Kind kind) {
  return kind != Event::Kind::kKill && kind != Event::Kind::kGiveUp &&
         kind != Event::Kind::kWriteOff;
}

// The same, but no killed worker is ever reaped.
bool IsOrderlyWithoutReaping(Event::Kind kind) {
  return kind != Event::Kind::kKill && kind != Event::Kind::kGiveUp && kind != Event::Kind::kReap;
}

// Everybody does their part, and every promised batch comes; or none does that is not copied yet.
bool IsOrderlyWithPromisesKept(Event::Kind kind) {
  return IsOrderly(kind) && kind != Event::Kind::kGiveBack;
}
bool IsOrderlyWithPromisesBroken(Event::Kind kind) {
  return IsOrderly(kind) && kind != Event::Kind::kCopy && kind != Event::Kind::kBeginBrought;
}

void ExpectNothingBroken(uint32_t slots, uint64_t batches,
                         const LeaseTableWorld::Options& options = {}) {
  const StateSpace space(LeaseTableWorld(slots, batches, Misuse::kNone, options));
  std::printf("%u slots, %d batches: %zu states, %zu steps\n", slots, static_cast<int>(batches),
              space.states(), space.steps());
  ASSERT_EQ(space.broken(), "");
  const auto stuck = space.Stuck(IsOrderly, /*one_alive=*/false);
  EXPECT_TRUE(stuck.empty()) << stuck.size() << " states cannot deliver, one after\n"
                             << space.Way(stuck.empty() ? 0 : stuck.front());
  const auto stalled = space.Stuck(IsOrderlyWithoutReaping, /*one_alive=*/true);
  EXPECT_TRUE(stalled.empty()) << stalled.size()
                               << " states wait for a worker that never ends, one after\n"
                               << space.Way(stalled.empty() ? 0 : stalled.front());
  if (!options.brought) return;
  for (const auto allowed : {IsOrderlyWithPromisesKept, IsOrderlyWithPromisesBroken}) {
    const auto waiting = space.Stuck(allowed, /*one_alive=*/false);
    EXPECT_TRUE(waiting.empty()) << waiting.size() << " states wait for a batch, one after\n"
                                 << space.Way(waiting.empty() ? 0 : waiting.front());
  }
}

bool IsExtended() { return std::getenv("BULKHEAD_EXTENDED") != nullptr; }

TEST(LeaseTableModelTest, KeepsItsPromisesWithThreeSlots) {
  ExpectNothingBroken(3, IsExtended() ? 3 : 2);
}

TEST(LeaseTableModelTest, KeepsItsPromisesWithTwoSlots) { ExpectNothingBroken(2, 3); }

TEST(LeaseTableModelTest, KeepsItsPromisesWithoutOrder) {
  // Two batches at once are what overtakes; a third makes a million states of the same kinds.
  ExpectNothingBroken(IsExtended() ? 3 : 2, 2, {.ordered = false});
}

TEST(LeaseTableModelTest, KeepsItsPromisesWhenWhatIsNotDeliveredIsDoneAnew) {
  ExpectNothingBroken(IsExtended() ? 3 : 2, 2, {.redo = true});
}

TEST(LeaseTableModelTest, KeepsItsPromisesWhenLeasesAreSplit) {
  ExpectNothingBroken(IsExtended() ? 3 : 2, 2, {.redo = true, .split = true});
}

TEST(LeaseTableModelTest, KeepsItsPromisesWhenBatchesAreBrought) {
  ExpectNothingBroken(IsExtended() ? 3 : 2, 2, {.redo = true, .brought = true});
}

TEST(LeaseTableModelTest, KeepsItsPromisesWhenBatchesAreBroughtWithoutOrder) {
  // With two slots there is one batch at a time.
  ExpectNothingBroken(3, 2, {.ordered = false, .redo = IsExtended(), .brought = true});
}

TEST(LeaseTableModelTest, FindsASupervisorThatTakesAKilledWorkerForGone) {
  const StateSpace space(LeaseTableWorld(3, 3, Misuse::kReapAtKill));
  EXPECT_NE(space.broken().find("was given away while a worker may write"), std::string::npos)
      << space.broken();
}

TEST(LeaseTableModelTest, FindsASupervisorThatTakesAnyMessageForTheHolders) {
  const StateSpace space(LeaseTableWorld(3, 3, Misuse::kTrustAnyMessage));
  EXPECT_NE(space.broken(), "");
}

TEST(LeaseTableModelTest, FindsABatchThatIsGivenBackWhileItIsCopied) {
  const StateSpace space(LeaseTableWorld(3, 2, Misuse::kGiveBackInCopy, {.brought = true}));
  EXPECT_NE(space.broken().find("was given away while a batch may be copied"), std::string::npos)
      << space.broken();
}

TEST(LeaseTableModelTest, FindsASupervisorThatForgetsADeath) {
  const StateSpace space(LeaseTableWorld(3, 3, Misuse::kForgetReap));
  EXPECT_NE(space.broken().find("held by a worker that knows nothing of it"), std::string::npos)
      << space.broken();
}

}  // namespace
}  // namespace bulkhead
