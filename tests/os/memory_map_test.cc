#include "server/os/memory/memory_map.h"

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

TEST(SharedMemoryTest, SealedMemoryHasNoWriters) {
  const auto fd = CreateMemoryToSeal("test", 8192);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(pwrite(fd->get(), "hello", 5, 0), 5);
  {
    const auto map = MemoryMap::Map(fd->get(), 8192);
    ASSERT_TRUE(map.ok());
    EXPECT_FALSE(SealMemory(fd->get(), MemoryWriters::kNobody).ok()) << "it is mapped writable";
  }
  ASSERT_TRUE(SealMemory(fd->get(), MemoryWriters::kNobody).ok());
  EXPECT_EQ(pwrite(fd->get(), "X", 1, 0), -1);
  EXPECT_NE(ftruncate(fd->get(), 4096), 0);
  EXPECT_FALSE(MemoryMap::Map(fd->get(), 8192).ok());
  EXPECT_TRUE(MemoryMap::Map(fd->get(), 8192, MemoryMap::Access::kRead).ok());
}

TEST(SharedMemoryTest, AMappingMayStayTheOnlyWriter) {
  const auto fd = CreateMemoryToSeal("test", 8192);
  ASSERT_TRUE(fd.ok());
  const auto map = MemoryMap::Map(fd->get(), 8192);
  ASSERT_TRUE(map.ok());
  ASSERT_TRUE(SealMemory(fd->get(), MemoryWriters::kMappings).ok());
  EXPECT_EQ(pwrite(fd->get(), "X", 1, 0), -1);
  EXPECT_FALSE(MemoryMap::Map(fd->get(), 8192).ok());
  std::memcpy(map->data(), "hello", 5);
  char read[5];
  EXPECT_EQ(pread(fd->get(), read, 5, 0), 5);
  EXPECT_EQ(std::memcmp(read, "hello", 5), 0);
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

// Whether the kernel has huge pages to give is its own affair: what stands there must stay.
TEST(MemoryMapTest, HugePagesHoldTheSameBytes) {
  constexpr uint64_t kBytes = (uint64_t{7} << 20) + 4096;
  const auto fd = CreateSharedMemory("test", kBytes);
  const auto one = MemoryMap::Map(fd->get(), kBytes);
  const auto two = MemoryMap::Map(fd->get(), kBytes, MemoryMap::Access::kRead);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one->data()) % (2 << 20), 0u);
  for (uint64_t i = 0; i < kBytes; i += 1000) one->data()[i] = static_cast<std::byte>(i / 1000);
  one->UseHugePages(4096, kBytes - 4096);
  for (uint64_t i = 0; i < kBytes; i += 1000) {
    ASSERT_EQ(two->data()[i], static_cast<std::byte>(i / 1000)) << i;
  }
  EXPECT_EQ(two->data()[kBytes - 1], std::byte{0});
}

TEST(MemoryMapTest, ProtectsWhatItIsToldAlone) {
  const auto fd = CreateSharedMemory("test", 12288);
  const auto map = MemoryMap::Map(fd->get(), 12288, MemoryMap::Access::kNone);
  ASSERT_TRUE(map.ok());
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const UniqueFd reader(fds[0]);
  const UniqueFd writer(fds[1]);
  const auto readable = [&](uint64_t at) { return write(writer.get(), map->data() + at, 1) == 1; };
  map->PrefaultClosed(0, 12288);
  EXPECT_FALSE(readable(0));
  ASSERT_TRUE(map->Protect(4096, 4096, MemoryMap::Access::kReadWrite).ok());
  EXPECT_FALSE(readable(4095));
  EXPECT_TRUE(readable(4096));
  EXPECT_TRUE(readable(8191));
  EXPECT_FALSE(readable(8192));
  ASSERT_TRUE(map->Protect(4096, 4096, MemoryMap::Access::kNone).ok());
  EXPECT_FALSE(readable(4096));
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
