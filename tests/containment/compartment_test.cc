#include "server/supervisor/worker/compartment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "server/os/files/filesystem.h"
#include "server/os/process/cgroup_location.h"
#include "tests/containment/hog.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kQuota = 16 * kMebibyte;
constexpr uint64_t kMargin = 3 * kMebibyte;

// A machine that tells of no cgroups.
Compartment::Config Without() {
  Compartment::Config config;
  config.name = "test";
  config.sources.mounts = "/dev/null";
  config.sources.groups = "/dev/null";
  return config;
}

TEST(CompartmentTest, WithoutACgroupTheLevelSaysSoAndWorkersRun) {
  const auto compartment = Compartment::Open(Without()).value();
  v1::Containment containment;
  compartment->Describe(containment);
  EXPECT_EQ(containment.quota_level(), "kernel-private");
  EXPECT_TRUE(absl::StrContains(containment.quota_level_reason(), "no cgroup"))
      << containment.quota_level_reason();
  Hog hog("touch", kMebibyte);
  const auto cell = compartment->Admit(hog.pid(), kQuota, 1).value();
  EXPECT_STREQ(cell->level(), "kernel-private");
  EXPECT_TRUE(hog.Go().ok());
  EXPECT_EQ(cell->OomKills(), 0);
}

TEST(CompartmentTest, WithoutASeccompFilterOnlyTheWatchdogIsPromised) {
  Compartment::Config config = Without();
  config.seccomp = false;
  const auto compartment = Compartment::Open(config).value();
  v1::Containment containment;
  compartment->Describe(containment);
  EXPECT_EQ(containment.quota_level(), "watchdog");
  EXPECT_TRUE(absl::StrContains(containment.quota_level_reason(), "no cgroup"));
  EXPECT_TRUE(absl::StrContains(containment.quota_level_reason(), "(--sandbox)"))
      << containment.quota_level_reason();
  EXPECT_STREQ(compartment->Admit(getpid(), kQuota, 1).value()->level(), "watchdog");
}

TEST(CompartmentTest, AWorkerThatSaysItHasNoFilterLowersTheLevel) {
  const auto compartment = Compartment::Open(Without()).value();
  EXPECT_STREQ(compartment->level(), "kernel-private");
  compartment->NoteWithoutSeccomp("the kernel has none");
  EXPECT_STREQ(compartment->level(), "watchdog");
  EXPECT_TRUE(absl::StrContains(compartment->reason(), "the kernel has none"));
}

TEST(CompartmentTest, WhereACgroupIsRequiredThereIsNoServiceWithout) {
  Compartment::Config config = Without();
  config.require_cgroup = true;
  const absl::Status status = Compartment::Open(config).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "no cgroup with a memory controller")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "--quota-enforcement")) << status;
}

class CompartmentCgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    compartment_ = Compartment::Open({"test", false, {}}).value();
    if (!compartment_->reason().empty()) {
      GTEST_SKIP() << "no cgroup for this test: " << compartment_->reason();
    }
  }

  // Groups of this service that exist.
  static size_t Leaves() {
    const std::string own = FindOwnCgroup({}).value().memory;
    size_t leaves = 0;
    for (const std::string& name : NamesIn(own)) {
      if (!absl::StartsWith(name, "bulkhead-test.")) continue;
      for (const std::string& leaf : NamesIn(own + "/" + name)) {
        leaves += absl::StartsWith(leaf, "worker-");
      }
    }
    return leaves;
  }

  std::unique_ptr<Compartment> compartment_;
};

TEST_F(CompartmentCgroupTest, AWorkerIsHeldToItsQuotaAndTheOverhead) {
  for (const bool over : {false, true}) {
    const uint64_t limit = kQuota + Compartment::kOverheadBytes;
    Hog hog("share", over ? limit + kMargin : limit - kMargin);
    const auto cell = compartment_->Admit(hog.pid(), kQuota, 1).value();
    EXPECT_STREQ(cell->level(), "kernel-total");
    compartment_->NoteWithoutSeccomp("a leaf holds without it");
    EXPECT_STREQ(compartment_->level(), "kernel-total");
    EXPECT_EQ(WasKilled(hog.Go()), over);
    EXPECT_EQ(cell->OomKills(), over ? 1 : 0);
  }
}

TEST_F(CompartmentCgroupTest, ACellsLeafGoesWithIt) {
  Hog hog("touch", kMebibyte);
  auto cell = compartment_->Admit(hog.pid(), kQuota, 1).value();
  EXPECT_EQ(Leaves(), 1);
  EXPECT_TRUE(hog.Go().ok());
  cell.reset();
  EXPECT_EQ(Leaves(), 0);
}

TEST_F(CompartmentCgroupTest, ACellThatIsLeftEarlyEndsItsWorkerAndIsRemovedLater) {
  Hog hog("touch", kMebibyte);
  compartment_->Admit(hog.pid(), kQuota, 1).value().reset();
  EXPECT_TRUE(WasKilled(hog.AwaitEnd()));
  Hog next("touch", kMebibyte);
  const auto cell = compartment_->Admit(next.pid(), kQuota, 1).value();
  EXPECT_EQ(Leaves(), 1) << "only the living one's";
  EXPECT_TRUE(next.Go().ok());
}

}  // namespace
}  // namespace bulkhead
