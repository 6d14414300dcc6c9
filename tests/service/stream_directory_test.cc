#include "server/service/stream_directory.h"

#include <gtest/gtest.h>

#include <optional>

#include "server/base/error.h"

namespace bulkhead {
namespace {

// A connection that remembers what it was ended with.
struct Connection {
  std::optional<absl::Status> ended;
  uint64_t connection = 0;
  std::shared_ptr<Legacy> left;       // to its successor
  std::shared_ptr<Legacy> inherited;  // of its predecessor

  absl::Status Claim(StreamDirectory& directory, uint64_t wall_ns, uint32_t rank = 0) {
    return Claim(directory, Incarnation{wall_ns, "", 0}, rank);
  }
  absl::Status Claim(StreamDirectory& directory, const Incarnation& incarnation,
                     uint32_t rank = 0) {
    const absl::Status entered = Enter(directory, incarnation, rank);
    return entered.ok() ? ClaimEntered(directory, incarnation, rank) : entered;
  }
  absl::Status Enter(StreamDirectory& directory, const Incarnation& incarnation,
                     uint32_t rank = 0) {
    const auto entered = directory.Enter("train", rank, incarnation);
    if (entered.ok()) connection = *entered;
    return entered.status();
  }
  absl::Status ClaimEntered(StreamDirectory& directory, const Incarnation& incarnation,
                            uint32_t rank = 0) {
    return directory.Claim(
        "train", rank, incarnation, connection,
        [this](const absl::Status& status) {
          ended = status;
          return left;
        },
        inherited);
  }
};

TEST(StreamDirectoryTest, ANewerConsumerSupersedesAnOlderOne) {
  StreamDirectory directory;
  Connection older;
  Connection newer;
  ASSERT_TRUE(older.Claim(directory, 1).ok());
  ASSERT_TRUE(newer.Claim(directory, 2).ok());
  EXPECT_EQ(GetErrorInfo(*older.ended)->reason, reason::kSuperseded);
  EXPECT_FALSE(newer.ended.has_value());
  Connection back;
  EXPECT_EQ(GetErrorInfo(back.Claim(directory, 1))->reason, reason::kSuperseded);
  EXPECT_FALSE(newer.ended.has_value());
}

// The wall clock was set back from 100 to 50 between the two of one machine.
TEST(StreamDirectoryTest, OnOneMachineTheWallClockDecidesNothing) {
  const Incarnation before{100, "boot", 7};
  const Incarnation after{50, "boot", 8};
  StreamDirectory directory;
  Connection older;
  Connection newer;
  ASSERT_TRUE(older.Claim(directory, before).ok());
  ASSERT_TRUE(newer.Claim(directory, after).ok());
  EXPECT_EQ(GetErrorInfo(*older.ended)->reason, reason::kSuperseded);
  Connection back;
  EXPECT_EQ(GetErrorInfo(back.Claim(directory, before))->reason, reason::kSuperseded);
  EXPECT_FALSE(newer.ended.has_value());
  Connection again;
  ASSERT_TRUE(again.Claim(directory, after).ok());
  EXPECT_TRUE(absl::IsCancelled(*newer.ended));
}

TEST(StreamDirectoryTest, BetweenMachinesTheWallClockDecides) {
  const Incarnation newer{100, "boot", 7};
  for (const Incarnation& older :
       {Incarnation{50, "another boot", 8}, Incarnation{50, "", 0}, Incarnation{50, "", 8}}) {
    EXPECT_TRUE(older.IsOlderThan(newer));
    EXPECT_FALSE(newer.IsOlderThan(older));
  }
  EXPECT_TRUE((Incarnation{50, "", 8}).IsOlderThan(Incarnation{100, "", 7}))
      << "what is unknown is not the same";
}

TEST(StreamDirectoryTest, AConsumerThatConnectsAgainTakesOverFromItself) {
  StreamDirectory directory;
  Connection first;
  Connection second;
  ASSERT_TRUE(first.Claim(directory, 5).ok());
  ASSERT_TRUE(second.Claim(directory, 5).ok());
  EXPECT_TRUE(absl::IsCancelled(*first.ended));
}

TEST(StreamDirectoryTest, WhoIsEvictedLeavesWhatItHasToItsSuccessor) {
  StreamDirectory directory;
  Connection first;
  first.left = std::make_shared<Legacy>(nullptr);
  Connection second;
  ASSERT_TRUE(first.Claim(directory, 5).ok());
  EXPECT_EQ(first.inherited, nullptr);
  ASSERT_TRUE(second.Claim(directory, 5).ok());
  EXPECT_EQ(second.inherited, first.left);
}

TEST(StreamDirectoryTest, RanksAreApart) {
  StreamDirectory directory;
  Connection zero;
  Connection one;
  ASSERT_TRUE(zero.Claim(directory, 1, 0).ok());
  ASSERT_TRUE(one.Claim(directory, 2, 1).ok());
  EXPECT_FALSE(zero.ended.has_value());
}

TEST(StreamDirectoryTest, WhoEndedHoldsNothing) {
  StreamDirectory directory;
  Connection gone;
  Connection older;
  ASSERT_TRUE(gone.Claim(directory, 9).ok());
  directory.Release("train", 0, gone.connection);
  EXPECT_TRUE(older.Claim(directory, 3).ok());
  EXPECT_FALSE(gone.ended.has_value());
}

TEST(StreamDirectoryTest, ALateReleaseDoesNotTakeTheStreamFromItsNewHolder) {
  StreamDirectory directory;
  Connection first;
  Connection second;
  Connection third;
  ASSERT_TRUE(first.Claim(directory, 5).ok());
  ASSERT_TRUE(second.Claim(directory, 5).ok());
  directory.Release("train", 0, first.connection);
  ASSERT_TRUE(third.Claim(directory, 6).ok());
  EXPECT_EQ(GetErrorInfo(*second.ended)->reason, reason::kSuperseded);
}

TEST(StreamDirectoryTest, WhoHasOnlyEnteredEndsNobody) {
  const Incarnation before{1, "", 0};
  const Incarnation after{2, "", 0};
  StreamDirectory directory;
  Connection older;
  Connection newer;
  ASSERT_TRUE(older.Claim(directory, before).ok());
  ASSERT_TRUE(newer.Enter(directory, after).ok());
  EXPECT_FALSE(older.ended.has_value());
  Connection back;
  EXPECT_TRUE(back.Claim(directory, before).ok()) << "the newer one may be refused yet";
  ASSERT_TRUE(newer.ClaimEntered(directory, after).ok());
  EXPECT_EQ(GetErrorInfo(*back.ended)->reason, reason::kSuperseded);
}

TEST(StreamDirectoryTest, OfTwoThatOpenAtATimeTheNewerOneWinsInEitherOrder) {
  const Incarnation before{1, "", 0};
  const Incarnation after{2, "", 0};
  for (const bool newer_first : {false, true}) {
    StreamDirectory directory;
    Connection older;
    Connection newer;
    ASSERT_TRUE(newer.Enter(directory, after).ok());
    ASSERT_TRUE(older.Enter(directory, before).ok());
    if (newer_first) {
      ASSERT_TRUE(newer.ClaimEntered(directory, after).ok());
      EXPECT_EQ(GetErrorInfo(older.ClaimEntered(directory, before))->reason, reason::kSuperseded);
    } else {
      ASSERT_TRUE(older.ClaimEntered(directory, before).ok());
      ASSERT_TRUE(newer.ClaimEntered(directory, after).ok());
      EXPECT_EQ(GetErrorInfo(*older.ended)->reason, reason::kSuperseded);
    }
    EXPECT_FALSE(newer.ended.has_value());
  }
}

TEST(StreamDirectoryTest, AnEarlierConnectionOfAConsumerThatOpensLongerTakesNothingFromItsLater) {
  const Incarnation one{5, "", 0};
  StreamDirectory directory;
  Connection first;
  Connection second;
  ASSERT_TRUE(first.Enter(directory, one).ok());
  ASSERT_TRUE(second.Claim(directory, one).ok());
  EXPECT_TRUE(absl::IsCancelled(first.ClaimEntered(directory, one)));
  EXPECT_FALSE(second.ended.has_value());
}

}  // namespace
}  // namespace bulkhead
