#include "server/arena/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>

namespace bulkhead {
namespace {

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(ArenaTest, BothSidesSeeTheSameSlots) {
  const auto owner = Arena::Create(8192, 3);
  ASSERT_TRUE(owner.ok());
  const auto guest = Arena::Attach(Duplicate((*owner)->fd()), 8192, 3);
  ASSERT_TRUE(guest.ok());
  std::memcpy((*guest)->slot(2), "batch", 5);
  EXPECT_EQ(std::memcmp((*owner)->slot(2), "batch", 5), 0);
  EXPECT_EQ((*owner)->slot(2) - (*owner)->slot(0), 2 * 8192);
  EXPECT_EQ((*owner)->bytes(), 3 * 8192);
  EXPECT_EQ((*guest)->fd(), -1) << "a worker with many streams would run out of descriptors";
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
