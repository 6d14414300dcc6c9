#include "server/cache/segment_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "tests/cache/cache_fixture.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSmall = Segment::kLeastBytes;
const std::string kShared = SegmentFolder::kBuiltIn;

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
    const auto lent = folder->Lend(kShared);
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
  const auto first = folder->Lend(kShared);
  ASSERT_TRUE(first.ok());
  const uint64_t id = (*first)->id;
  folder->GiveBack(id);
  const auto again = folder->Lend(kShared);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->id, id);
  Fill(**again);
  folder->GiveBack(id);
  const auto next = folder->Lend(kShared);
  ASSERT_TRUE(next.ok());
  EXPECT_NE((*next)->id, id);
}

TEST_F(SegmentFolderTest, GrowsWithWhatIsFull) {
  const auto folder = SegmentFolder::Open(Config(100 * kSmall));
  std::vector<uint64_t> sizes;
  for (int i = 0; i < 5; ++i) {
    const auto lent = *folder->Lend(kShared);
    sizes.push_back(lent->bytes / kSmall);
    Fill(*lent);
  }
  EXPECT_EQ(sizes, (std::vector<uint64_t>{1, 1, 2, 4, 4}));
}

TEST_F(SegmentFolderTest, ManyWritersThatKeepLittleGetSmallOnes) {
  const auto folder = SegmentFolder::Open(Config(100 * kSmall));
  for (int i = 0; i < 8; ++i) EXPECT_EQ((*folder->Lend(kShared))->bytes, kSmall);
}

TEST_F(SegmentFolderTest, FindsTheSegmentsOfEarlierRuns) {
  {
    const auto folder = SegmentFolder::Open(Config());
    Fill(**folder->Lend(kShared));
    ASSERT_TRUE(folder->Lend(kShared).ok());
  }
  std::ofstream(Path("seek-damaged.segment")) << "nonsense";
  std::ofstream(Path("seek-builtin-damaged.segment")) << "nonsense";
  ASSERT_EQ(chmod(Path("seek-builtin-damaged.segment").c_str(), 0600), 0);
  std::ofstream(Path("else.index")) << "not ours";
  const auto folder = SegmentFolder::Open(Config());
  EXPECT_EQ(folder->segments().size(), 2u);
  EXPECT_EQ(FileCount(), 3u) << "the damaged ones are gone, and those of before there were domains";
  const auto lent = folder->Lend(kShared);
  ASSERT_TRUE(lent.ok());
  EXPECT_TRUE((*lent)->earlier) << "the one that has room";
  EXPECT_EQ(folder->segments().size(), 2u);
}

TEST_F(SegmentFolderTest, DoesNotWriteWhereAnotherServiceDoes) {
  const auto one = SegmentFolder::Open(Config());
  ASSERT_TRUE(one->Lend(kShared).ok());
  auto other = SegmentFolder::Open(Config());
  EXPECT_EQ(other->segments().size(), 1u) << "it is read by all";
  const auto lent = other->Lend(kShared);
  ASSERT_TRUE(lent.ok());
  EXPECT_FALSE((*lent)->earlier);
  EXPECT_EQ(FileCount(), 2u);
}

TEST_F(SegmentFolderTest, StaysWithinItsBound) {
  const auto folder = SegmentFolder::Open(Config(3 * kSmall + kSmall / 2));
  for (int i = 0; i < 3; ++i) {
    const auto lent = folder->Lend(kShared);
    ASSERT_TRUE(lent.ok());
    Fill(**lent);
  }
  EXPECT_EQ(folder->segments().back()->bytes, kSmall + kSmall / 2) << "what was left";
  const auto none = folder->Lend(kShared);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FileCount(), 3u);
}

TEST_F(SegmentFolderTest, ServicesThatShareAFolderStayWithinTheBoundTogether) {
  const auto one = SegmentFolder::Open(Config(6 * kSmall));
  const auto other = SegmentFolder::Open(Config(6 * kSmall));
  const auto fill = [](SegmentFolder& folder) {
    const auto lent = folder.Lend(kShared);
    if (lent.ok()) Fill(**lent);
    return lent.ok();
  };
  while (fill(*one) && fill(*other)) {
  }
  EXPECT_FALSE(fill(*one));
  EXPECT_FALSE(fill(*other));
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) bytes += entry.file_size();
  EXPECT_EQ(bytes, 6 * kSmall);
  EXPECT_EQ(one->segments().size(), FileCount()) << "and read what the other has";
  EXPECT_EQ(other->segments().size(), FileCount());
}

TEST_F(SegmentFolderTest, MakesLargerSegmentsUnderALargeBound) {
  SegmentFolder::Config config = Config(SegmentFolder::kManySegments * 8 * kSmall);
  const auto folder = SegmentFolder::Open(config);
  while (folder->segments().size() < 6) {
    const auto lent = folder->Lend(kShared);
    ASSERT_TRUE(lent.ok());
    Fill(**lent);
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
      status = folder->Lend(kShared).status();
    } while (status.ok());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), testing::HasSubstr("128 segments"));
  EXPECT_EQ(FileCount(), 2 * SegmentFolder::kManySegments);
}

TEST_F(SegmentFolderTest, MakesRoomByWhatEarlierRunsLeft) {
  {
    const auto folder = SegmentFolder::Open(Config(3 * kSmall));
    Fill(**folder->Lend(kShared));
    Fill(**folder->Lend(kShared));
  }
  const auto folder = SegmentFolder::Open(Config(3 * kSmall));
  // There is room for one more, then the two of the earlier run make room, and what this run has
  // made stays.
  for (int i = 0; i < 3; ++i) {
    const auto lent = folder->Lend(kShared);
    ASSERT_TRUE(lent.ok()) << i;
    EXPECT_FALSE((*lent)->earlier);
    Fill(**lent);
    folder->GiveBack((*lent)->id);
  }
  EXPECT_EQ(folder->Lend(kShared).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FileCount(), 3u);
}

TEST_F(SegmentFolderTest, EveryDomainHasSegmentsOfItsOwn) {
  std::string own;
  {
    const auto folder = SegmentFolder::Open(Config());
    const auto shared = folder->Lend(kShared);
    const auto lent = folder->Lend("f00");
    ASSERT_TRUE(shared.ok() && lent.ok());
    EXPECT_NE((*shared)->id, (*lent)->id);
    EXPECT_EQ((*lent)->domain, "f00");
    own = (*lent)->path;
    folder->GiveBack((*shared)->id);
    folder->GiveBack((*lent)->id);
    EXPECT_NE((*folder->Lend("ba5"))->path, own) << "though that one has room and no writer";
  }
  // Also after a restart.
  const auto folder = SegmentFolder::Open(Config());
  for (const auto& segment : folder->segments()) {
    EXPECT_EQ(segment->domain == "f00", segment->path == own) << segment->path;
  }
  EXPECT_NE((*folder->Lend(kShared))->path, own);
  EXPECT_EQ((*folder->Lend("f00"))->path, own);
}

TEST_F(SegmentFolderTest, DomainsThatNobodyWritesInMakeRoom) {
  const auto folder = SegmentFolder::Open(Config(3 * kSmall));
  const auto builtin = folder->Lend(kShared);
  const auto written = folder->Lend("f00");
  const auto abandoned = folder->Lend("ba5");
  ASSERT_TRUE(builtin.ok() && written.ok() && abandoned.ok());
  EXPECT_FALSE(folder->Lend("dead").ok());
  folder->GiveBack((*builtin)->id);
  folder->GiveBack((*abandoned)->id);
  EXPECT_TRUE(folder->Lend("dead").ok());
  std::set<std::string> left;
  for (const auto& segment : folder->segments()) left.insert(segment->domain);
  EXPECT_EQ(left, (std::set<std::string>{kShared, "f00", "dead"}));
}

TEST_F(SegmentFolderTest, WhatServesEveryPipelineMakesNoRoomForOne) {
  {
    const auto folder = SegmentFolder::Open(Config(3 * kSmall));
    Fill(**folder->Lend(kShared));
    Fill(**folder->Lend(kShared));
    Fill(**folder->Lend("f00"));
  }
  const auto folder = SegmentFolder::Open(Config(3 * kSmall));
  for (const std::string domain : {"ba5", "dead"}) {
    const auto lent = folder->Lend(domain);
    ASSERT_TRUE(lent.ok()) << "of what other code kept";
    EXPECT_FALSE(folder->Lend(domain).ok());
    folder->GiveBack((*lent)->id);
  }
  const auto domains = [&] {
    std::multiset<std::string> found;
    for (const auto& segment : folder->segments()) found.insert(segment->domain);
    return found;
  };
  EXPECT_EQ(domains(), (std::multiset<std::string>{kShared, kShared, "dead"}));
  ASSERT_TRUE(folder->Lend(kShared).ok());
  EXPECT_EQ(domains(), (std::multiset<std::string>{kShared, kShared, kShared}));
}

TEST_F(SegmentFolderTest, WhatServesNobodyElseMakesRoomForEveryDomain) {
  Fill(**SegmentFolder::Open(Config(kSmall))->Lend(kShared));
  SegmentFolder::Config config = Config(kSmall);
  EXPECT_FALSE(SegmentFolder::Open(config)->Lend("f00").ok());
  config.builtin_serves_all = false;
  EXPECT_TRUE(SegmentFolder::Open(config)->Lend("f00").ok());
}

TEST_F(SegmentFolderTest, WhatOthersRemovedIsNotCounted) {
  Fill(**SegmentFolder::Open(Config(2 * kSmall))->Lend(kShared));
  const auto folder = SegmentFolder::Open(Config(2 * kSmall));
  const auto lent = folder->Lend(kShared);
  ASSERT_TRUE(lent.ok());
  EXPECT_EQ(folder->segments().size(), 2u);
  std::filesystem::remove(folder->segments()[0]->path);
  const auto next = folder->Lend(kShared);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(folder->segments().size(), 2u);
}

TEST_F(SegmentFolderTest, FilesThatAreNotOursAreLeftAloneAndNamed) {
  for (const char* name : {"open", "link", "mine"}) {
    MakeSegment(kSmall, absl::StrCat("seek-builtin-", name, ".segment"));
  }
  ASSERT_EQ(chmod(Path("seek-builtin-open.segment").c_str(), 0644), 0);
  std::filesystem::rename(Path("seek-builtin-link.segment"), Path("elsewhere"));
  std::filesystem::create_symlink(Path("elsewhere"), Path("seek-builtin-link.segment"));
  ASSERT_EQ(mkfifo(Path("seek-builtin-pipe.segment").c_str(), 0600), 0);
  const auto folder = SegmentFolder::Open(Config());
  ASSERT_EQ(folder->segments().size(), 1u);
  EXPECT_EQ(folder->segments()[0]->path, Path("seek-builtin-mine.segment"));
  std::string refused;
  for (const absl::Status& status : folder->refused()) absl::StrAppend(&refused, status.message());
  EXPECT_THAT(refused, testing::HasSubstr("seek-builtin-open.segment is open to other users"));
  EXPECT_THAT(refused, testing::HasSubstr("seek-builtin-link.segment is a symbolic link"));
  EXPECT_THAT(refused, testing::HasSubstr("seek-builtin-pipe.segment is not a regular file"));
}

TEST_F(SegmentFolderTest, AFolderThatOthersMayWriteToByNowLendsNothing) {
  const auto folder = SegmentFolder::Open(Config());
  const auto first = folder->Lend(kShared);
  ASSERT_TRUE(first.ok());
  folder->GiveBack((*first)->id);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  // Whose lock is held need not be opened.
  EXPECT_TRUE(folder->Lend(kShared).ok());
  const absl::Status refused = folder->Lend(kShared).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("is open to other users"));
  EXPECT_TRUE(SegmentFolder::Open(Config())->segments().empty());
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  EXPECT_TRUE(folder->Lend(kShared).ok());
}

TEST_F(SegmentFolderTest, AFolderThatVanishedIsMadeAgain) {
  const auto folder = SegmentFolder::Open(Config());
  const auto before = folder->Lend(kShared);
  ASSERT_TRUE(before.ok());
  std::filesystem::remove_all(folder_);
  const auto after = folder->Lend(kShared);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(std::filesystem::exists((*after)->path));
  EXPECT_EQ(std::filesystem::status(folder_).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(bulkhead::Segment::OpenForWriting((*before)->writing.get()).ok()) << "who has it";
}

TEST_F(SegmentFolderTest, SaysWhyNothingCanBeMade) {
  SegmentFolder::Config config = Config();
  std::ofstream(Path("file")) << "no folder";
  config.folder = Path("file/missing");
  const auto folder = SegmentFolder::Open(config);
  EXPECT_FALSE(folder->Lend(kShared).ok());
}

}  // namespace
}  // namespace bulkhead
