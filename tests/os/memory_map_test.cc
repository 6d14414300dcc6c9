#include "server/os/memory_map.h"

#include <gtest/gtest.h>
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

}  // namespace
}  // namespace bulkhead
