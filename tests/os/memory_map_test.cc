#include "server/os/memory_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace bulkhead {
namespace {

TEST(SharedMemoryTest, CannotGrowOrShrink) {
  const auto fd = CreateSharedMemory("test", 8192);
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(ftruncate(fd->get(), 4096), 0);
  EXPECT_NE(ftruncate(fd->get(), 16384), 0);
}

TEST(MemoryMapTest, TwoMappingsShareTheirBytes) {
  const auto fd = CreateSharedMemory("test", 8192);
  const auto one = MemoryMap::Map(fd->get(), 8192);
  const auto two = MemoryMap::Map(fd->get(), 8192);
  ASSERT_TRUE(one.ok() && two.ok());
  one->Prefault(0, 8192);
  std::memcpy(one->data() + 5000, "hello", 5);
  EXPECT_EQ(std::memcmp(two->data() + 5000, "hello", 5), 0);
}

TEST(MemoryMapTest, RefusesToMapBeyondTheMemory) {
  const auto fd = CreateSharedMemory("test", 4096);
  EXPECT_TRUE(absl::IsInvalidArgument(MemoryMap::Map(fd->get(), 4097).status()));
}

TEST(SealedMessageTest, ReadsBackAndCannotBeChanged) {
  const auto fd = CreateSealedMessage("some message");
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(*ReadSealedMessage(fd->get()), "some message");
  EXPECT_LT(pwrite(fd->get(), "X", 1, 0), 0);
}

// Another kind of file might block its reader, or change under its hands.
TEST(SealedMessageTest, IsReadFromSealedMemoryOnly) {
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(absl::IsDataLoss(ReadSealedMessage(unsealed.get()).status()));
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const UniqueFd reader(fds[0]);
  const UniqueFd writer(fds[1]);
  EXPECT_TRUE(absl::IsDataLoss(ReadSealedMessage(reader.get()).status()));
}

}  // namespace
}  // namespace bulkhead
