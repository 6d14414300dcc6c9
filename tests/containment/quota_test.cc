// RLIMIT_DATA with processes just under and just over it.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/os/process/child_process.h"
#include "tests/os/await_exit.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kRoom = 64 * kMebibyte;

int TakeUnderLimit(uint64_t take) {
  SpawnSpec spec;
  spec.program = absl::StrCat(std::getenv("BULKHEAD_TEST_BIN_DIR"), "/memory_hog");
  spec.args = {"data", absl::StrCat(kRoom), absl::StrCat(take)};
  auto child = ChildProcess::Spawn(spec);
  EXPECT_TRUE(child.ok()) << child.status();
  const int code = AwaitExit(*child).code;
  std::printf("figure: RLIMIT_DATA with room for %.1f MiB, asked for %.1f MiB: %s\n",
              static_cast<double>(kRoom) / kMebibyte, static_cast<double>(take) / kMebibyte,
              code == 0 ? "granted" : "refused");
  return code;
}

TEST(QuotaTest, AProcessJustUnderItsDataLimitIsGrantedMemory) {
  EXPECT_EQ(TakeUnderLimit(kRoom - kMebibyte), 0);
}

TEST(QuotaTest, AProcessJustOverItsDataLimitIsRefusedIt) {
  EXPECT_EQ(TakeUnderLimit(kRoom + kMebibyte), 3);
}

}  // namespace
}  // namespace bulkhead
