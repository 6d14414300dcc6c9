// Waits while somebody sets the wall clock back: they are as long as ever.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "absl/synchronization/notification.h"
#include "server/os/files/io_thread.h"
#include "server/service/quarantine_store.h"
#include "server/supervisor/memory/memory_budget.h"
#include "tests/support/test_dir.h"

namespace {
std::atomic<time_t> seconds_ahead{0};
}

// In place of the C library's: the wall clock of this process is what the test says.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += seconds_ahead;
  return static_cast<int>(result);
}

namespace bulkhead {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(50);

// What the clock says when a wait begins is an hour ahead of what the kernel says in it: so it is
// after somebody set it back.
class WallClockTest : public testing::Test {
 protected:
  WallClockTest() { seconds_ahead = 3600; }
  ~WallClockTest() override { seconds_ahead = 0; }
};

TEST_F(WallClockTest, AwaitingRoomEnds) {
  MemoryBudget::Config config;
  config.budget_bytes = 1000;
  const auto budget = MemoryBudget::Create(config).value();
  MemoryClaim claim = budget->AdmitWorker(1000).value();
  claim.MarkReturning();  // and never comes
  MemoryBudget::Demand demand;
  demand.workers = 1;
  demand.worker_quota_bytes = 1000;
  budget->AwaitRoom(demand, kPatience);
  EXPECT_FALSE(budget->FitsWholly(demand));
}

TEST_F(WallClockTest, AwaitingTheQuarantineOnDiskEnds) {
  const TestDir folder;
  const auto io = IoThread::Start().value();
  const auto answers = std::make_shared<absl::Notification>();
  io->Post([answers] { answers->WaitForNotification(); });  // as a disk that hangs
  const auto store = std::make_shared<QuarantineStore>(folder.path());
  v1::QuarantinedRecord record;
  record.set_record("a@1");
  ASSERT_TRUE(store->Add(record, "").ok());
  EXPECT_FALSE(QuarantineStore::Flush(store, *io, kPatience));
  answers->Notify();
  EXPECT_TRUE(QuarantineStore::Flush(store, *io, absl::Seconds(60)));
}

}  // namespace
}  // namespace bulkhead
