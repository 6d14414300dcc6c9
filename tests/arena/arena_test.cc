#include "server/arena/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

namespace bulkhead {
namespace {

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(ArenaTest, BothSidesSeeTheSameSlots) {
  const auto owner = Arena::Create(8192, 3);
  ASSERT_TRUE(owner.ok());
  const auto guest = Arena::Attach(Duplicate((*owner)->fd()), 8192, 3);
  ASSERT_TRUE(guest.ok());
  ASSERT_TRUE((*guest)->Open(2).ok());
  std::memcpy((*guest)->slot(2), "batch", 5);
  EXPECT_EQ(std::memcmp((*owner)->slot(2), "batch", 5), 0);
  EXPECT_EQ((*owner)->slot(2) - (*owner)->slot(0), 2 * 8192);
  EXPECT_EQ((*owner)->bytes(), 3 * 8192);
  EXPECT_EQ((*guest)->fd(), -1) << "a worker with many streams would run out of descriptors";
}

TEST(ArenaDeathTest, AGuestTouchesOpenSlotsAlone) {
  const auto owner = Arena::Create(8192, 3).value();
  const auto guest = Arena::Attach(Duplicate(owner->fd()), 8192, 3).value();
  ASSERT_TRUE(guest->Open(1).ok());
  guest->PrefaultClosed(0);
  auto* const slots = reinterpret_cast<volatile char*>(guest->slot(0));
  slots[8192] = 1;
  slots[16383] = 1;
  EXPECT_EXIT(slots[8191] = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT((void)slots[16384], testing::KilledBySignal(SIGSEGV), "");
  ASSERT_TRUE(guest->Close(1).ok());
  EXPECT_EXIT(slots[8192] = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EQ(owner->slot(1)[8191], std::byte{1});
}

TEST(ArenaTest, BeginsZeroed) {
  const auto arena = Arena::Create(4096, 1).value();
  arena->Prefault(0);
  for (int i = 0; i < 4096; ++i) ASSERT_EQ(arena->slot(0)[i], std::byte{0});
}

TEST(ArenaTest, RefusesShapesThatMakeNoSense) {
  EXPECT_FALSE(Arena::Create(0, 1).ok());
  EXPECT_FALSE(Arena::Create(4096, 0).ok());
  EXPECT_FALSE(Arena::Create(4097, 1).ok());
  EXPECT_FALSE(Arena::Create(uint64_t{1} << 62, 5).ok());
}

TEST(ArenaTest, RefusesMemoryThatIsTooSmall) {
  const auto owner = Arena::Create(4096, 2).value();
  EXPECT_FALSE(Arena::Attach(Duplicate(owner->fd()), 4096, 3).ok());
}

}  // namespace
}  // namespace bulkhead
