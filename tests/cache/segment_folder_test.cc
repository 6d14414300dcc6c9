#include "server/cache/segment_folder.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "tests/cache/cache_fixture.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSmall = Segment::kLeastBytes;

class SegmentFolderTest : public CacheFixture {
 protected:
  SegmentFolder::Config Config(uint64_t most_bytes = 16 * kSmall) const {
    return {folder_, "seek", most_bytes, kSmall, 4 * kSmall};
  }

  static void Fill(const SegmentFolder::Segment& segment) {
    auto writer = bulkhead::Segment::OpenForWriting(segment.writing.get());
    ASSERT_TRUE(writer.ok());
    while (writer->Add(Key(writer->values()), Value(1, 1000))) {
    }
  }

  size_t FileCount() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }
};

TEST_F(SegmentFolderTest, LendsEachWriterASegmentOfItsOwn) {
  const auto folder = SegmentFolder::Open(Config());
  std::set<uint64_t> ids;
  for (int i = 0; i < 3; ++i) {
    const auto lent = folder->Lend();
    ASSERT_TRUE(lent.ok());
    ids.insert((*lent)->id);
    EXPECT_TRUE(bulkhead::Segment::OpenForWriting((*lent)->writing.get()).ok());
    EXPECT_TRUE(bulkhead::Segment::OpenForReading((*lent)->reading.get()).ok());
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(folder->segments().size(), 3u);
}

TEST_F(SegmentFolderTest, LendsWhatWasGivenBackUntilItIsFull) {
  const auto folder = SegmentFolder::Open(Config());
  const auto first = folder->Lend();
  ASSERT_TRUE(first.ok());
  const uint64_t id = (*first)->id;
  folder->GiveBack(id);
  const auto again = folder->Lend();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->id, id);
  Fill(**again);
  folder->GiveBack(id);
  const auto next = folder->Lend();
  ASSERT_TRUE(next.ok());
  EXPECT_NE((*next)->id, id);
}

TEST_F(SegmentFolderTest, GrowsWithWhatIsThere) {
  const auto folder = SegmentFolder::Open(Config(100 * kSmall));
  std::vector<uint64_t> sizes;
  for (int i = 0; i < 5; ++i) sizes.push_back((*folder->Lend())->bytes / kSmall);
  EXPECT_EQ(sizes, (std::vector<uint64_t>{1, 1, 2, 4, 4}));
}

TEST_F(SegmentFolderTest, FindsTheSegmentsOfEarlierRuns) {
  {
    const auto folder = SegmentFolder::Open(Config());
    Fill(**folder->Lend());
    ASSERT_TRUE(folder->Lend().ok());
  }
  std::ofstream(Path("seek-damaged.segment")) << "nonsense";
  std::ofstream(Path("else.index")) << "not ours";
  const auto folder = SegmentFolder::Open(Config());
  EXPECT_EQ(folder->segments().size(), 2u);
  EXPECT_EQ(FileCount(), 3u) << "the damaged one is gone";
  const auto lent = folder->Lend();
  ASSERT_TRUE(lent.ok());
  EXPECT_TRUE((*lent)->earlier) << "the one that has room";
  EXPECT_EQ(folder->segments().size(), 2u);
}

TEST_F(SegmentFolderTest, DoesNotWriteWhereAnotherServiceDoes) {
  const auto one = SegmentFolder::Open(Config());
  ASSERT_TRUE(one->Lend().ok());
  auto other = SegmentFolder::Open(Config());
  EXPECT_EQ(other->segments().size(), 1u) << "it is read by all";
  const auto lent = other->Lend();
  ASSERT_TRUE(lent.ok());
  EXPECT_FALSE((*lent)->earlier);
  EXPECT_EQ(FileCount(), 2u);
}

TEST_F(SegmentFolderTest, StaysWithinItsBound) {
  const auto folder = SegmentFolder::Open(Config(3 * kSmall + kSmall / 2));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(folder->Lend().ok());
  EXPECT_EQ(folder->segments().back()->bytes, kSmall + kSmall / 2) << "what was left";
  const auto none = folder->Lend();
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FileCount(), 3u);
}

TEST_F(SegmentFolderTest, MakesLargerSegmentsUnderALargeBound) {
  SegmentFolder::Config config = Config(SegmentFolder::kManySegments * 8 * kSmall);
  const auto folder = SegmentFolder::Open(config);
  while (folder->segments().size() < 6) {
    const auto lent = folder->Lend();
    ASSERT_TRUE(lent.ok());
  }
  EXPECT_EQ(folder->segments().back()->bytes, 8 * kSmall) << "not the 4 of the configuration";
}

TEST_F(SegmentFolderTest, MakesNoMoreThanAProcessMayHaveOpen) {
  // Under a bound that is raised from run to run.
  absl::Status status;
  for (const uint64_t bound : {64, 128, 256, 512}) {
    SegmentFolder::Config config = Config(bound * kSmall);
    config.largest_bytes = kSmall;
    const auto folder = SegmentFolder::Open(config);
    do {
      status = folder->Lend().status();
    } while (status.ok());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), testing::HasSubstr("128 segments"));
  EXPECT_EQ(FileCount(), 2 * SegmentFolder::kManySegments);
}

TEST_F(SegmentFolderTest, MakesRoomByWhatEarlierRunsLeft) {
  {
    const auto folder = SegmentFolder::Open(Config(3 * kSmall));
    Fill(**folder->Lend());
    Fill(**folder->Lend());
  }
  const auto folder = SegmentFolder::Open(Config(3 * kSmall));
  // There is room for one more, then the two of the earlier run make room, and what this run has
  // made stays.
  for (int i = 0; i < 3; ++i) {
    const auto lent = folder->Lend();
    ASSERT_TRUE(lent.ok()) << i;
    EXPECT_FALSE((*lent)->earlier);
    Fill(**lent);
    folder->GiveBack((*lent)->id);
  }
  EXPECT_EQ(folder->Lend().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FileCount(), 3u);
}

TEST_F(SegmentFolderTest, SaysWhyNothingCanBeMade) {
  SegmentFolder::Config config = Config();
  config.folder = Path("missing");
  const auto folder = SegmentFolder::Open(config);
  EXPECT_FALSE(folder->Lend().ok());
}

}  // namespace
}  // namespace bulkhead
