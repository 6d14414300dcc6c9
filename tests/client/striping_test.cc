#include "client/cpp/internal/fleet/striping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace bulkhead::client_internal {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kStart = absl::ZeroDuration();

// Replicas 0, 1, …, of which each takes so long for a batch.
Shares Measured(const std::vector<double>& seconds) {
  Shares shares;
  for (size_t i = 0; i < seconds.size(); ++i) shares.Join(i, kStart);
  for (size_t i = 0; i < seconds.size(); ++i) {
    shares.Measured(i, absl::Seconds(100));  // of a first batch
    shares.Measured(i, absl::Seconds(seconds[i]));
  }
  return shares;
}

Shares::Replica Choose(Shares& shares, uint64_t window, absl::Duration now = kStart) {
  return shares.Choose(window, now, /*probe=*/true);
}

TEST(SharesTest, FollowTheRates) {
  const auto shares = Measured({0.1, 0.3}).Of(8);
  EXPECT_NEAR(shares.at(0), 0.75, 1e-9);
  EXPECT_NEAR(shares.at(1), 0.25, 1e-9);
}

TEST(SharesTest, EachCountStaysWithinOneOfItsShareWhileTheRatesChange) {
  for (int seed = 0; seed < 50; ++seed) {
    std::mt19937 dice(seed);
    std::uniform_real_distribution<double> seconds(0.5, 2);
    const size_t count = 2 + dice() % 4;
    std::vector<double> rates(count);
    for (double& rate : rates) rate = seconds(dice);
    Shares shares = Measured(rates);
    std::vector<double> due(count);
    std::vector<double> given(count);
    for (int i = 0; i < 500; ++i) {
      for (const auto& [replica, share] : shares.Of(64)) due[replica] += share;
      ++given[Choose(shares, 64)];
      for (size_t r = 0; r < count; ++r) ASSERT_NEAR(due[r], given[r], 1 + 1e-6) << "seed " << seed;
      if (dice() % 10 == 0) shares.Measured(dice() % count, absl::Seconds(seconds(dice)));
    }
  }
}

// As in client/python/tests/fleet/test_striping.py: both clients decide alike.
TEST(SharesTest, DecidesAsTheOtherClientDoes) {
  Shares shares = Measured({0.1, 0.23, 0.31});
  std::string choices;
  for (int i = 0; i < 60; ++i) absl::StrAppend(&choices, Choose(shares, 64));
  EXPECT_EQ(choices, "010200102010021001020010201002010010201002100102001020100201");
}

TEST(SharesTest, AReplicaTooSlowForTheWindowGetsOneBatchNowAndThen) {
  Shares shares = Measured({0.01, 1});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Choose(shares, 8, absl::Seconds(1)), 0u);
  EXPECT_EQ(Choose(shares, 8, Shares::kProbe), 1u);
  EXPECT_EQ(Choose(shares, 8, Shares::kProbe + absl::Seconds(1)), 0u);
}

TEST(SharesTest, AReplicaThatStoodStillHasItsShareAgainAfterOneQuickBatch) {
  Shares shares = Measured({0.01, 0.01});
  shares.Late(1, absl::Seconds(3));
  shares.Measured(1, absl::Seconds(3));
  EXPECT_EQ(shares.Of(8).at(1), 0);
  EXPECT_EQ(Choose(shares, 8, Shares::kProbe), 1u);
  shares.Measured(1, absl::Seconds(0.02));
  EXPECT_NEAR(shares.Of(8).at(1), 1.0 / 3, 1e-9);
}

TEST(SharesTest, MoreReplicasThanTheWindowHasPlacesAllMakeBatches) {
  for (const auto& [replica, share] : Measured({0.1, 0.1, 0.1}).Of(3)) {
    EXPECT_NEAR(share, 1.0 / 3, 1e-9);
  }
}

TEST(StripingTest, TheWindowIsAskedForAndNoMore) {
  Striping striping(4);
  striping.Join({0, 1}, kStart);
  auto orders = striping.TakeOrders();
  EXPECT_EQ(orders.at(0).size(), 2u);
  EXPECT_EQ(orders.at(1).size(), 2u);
  EXPECT_TRUE(striping.TakeOrders().empty());
  EXPECT_TRUE(striping.Arrived(striping.Makers(0).front(), 0, absl::Seconds(1)));
  EXPECT_EQ(striping.Take(absl::Seconds(1)), 0u);
  orders = striping.TakeOrders();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_THAT(orders.begin()->second, ElementsAre(4));
}

TEST(StripingTest, WhatAReplicaOwedIsAskedOfOthersAndWhatCameStays) {
  Striping striping(6);
  striping.Join({0, 1}, kStart);
  std::set<uint64_t> owed = striping.TakeOrders().at(0);
  const uint64_t first = *owed.begin();
  striping.Arrived(0, first, absl::Seconds(1));
  owed.erase(first);
  striping.Leave(0, absl::Seconds(1));
  const auto orders = striping.TakeOrders();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders.at(1), owed);
}

TEST(StripingTest, WithoutAReplicaNothingIsLost) {
  Striping striping(3);
  striping.Join({0}, kStart);
  striping.Arrived(0, 1, kStart);
  striping.Leave(0, kStart);
  striping.TakeOrders();
  striping.Join({1}, kStart);
  EXPECT_THAT(striping.TakeOrders().at(1), ElementsAre(0, 2));
}

TEST(StripingTest, TheLastBatchIsTheLast) {
  Striping striping(4);
  striping.SetTotal(2);
  striping.Join({0}, kStart);
  EXPECT_THAT(striping.TakeOrders().at(0), ElementsAre(0, 1));
  for (uint64_t batch = 0; batch < 2; ++batch) {
    striping.Arrived(0, batch, kStart);
    striping.Take(kStart);
  }
  EXPECT_TRUE(striping.finished());
  EXPECT_TRUE(striping.TakeOrders().empty());
}

TEST(StripingTest, AReplicaThatKeepsTheHeadWaitingIsHelpedAndGetsNoNewBatches) {
  Striping striping(6);
  striping.Join({0, 1}, kStart);
  absl::Duration now;
  for (int i = 0; i < 20; ++i) {
    now += absl::Milliseconds(50);
    striping.Arrived(striping.Makers(striping.head()).front(), striping.head(), now);
    striping.Take(now);
  }
  striping.TakeOrders();
  const Striping::Replica slow = striping.Makers(striping.head()).front();
  const absl::Duration late = striping.LateAt().value();
  striping.Tick(late - absl::Milliseconds(10));
  EXPECT_TRUE(striping.TakeOrders().empty());
  striping.Tick(late);
  const auto orders = striping.TakeOrders();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_NE(orders.begin()->first, slow);
  EXPECT_EQ(*orders.begin()->second.begin(), striping.head());
  EXPECT_EQ(striping.shares().at(slow), 0);
  const uint64_t head = striping.head();
  EXPECT_TRUE(striping.Arrived(1 - slow, head, late));
  EXPECT_FALSE(striping.Arrived(slow, head, late)) << "the second copy does not count";
  EXPECT_GT(striping.shares().at(slow), 0) << "it works again";
}

}  // namespace

// What the model checker sees of a Striping.
class StripingInspector {
 public:
  static std::string Key(const Striping& striping) {
    std::string key = absl::StrCat(striping.head_, "|", striping.end_, "|");
    for (const uint64_t batch : striping.free_) absl::StrAppend(&key, batch, ",");
    absl::StrAppend(&key, "|");
    for (const uint64_t batch : striping.here_) absl::StrAppend(&key, batch, ",");
    for (const auto& [replica, member] : striping.members_) {
      absl::StrAppend(&key, "|", replica, striping.shares_.is_late(replica) ? "late" : "", ":");
      for (const uint64_t batch : member.asked) absl::StrAppend(&key, batch, ",");
    }
    for (const auto& [replica, share] : striping.shares()) absl::StrAppend(&key, "|", share);
    return key;
  }
  static bool IsHere(const Striping& striping, uint64_t batch) {
    return striping.here_.count(batch) > 0;
  }
  // The next Tick finds the head late.
  static void MakeLate(Striping& striping) { striping.recent_.assign(10, absl::ZeroDuration()); }
  static void Forget(Striping& striping) { striping.recent_.clear(); }
};

namespace {

constexpr uint64_t kTotal = 4;
constexpr uint64_t kWindow = 3;

// How often each of these may happen.
struct Limits {
  int deaths = 0;
  int joins = 1;
  int redone = 0;
  int late = 0;
};

// A stream, replicas that make what they are asked for, the lowest number first, and a trainer. A
// replica may die at any moment, with what it has sent and what it has not.
struct World {
  Striping striping{kWindow};
  std::map<Striping::Replica, std::set<uint64_t>> asked;   // not sent yet
  std::map<Striping::Replica, std::deque<uint64_t>> sent;  // on their way
  Limits done{0, 0, 0, 0};
  uint64_t taken = 0;

  World() { striping.SetTotal(kTotal); }

  absl::Duration now() const { return absl::Seconds(1000) * done.late; }

  std::string Key() const {
    std::string key = absl::StrCat(StripingInspector::Key(striping), "#", done.deaths, done.joins,
                                   done.redone, done.late);
    for (const auto& [replica, batches] : asked) {
      absl::StrAppend(&key, "#", replica, ":");
      for (const uint64_t batch : batches) absl::StrAppend(&key, batch, ",");
      absl::StrAppend(&key, ">");
      for (const uint64_t batch : sent.at(replica)) absl::StrAppend(&key, batch, ",");
    }
    return key;
  }

  void CarryOrders() {
    for (const auto& [replica, batches] : striping.TakeOrders()) {
      ASSERT_EQ(asked.count(replica), 1u) << "nothing is asked of one that is gone";
      asked[replica].insert(batches.begin(), batches.end());
    }
  }

  void Check() const {
    ASSERT_EQ(taken, striping.head());
    for (uint64_t batch = taken; batch < std::min(taken + kWindow, kTotal); ++batch) {
      if (asked.empty() || StripingInspector::IsHere(striping, batch)) continue;
      const auto makers = striping.Makers(batch);
      ASSERT_FALSE(makers.empty()) << "nobody makes batch " << batch;
      for (const auto maker : makers) {
        const auto& on_way = sent.at(maker);
        ASSERT_TRUE(asked.at(maker).count(batch) > 0 ||
                    std::find(on_way.begin(), on_way.end(), batch) != on_way.end());
      }
    }
  }

  void Join() {
    const Striping::Replica replica = static_cast<uint64_t>(done.joins++);
    asked[replica];
    sent[replica];
    striping.Join({replica}, now());
  }

  void Take() {
    ASSERT_EQ(striping.Take(now()), taken) << "each once, in order";
    ++taken;
  }
};

// Every state that some order of events leads to is visited once.
void Explore(const Limits& limits, size_t least_states) {
  World start;
  start.Join();
  start.CarryOrders();
  std::set<std::string> seen{start.Key()};
  std::vector<World> todo{start};
  size_t finished = 0;
  while (!todo.empty() && !testing::Test::HasFatalFailure()) {
    const World world = std::move(todo.back());
    todo.pop_back();
    bool moves = false;
    const auto visit = [&](const std::function<void(World&)>& event) {
      World next = world;
      event(next);
      next.CarryOrders();
      next.Check();
      if (seen.insert(next.Key()).second) todo.push_back(std::move(next));
    };
    for (const auto& [id, batches] : world.asked) {
      const Striping::Replica replica = id;
      if (!batches.empty()) {
        moves = true;
        visit([&](World& next) {
          const uint64_t first = *next.asked[replica].begin();
          next.asked[replica].erase(first);
          next.sent[replica].push_back(first);
        });
      }
      if (!world.sent.at(replica).empty()) {
        moves = true;
        visit([&](World& next) {
          const uint64_t first = next.sent[replica].front();
          next.sent[replica].pop_front();
          next.striping.Arrived(replica, first, next.now());
        });
      }
      if (world.done.deaths < limits.deaths) {
        visit([&](World& next) {
          ++next.done.deaths;
          next.asked.erase(replica);
          next.sent.erase(replica);
          next.striping.Leave(replica, next.now());
        });
      }
    }
    if (world.done.joins < limits.joins) visit([](World& next) { next.Join(); });
    if (world.striping.has_head()) {
      moves = true;
      visit([](World& next) { next.Take(); });
    }
    if (world.done.redone < limits.redone && !world.asked.empty()) {
      visit([](World& next) {
        ++next.done.redone;
        next.striping.Redo(next.now());
      });
    }
    if (world.done.late < limits.late) {
      visit([](World& next) {
        ++next.done.late;
        StripingInspector::MakeLate(next.striping);
        next.striping.Tick(next.now());
        StripingInspector::Forget(next.striping);
      });
    }
    if (world.striping.finished()) {
      ++finished;
    } else {
      ASSERT_TRUE(moves || world.asked.empty()) << "it stands still: " << world.Key();
    }
  }
  EXPECT_GT(seen.size(), least_states);
  EXPECT_GT(finished, 0u);
}

TEST(StripingModelTest, ReplicasJoin) { Explore({0, 3, 0, 0}, 50); }
TEST(StripingModelTest, ReplicasDieAndJoin) { Explore({2, 3, 0, 0}, 200); }
TEST(StripingModelTest, TheQuarantineGrows) { Explore({1, 2, 2, 0}, 500); }
TEST(StripingModelTest, ReplicasAreLate) { Explore({1, 2, 0, 1}, 500); }
TEST(StripingModelTest, Everything) { Explore({1, 2, 1, 1}, 1000); }

}  // namespace
}  // namespace bulkhead::client_internal
