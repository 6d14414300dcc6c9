#include "server/service/stream_directory.h"

#include <gtest/gtest.h>

#include <optional>

#include "server/base/error.h"

namespace bulkhead {
namespace {

// A connection that remembers what it was ended with.
struct Connection {
  std::optional<absl::Status> ended;
  uint64_t claim_id = 0;
  std::shared_ptr<Legacy> left;       // to its successor
  std::shared_ptr<Legacy> inherited;  // of its predecessor

  absl::Status Claim(StreamDirectory& directory, uint64_t incarnation, uint32_t rank = 0) {
    return directory.Claim(
        "train", rank, incarnation,
        [this](const absl::Status& status) {
          ended = status;
          return left;
        },
        claim_id, inherited);
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
  directory.Release("train", 0, gone.claim_id);
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
  directory.Release("train", 0, first.claim_id);
  ASSERT_TRUE(third.Claim(directory, 6).ok());
  EXPECT_EQ(GetErrorInfo(*second.ended)->reason, reason::kSuperseded);
}

}  // namespace
}  // namespace bulkhead
