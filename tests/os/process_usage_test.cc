#include "server/os/process/process_usage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "server/os/files/fd.h"
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
  // Not memory_bytes at first: pages of a library are not private once another process has it, too.
  EXPECT_GE(after->anonymous_bytes, before->anonymous_bytes + 30 * kMiB);
  EXPECT_LE(after->anonymous_bytes, before->anonymous_bytes + 40 * kMiB);
  EXPECT_LE(after->memory_bytes, before->memory_bytes + 60 * kMiB);  // the arena is not in it
  EXPECT_GE(after->data_bytes, before->data_bytes + 30 * kMiB);
  EXPECT_GE(ReadProcessUsageFast(getpid())->anonymous_bytes, before->anonymous_bytes + 30 * kMiB);
  EXPECT_EQ(memory.back(), 1);
}

TEST(ProcessUsageTest, PrivateFilePagesAreCountedAnewWhenTheFilePagesChange) {
  ProcessUsage before = *ReadProcessUsage(getpid());
  EXPECT_EQ(before.memory_bytes, before.anonymous_bytes + before.private_file_bytes);
  before.private_file_bytes = 77 * kMiB;  // what no counting gives
  EXPECT_EQ(ReadProcessUsageSince(getpid(), before)->private_file_bytes, 77 * kMiB);

  std::string path = "/var/tmp/bulkhead-pages-XXXXXX";  // on a disk, where /tmp may be memory
  const UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_EQ(unlink(path.c_str()), 0);
  const std::vector<char> content(32 * kMiB, 'x');
  ASSERT_EQ(write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  ASSERT_EQ(fsync(fd.get()), 0);  // they become clean
  // A little at a time, none of which is worth counting.
  constexpr uint64_t kLittle = kMiB / 2;
  ProcessUsage after = before;
  for (uint64_t at = 0; at < 32 * kMiB; at += kLittle) {
    void* const mapped = mmap(nullptr, kLittle, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(),
                              static_cast<off_t>(at));
    ASSERT_NE(mapped, MAP_FAILED);
    after = *ReadProcessUsageSince(getpid(), after);
  }
  EXPECT_NE(after.private_file_bytes, 77 * kMiB);
  EXPECT_GE(after.private_file_bytes, 24 * kMiB);
  EXPECT_EQ(after.memory_bytes, after.anonymous_bytes + after.private_file_bytes);
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

TEST(AvailableCpusTest, IsTheCpuTimeRoundedUp) {
  EXPECT_GT(AvailableCpuTime(), 0);
  EXPECT_EQ(AvailableCpus(), static_cast<int>(std::ceil(AvailableCpuTime())));
}

TEST(MemoryLimitTest, IsAtMostTheMachine) {
  EXPECT_GT(MemoryLimitBytes(), 64 * kMiB);
  EXPECT_LE(MemoryLimitBytes(), static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                    static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace bulkhead
