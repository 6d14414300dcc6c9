// Memory that a stage maps by itself. This program runs under the tracker, as bulkhead-worker does.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/worker/allocation_tracker_fixture.h"

namespace bulkhead {
namespace {

TEST(AllocationTrackerTest, MappingsAreCountedUntilTheyAreUnmapped) {
  char* mapped = nullptr;
  EXPECT_EQ(LeftBy([&] { mapped = static_cast<char*>(MapPages(5 * 4096 - 100)); }),
            (Live{5 * 4096, 1}));
  EXPECT_EQ(LeftBy([&] { munmap(mapped + 4096, 4096); }), (Live{-4096, 1}));  // now there are two
  const Live before = LiveIn(kStage);
  RunIn(kOther, [&] { munmap(mapped, 5 * 4096); });
  EXPECT_EQ(LiveIn(kStage), (Live{before.bytes - 4 * 4096, before.blocks - 2}));
  EXPECT_EQ(LeftBy([&] { EXPECT_EQ(munmap(mapped + 1, 4096), -1); }), (Live{0, 0}));
}

TEST(AllocationTrackerTest, AMappingIsAnAllocationAndWhatIsLeftOfItIsNone) {
  const uint64_t before = AllocationsIn(kStage);
  char* mapped = nullptr;
  RunIn(kStage, [&] { mapped = static_cast<char*>(MapPages(5 * 4096)); });
  EXPECT_EQ(AllocationsIn(kStage), before + 1);
  RunIn(kStage, [&] { munmap(mapped + 4096, 4096); });  // now there are two
  EXPECT_EQ(AllocationsIn(kStage), before + 1);
  munmap(mapped, 5 * 4096);
}

TEST(AllocationTrackerTest, RemappedPagesStayWithTheirStage) {
  void* mapped = nullptr;
  ASSERT_EQ(LeftBy([&] { mapped = MapPages(2 * 4096); }), (Live{2 * 4096, 1}));
  const Live before = LiveIn(kStage);
  RunIn(kOther, [&] { mapped = mremap(mapped, 2 * 4096, 64 * 4096, MREMAP_MAYMOVE); });
  EXPECT_EQ(LiveIn(kStage), (Live{before.bytes + 62 * 4096, before.blocks}));
  EXPECT_EQ(LeftBy([&] { munmap(mapped, 64 * 4096); }), (Live{-64 * 4096, -1}));
}

TEST(AllocationTrackerTest, PagesPutOverOthersTakeTheirPlace) {
  char* mapped = nullptr;
  RunIn(kOther, [&] { mapped = static_cast<char*>(MapPages(4 * 4096)); });
  const Live other = LiveIn(kOther);
  const Live left = LeftBy([&] {
    mmap(mapped, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  });
  EXPECT_EQ(left, (Live{4096, 1}));
  EXPECT_EQ(LiveIn(kOther), (Live{other.bytes - 4096, other.blocks}));
  munmap(mapped, 4 * 4096);
}

TEST(AllocationTrackerTest, OnlyPrivateMemoryIsCountedAndOnce) {
  const Live none{0, 0};
  EXPECT_EQ(LeftBy([] { MapPages(8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS); }),
            none);
  EXPECT_EQ(LeftBy([] { MapPages(8192, PROT_NONE); }), none);
  void* large = nullptr;  // glibc maps it
  const Live left = LeftBy([&] { large = std::malloc(64 * kMiB); });
  EXPECT_EQ(left.blocks, 1);
  EXPECT_LT(left.bytes, 65 * kMiB);
  std::free(large);
}

}  // namespace
}  // namespace bulkhead
