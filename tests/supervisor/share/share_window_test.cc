#include "server/supervisor/share/share_window.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace bulkhead::share_window_test {
namespace {

using Answer = ShareWindow::Answer;

constexpr uint64_t kPerEpoch = 10;

// Batch `number` of two ranks' epochs of ten batches, counted from the first epoch on.
SharedRange Range(uint64_t number, uint64_t rank = 0) {
  return {number / kPerEpoch, (2 * (number % kPerEpoch) + rank) * 4, 4, 4};
}

// The batches from `first` on.
ShareWindow::BatchAt From(uint64_t first, uint64_t end = 1000, uint64_t rank = 0) {
  return [=](uint64_t sequence) -> std::optional<SharedRange> {
    if (first + sequence >= end) return std::nullopt;
    return Range(first + sequence, rank);
  };
}

// Two members at batch 0, which see four batches ahead.
class ShareWindowTest : public testing::Test {
 protected:
  ShareWindowTest() {
    window_.Join(1, From(0));
    window_.Join(2, From(0));
  }

  Answer Ask(uint64_t member, uint64_t number, bool can_make = true) {
    return window_.Ask(member, number, Range(number), can_make);
  }
  void Make(uint64_t number) { EXPECT_TRUE(window_.NoteMade(Range(number))); }

  ShareWindow window_{4};
};

TEST_F(ShareWindowTest, ABatchIsMadeOnceForThoseNearIt) {
  EXPECT_EQ(Ask(1, 0), Answer::kMake);
  EXPECT_EQ(Ask(2, 0), Answer::kWait);
  Make(0);
  EXPECT_EQ(window_.TakeDropped(), std::vector<SharedRange>{Range(0)});  // both have it
  EXPECT_EQ(Ask(1, 1), Answer::kMake);
  Make(1);
  EXPECT_EQ(window_.TakeDropped(), std::vector<SharedRange>{});
  EXPECT_EQ(Ask(2, 1), Answer::kTake);
  EXPECT_EQ(window_.TakeDropped(), std::vector<SharedRange>{Range(1)});
}

TEST_F(ShareWindowTest, WhoeverIsFarAheadGoesAloneAndWaitsForNobody) {
  for (uint64_t number = 0; number < 4; ++number) {
    EXPECT_EQ(Ask(1, number), Answer::kMake);
    Make(number);
  }
  EXPECT_EQ(window_.NearOf(1), 0u);
  EXPECT_EQ(Ask(1, 4), Answer::kAlone);
  EXPECT_EQ(Ask(1, 5), Answer::kAlone);
  // What was made while they were near is still there, and then the other goes alone, too.
  for (uint64_t number = 0; number < 4; ++number) EXPECT_EQ(Ask(2, number), Answer::kTake);
  EXPECT_EQ(Ask(2, 4), Answer::kAlone);
  EXPECT_EQ(Ask(2, 5), Answer::kAlone);
  // Near again.
  EXPECT_EQ(window_.NearOf(1), 1u);
  EXPECT_EQ(Ask(2, 6), Answer::kMake);
}

TEST_F(ShareWindowTest, TheNewestBatchesAreKept) {
  window_.Join(3, From(0));
  window_.Join(4, From(3));
  for (uint64_t number = 0; number < 4; ++number) {
    EXPECT_EQ(Ask(1, number), Answer::kMake);
    Make(number);
  }
  EXPECT_EQ(window_.Ask(2, 0, Range(0), true), Answer::kTake);
  EXPECT_EQ(Ask(1, 4), Answer::kMake);  // member 4 is near, and batch 0 makes room
  EXPECT_EQ(window_.TakeDropped(), std::vector<SharedRange>{Range(0)});
  EXPECT_EQ(Ask(3, 0), Answer::kAlone);  // it is gone
  EXPECT_EQ(Ask(3, 1), Answer::kTake);
}

TEST_F(ShareWindowTest, WithoutRoomABatchIsMadeAlone) {
  window_.Join(4, From(3));
  for (uint64_t number = 0; number < 4; ++number) EXPECT_EQ(Ask(1, number), Answer::kMake);
  EXPECT_EQ(Ask(1, 4), Answer::kFull);  // four are in work
  EXPECT_FALSE(ShareWindow::IsShared(Answer::kFull));
  Make(0);
  EXPECT_EQ(Ask(1, 5), Answer::kMake);
}

TEST_F(ShareWindowTest, WithoutAMakerABatchIsMadeAlone) {
  EXPECT_EQ(Ask(1, 0, /*can_make=*/false), Answer::kWould);
  EXPECT_EQ(Ask(2, 0), Answer::kAlone);  // the other has passed it
}

TEST_F(ShareWindowTest, OtherRanksAndOtherBatchBordersShareNothing) {
  ShareWindow window(4);
  window.Join(1, From(0));
  window.Join(2, From(0, 1000, /*rank=*/1));
  window.Join(3, [](uint64_t sequence) -> std::optional<SharedRange> {
    return SharedRange{0, sequence * 8 + 2, 4, 4};
  });
  for (uint64_t number = 0; number < 3; ++number) {
    EXPECT_EQ(window.Ask(1, number, Range(number), true), Answer::kAlone);
    EXPECT_EQ(window.Ask(2, number, Range(number, 1), true), Answer::kAlone);
  }
}

TEST_F(ShareWindowTest, EpochsFollowEachOther) {
  ShareWindow window(4);
  window.Join(1, From(8));
  window.Join(2, From(9));
  EXPECT_EQ(window.Ask(1, 0, Range(8), true), Answer::kAlone);
  for (uint64_t number = 9; number < 13; ++number) {
    EXPECT_EQ(window.Ask(1, number - 8, Range(number), true), Answer::kMake) << number;
  }
}

TEST_F(ShareWindowTest, NothingIsKeptForThoseWhoLeave) {
  EXPECT_EQ(Ask(1, 0), Answer::kMake);
  Make(0);
  window_.Leave(2);
  EXPECT_EQ(window_.TakeDropped(), std::vector<SharedRange>{Range(0)});
  EXPECT_EQ(Ask(1, 1), Answer::kAlone);
  EXPECT_EQ(Ask(2, 1), Answer::kAlone);
}

TEST_F(ShareWindowTest, ABatchThatIsKeptNoMoreIsNotMade) {
  EXPECT_EQ(Ask(1, 0), Answer::kMake);
  window_.Clear();
  EXPECT_FALSE(window_.NoteMade(Range(0)));
}

// Members of any speed that come and go: what the window says is so, whatever happens.
class ShareWindowModel {
 public:
  ShareWindowModel(uint32_t seed, uint32_t batches)
      : random_(seed), batches_(batches), window_(batches) {}

  void Step() {
    const uint32_t what = Any(10);
    if (what == 0 && members_.size() < 6) {
      Come();
    } else if (what == 1 && Any(8) == 0 && !members_.empty()) {
      Go();
    } else if (what < 5 && !in_work_.empty()) {
      Finish();
    } else if (!members_.empty()) {
      Ask();
    }
    for (const SharedRange& range : window_.TakeDropped()) {
      EXPECT_EQ(made_.erase(range), 1u);  // and nothing in work
    }
    EXPECT_EQ(window_.kept(), made_.size() + in_work_.size());
    EXPECT_LE(window_.kept(), batches_);
    for (const SharedRange& range : made_) EXPECT_TRUE(IsNeeded(range));
  }

  int shared() const { return shared_; }
  int alone() const { return alone_; }

 private:
  struct Member {
    uint64_t first = 0;
    uint64_t sequence = 0;
    uint32_t speed = 1;
  };

  uint32_t Any(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  void Come() {
    // Near the others, or anywhere.
    const uint64_t near = members_.empty() ? 0 : NextOf(members_.begin()->second);
    Member member{near + Any(Any(2) == 0 ? 2 : 30), 0, 1 + Any(4)};
    window_.Join(next_, From(member.first));
    members_[next_++] = member;
  }
  void Go() {
    window_.Leave(Pick());
    members_.erase(picked_);
  }
  uint64_t Pick() {
    auto member = members_.begin();
    std::advance(member, Any(static_cast<uint32_t>(members_.size())));
    return picked_ = member->first;
  }
  void Finish() {
    auto range = in_work_.begin();
    std::advance(range, Any(static_cast<uint32_t>(in_work_.size())));
    const SharedRange done = *range;
    in_work_.erase(range);
    made_.insert(done);
    EXPECT_TRUE(window_.NoteMade(done));
  }
  void Ask() {
    const uint64_t id = Pick();
    Member& member = members_[id];
    for (uint32_t i = 0; i < member.speed; ++i) {
      const SharedRange range = Range(NextOf(member));
      const Answer answer = window_.Ask(id, member.sequence++, range, /*can_make=*/true);
      ++(answer >= Answer::kMake ? shared_ : alone_);
      EXPECT_EQ(answer == Answer::kTake, made_.contains(range));
      EXPECT_EQ(answer == Answer::kWait, in_work_.contains(range));
      if (answer == Answer::kMake) {
        EXPECT_TRUE(IsNeeded(range));
        in_work_.insert(range);
      }
      for (const SharedRange& dropped : window_.TakeDropped()) EXPECT_EQ(made_.erase(dropped), 1u);
    }
  }
  static uint64_t NextOf(const Member& member) { return member.first + member.sequence; }
  bool IsNeeded(const SharedRange& range) const {
    for (const auto& [id, member] : members_) {
      for (uint32_t i = 0; i < batches_; ++i) {
        if (Range(NextOf(member) + i) == range) return true;
      }
    }
    return false;
  }

  std::mt19937 random_;
  const uint32_t batches_;
  ShareWindow window_;
  std::map<uint64_t, Member> members_;
  std::set<SharedRange> in_work_;
  std::set<SharedRange> made_;
  uint64_t next_ = 1;
  uint64_t picked_ = 0;
  int shared_ = 0;
  int alone_ = 0;
};

TEST(ShareWindowModelTest, WhatItSaysIsTrueWhateverHappens) {
  int shared = 0;
  int alone = 0;
  for (uint32_t seed = 0; seed < 200 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    ShareWindowModel model(seed, 1 + seed % 9);
    for (int step = 0; step < 400; ++step) model.Step();
    shared += model.shared();
    alone += model.alone();
  }
  // Both must have happened, often.
  EXPECT_GT(shared, 1000);
  EXPECT_GT(alone, 1000);
}

}  // namespace
}  // namespace bulkhead::share_window_test
