#include "server/os/process/process_usage.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "server/os/memory/memory_map.h"
#include "server/os/memory/process_memory.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(ProcessUsageTest, SeesPrivateMemoryButNotArenas) {
  const auto before = ReadProcessUsage(getpid());
  ASSERT_TRUE(before.ok());
  std::vector<char> memory(32 * kMiB, 1);
  const auto fd = CreateSharedMemory("test", 64 * kMiB);
  const auto map = MemoryMap::Map(fd->get(), 64 * kMiB);
  std::memset(map->data(), 1, 64 * kMiB);
  const auto after = ReadProcessUsage(getpid());
  EXPECT_GE(after->memory_bytes, before->memory_bytes + 30 * kMiB);
  EXPECT_LE(after->memory_bytes, before->memory_bytes + 40 * kMiB);
  EXPECT_GE(after->data_bytes, before->data_bytes + 30 * kMiB);
  EXPECT_GE(ReadProcessUsageFast(getpid())->anonymous_bytes, before->anonymous_bytes + 30 * kMiB);
  EXPECT_EQ(memory.back(), 1);
}

TEST(ProcessUsageTest, SaysThatThereIsNoSuchProcess) {
  EXPECT_TRUE(absl::IsNotFound(ReadProcessUsage(999999999).status()));
}

TEST(OwnMemoryTest, SaysWhatIsHeldNowAndNotWhenItWasOpened) {
  const auto own = OwnMemory::Open();
  ASSERT_TRUE(own.ok()) << own.status();
  const auto before = own->Read();
  ASSERT_TRUE(before.ok()) << before.status();
  std::vector<char> memory(32 * kMiB, 1);
  const auto after = own->Read();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_GE(after->anonymous_bytes, before->anonymous_bytes + 30 * kMiB);
  EXPECT_GE(after->data_bytes, before->data_bytes + 30 * kMiB);
  EXPECT_EQ(memory.back(), 1);
}

TEST(LimitDataMemoryTest, TheKernelRefusesWhatExceedsIt) {
  const pid_t child = fork();
  if (child == 0) {
    const auto usage = ReadProcessUsageFast(getpid());
    if (!LimitDataMemory(usage->data_bytes + 8 * kMiB).ok()) _exit(1);
    const auto take = [](uint64_t bytes) {
      return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
             MAP_FAILED;
    };
    if (!take(4 * kMiB)) _exit(2);
    if (take(16 * kMiB)) _exit(3);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(AvailableCpusTest, FollowsTheAffinityMask) {
  const pid_t child = fork();
  if (child == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    _exit(AvailableCpus());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST(MemoryLimitTest, IsAtMostTheMachine) {
  EXPECT_GT(MemoryLimitBytes(), 64 * kMiB);
  EXPECT_LE(MemoryLimitBytes(), static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                    static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace bulkhead
