#include "server/service/limits/call_rate.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace bulkhead {
namespace {

constexpr int64_t kNow = 1'000'000'000'000;

int TakenAtOnce(CallRate& rate, const std::string& connection, int calls) {
  int taken = 0;
  for (int i = 0; i < calls; ++i) taken += rate.Take(connection, "a host", kNow) ? 1 : 0;
  return taken;
}

TEST(CallRateTest, AConnectionMakesSoManyCallsAtOnce) {
  Peers peers;
  CallRate rate(peers);
  EXPECT_EQ(TakenAtOnce(rate, "one", 3000), CallRate::kBurst);
  EXPECT_EQ(TakenAtOnce(rate, "another", 500), 500);
  EXPECT_TRUE(rate.Take("one", "a host", kNow + 1'000'000'000));
}

TEST(CallRateTest, OfAClientThatFloodsEachConnectionHasItsFirstCalls) {
  Peers peers;
  CallRate rate(peers);
  for (int i = 0; i < 6; ++i) TakenAtOnce(rate, absl::StrCat("flood ", i), 3000);
  EXPECT_EQ(TakenAtOnce(rate, "its trainer", 50), CallRate::kFirstCalls);
  EXPECT_TRUE(rate.Take("a trainer", "another host", kNow));
}

}  // namespace
}  // namespace bulkhead
