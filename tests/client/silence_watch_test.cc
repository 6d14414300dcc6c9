#include "client/cpp/internal/stream/silence_watch.h"

#include <gtest/gtest.h>

namespace bulkhead::client_internal {
namespace {

TEST(SilenceWatchTest, NothingIsLateBeforeTheFirstWord) {
  SilenceWatch watch(absl::Seconds(10));
  for (int i = 0; i < 100; ++i) watch.Passed(absl::Seconds(1));
  EXPECT_FALSE(watch.too_long());
}

TEST(SilenceWatchTest, CountsFromTheLastWord) {
  SilenceWatch watch(absl::Seconds(10));
  watch.Heard();
  for (int i = 0; i < 9; ++i) watch.Passed(absl::Seconds(1));
  EXPECT_FALSE(watch.too_long());
  watch.Heard();
  for (int i = 0; i < 9; ++i) watch.Passed(absl::Seconds(1));
  EXPECT_FALSE(watch.too_long());
  watch.Passed(absl::Seconds(1));
  EXPECT_TRUE(watch.too_long());
  watch.Stop();
  EXPECT_FALSE(watch.too_long());
}

TEST(SilenceWatchTest, AProgramThatWasStoppedItselfListensFirst) {
  SilenceWatch watch(absl::Seconds(10));
  watch.Heard();
  watch.Passed(absl::Hours(1));
  EXPECT_FALSE(watch.too_long());
}

}  // namespace
}  // namespace bulkhead::client_internal
