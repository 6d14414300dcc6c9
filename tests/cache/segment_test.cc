#include "server/cache/segment.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <optional>
#include <thread>

#include "tests/cache/cache_fixture.h"

namespace bulkhead {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 20;

class SegmentTest : public CacheFixture {};

TEST_F(SegmentTest, GivesBackWhatWasAdded) {
  const UniqueFd fd = MakeSegment(kBytes);
  auto writer = Segment::OpenForWriting(fd.get());
  const auto reader = Segment::OpenForReading(fd.get());
  ASSERT_TRUE(writer.ok() && reader.ok());
  std::string value;
  EXPECT_FALSE(reader->Find(Key(1), value));
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(writer->Add(Key(i), Value(i, i)));
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(reader->Find(Key(i), value)) << i;
    EXPECT_EQ(value, Value(i, i));
  }
  EXPECT_FALSE(reader->Find(Key(300), value));
  EXPECT_FALSE(reader->Find({{1, 0}}, value)) << "half of a key";
}

TEST_F(SegmentTest, HoldsAnEmptyValue) {
  const UniqueFd fd = MakeSegment(kBytes);
  auto writer = Segment::OpenForWriting(fd.get());
  ASSERT_TRUE(writer->Add(Key(1), ""));
  std::string value = "before";
  EXPECT_TRUE(writer->Find(Key(1), value));
  EXPECT_EQ(value, "");
}

TEST_F(SegmentTest, GivesThePartThatIsChosenByTheHead) {
  const UniqueFd fd = MakeSegment(kBytes);
  auto writer = Segment::OpenForWriting(fd.get());
  std::string buffer;
  std::string part;
  std::string seen;
  const auto find = [&](uint64_t key, ValuePart chosen, absl::string_view wanted_head = "") {
    const auto found = writer->FindPart(
        Key(key), 4,
        [&](absl::string_view head) -> std::optional<ValuePart> {
          seen = std::string(head);
          if (!wanted_head.empty() && head != wanted_head) return std::nullopt;
          return chosen;
        },
        buffer);
    part = std::string(found.value_or(""));
    return found.has_value();
  };
  EXPECT_FALSE(find(1, {0, 1}));
  ASSERT_TRUE(writer->Add(Key(1), "damaged-value"));
  ASSERT_TRUE(writer->Add(Key(2), "of another"));
  ASSERT_TRUE(writer->Add(Key(1), "good-value"));
  ASSERT_TRUE(writer->Add(Key(3), "ab"));
  ASSERT_TRUE(find(1, {8, 5}));
  EXPECT_EQ(seen, "dama");
  EXPECT_EQ(part, "value");
  ASSERT_TRUE(find(1, {5, 5}, "good")) << "the one that was made anew";
  EXPECT_EQ(part, "value");
  EXPECT_FALSE(find(1, {5, 6}, "good")) << "beyond its end";
  EXPECT_FALSE(find(1, {11, 0}, "good"));
  EXPECT_FALSE(find(1, {0, 1}, "none"));
  ASSERT_TRUE(find(3, {1, 1}));
  EXPECT_EQ(seen, "ab") << "all there is";
  EXPECT_EQ(part, "b");
}

TEST_F(SegmentTest, GoesOnWhereTheLastWriterStopped) {
  const UniqueFd fd = MakeSegment(kBytes);
  for (uint64_t i = 0; i < 20; ++i) {
    auto writer = Segment::OpenForWriting(fd.get());
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(writer->values(), i);
    ASSERT_TRUE(writer->Add(Key(i), Value(i, 1000)));
  }
  const auto reader = Segment::OpenForReading(fd.get());
  std::string value;
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(reader->Find(Key(i), value));
    EXPECT_EQ(value, Value(i, 1000));
  }
}

TEST_F(SegmentTest, SaysWhenItIsFull) {
  for (const size_t bytes : {10, 5000}) {  // slots, and then bytes, come to an end
    const UniqueFd fd = MakeSegment(kBytes, absl::StrCat(bytes));
    auto writer = Segment::OpenForWriting(fd.get());
    EXPECT_FALSE(Segment::IsFull(fd.get()));
    uint64_t added = 0;
    while (writer->Add(Key(added), Value(added, bytes))) ++added;
    EXPECT_GT(added, 150u);
    EXPECT_TRUE(writer->full());
    EXPECT_TRUE(Segment::IsFull(fd.get()));
    std::string value;
    for (uint64_t i = 0; i < added; ++i) {
      ASSERT_TRUE(writer->Find(Key(i), value));
      EXPECT_EQ(value, Value(i, bytes));
    }
    struct stat info;
    ASSERT_EQ(fstat(fd.get(), &info), 0);
    EXPECT_EQ(static_cast<uint64_t>(info.st_size), kBytes);
  }
}

TEST_F(SegmentTest, IsNotFullForAValueThatIsTooLarge) {
  const UniqueFd fd = MakeSegment(kBytes);
  auto writer = Segment::OpenForWriting(fd.get());
  EXPECT_TRUE(writer->Add(Key(0), "small"));
  EXPECT_FALSE(writer->Add(Key(1), Value(1, kBytes / 2 + 1)));
  EXPECT_FALSE(writer->full());
  EXPECT_TRUE(writer->Add(Key(2), Value(2, kBytes / 2 - 10)));
}

TEST_F(SegmentTest, MakesWayWhereAllValuesAreTooLarge) {
  const UniqueFd fd = MakeSegment(kBytes);
  auto writer = Segment::OpenForWriting(fd.get());
  EXPECT_FALSE(writer->Add(Key(1), Value(1, kBytes / 2 + 1)));
  EXPECT_TRUE(writer->full());
}

TEST_F(SegmentTest, TakesItsBlocksFromTheDiskWhenItIsMade) {
  const UniqueFd fd = MakeSegment(kBytes);
  struct stat info;
  ASSERT_EQ(fstat(fd.get(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, kBytes);
}

TEST_F(SegmentTest, LeavesNoValuesInTheProcess) {
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("RssFile:", 0) == 0) return std::stol(line.substr(8));
    }
    return -1L;
  };
  constexpr uint64_t kLarge = uint64_t{64} << 20;
  const UniqueFd fd = MakeSegment(kLarge);
  auto writer = Segment::OpenForWriting(fd.get());
  const auto reader = Segment::OpenForReading(fd.get());
  const long before = resident_kib();
  std::string value;
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(writer->Add(Key(i), Value(i, 200'000)));
    ASSERT_TRUE(reader->Find(Key(i), value));
    ASSERT_EQ(value, Value(i, 200'000));
  }
  EXPECT_LT(resident_kib() - before, 8 * 1024) << "of 80 MB that were touched";
}

TEST_F(SegmentTest, IsReadByAnotherProcessWhileItIsWritten) {
  const UniqueFd fd = MakeSegment(kBytes);
  auto writer = Segment::OpenForWriting(fd.get());
  constexpr uint64_t kValues = 500;
  const pid_t child = fork();
  if (child == 0) {
    const auto reader = Segment::OpenForReading(fd.get());
    std::string value;
    for (uint64_t i = 0; i < kValues; ++i) {
      while (!reader->Find(Key(i), value)) std::this_thread::yield();
      if (value != Value(i, 1000)) _exit(1);
    }
    _exit(0);
  }
  for (uint64_t i = 0; i < kValues; ++i) ASSERT_TRUE(writer->Add(Key(i), Value(i, 1000)));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(SegmentTest, NeverGivesAWrongValueWhateverStandsInTheFile) {
  const UniqueFd fd = MakeSegment(Segment::kLeastBytes);
  {
    auto writer = Segment::OpenForWriting(fd.get());
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(writer->Add(Key(i), Value(i, 100)));
  }
  std::string good(Segment::kLeastBytes, '\0');
  ASSERT_EQ(pread(fd.get(), good.data(), good.size(), 0), static_cast<ssize_t>(good.size()));
  uint64_t lost = 0;
  for (size_t at = 64; at < 64 + 64 * 32 + 20 * 110; ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    ASSERT_EQ(pwrite(fd.get(), bad.data(), bad.size(), 0), static_cast<ssize_t>(bad.size()));
    const auto reader = Segment::OpenForReading(fd.get());
    ASSERT_TRUE(reader.ok());
    std::string value;
    for (uint64_t i = 0; i < 20; ++i) {
      if (reader->Find(Key(i), value)) {
        ASSERT_EQ(value, Value(i, 100));
      } else {
        ++lost;
      }
    }
    // And it can be written to, without an end to it.
    auto writer = Segment::OpenForWriting(fd.get());
    for (uint64_t i = 100; i < 400 && writer->Add(Key(i), Value(i, 10)); ++i) {
      if (writer->Find(Key(i), value)) ASSERT_EQ(value, Value(i, 10));
    }
  }
  EXPECT_GT(lost, 1000u);
}

TEST_F(SegmentTest, ALengthThatIsDamagedTakesNoMemory) {
  const UniqueFd fd = MakeSegment(uint64_t{64} << 20);
  const std::string large = Value(2, 3 << 20);
  {
    auto writer = Segment::OpenForWriting(fd.get());
    ASSERT_TRUE(writer->Add(Key(1), Value(1, 100)) && writer->Add(Key(2), large));
  }
  constexpr off_t kSlotBytes = 32;
  constexpr off_t kPlaceOfLength = 20;
  uint32_t length = 0;
  for (off_t slot = 64; length != Value(1, 100).size(); slot += kSlotBytes) {
    ASSERT_EQ(pread(fd.get(), &length, sizeof(length), slot + kPlaceOfLength), 4);
    if (length != Value(1, 100).size()) continue;
    const uint32_t damaged = length | (uint32_t{1} << 25);
    ASSERT_EQ(pwrite(fd.get(), &damaged, sizeof(damaged), slot + kPlaceOfLength), 4);
  }
  const auto reader = Segment::OpenForReading(fd.get());
  std::string value;
  EXPECT_FALSE(reader->Find(Key(1), value));
  EXPECT_LT(value.capacity(), size_t{1} << 20);
  ASSERT_TRUE(reader->Find(Key(2), value)) << "a value that is as long as it says";
  EXPECT_EQ(value, large);
}

TEST_F(SegmentTest, RefusesWhatIsNone) {
  const UniqueFd empty = OpenFile(Path("empty"));
  EXPECT_EQ(Segment::OpenForReading(empty.get()).status().code(), absl::StatusCode::kDataLoss);
  const UniqueFd fd = MakeSegment(kBytes);
  for (const size_t at : {0, 9, 17, 25}) {  // magic, bytes, slots, checksum
    char before = 0;
    ASSERT_EQ(pread(fd.get(), &before, 1, static_cast<off_t>(at)), 1);
    const char after = static_cast<char>(before ^ 1);
    ASSERT_EQ(pwrite(fd.get(), &after, 1, static_cast<off_t>(at)), 1);
    EXPECT_EQ(Segment::OpenForWriting(fd.get()).status().code(), absl::StatusCode::kDataLoss);
    ASSERT_EQ(pwrite(fd.get(), &before, 1, static_cast<off_t>(at)), 1);
  }
  EXPECT_TRUE(Segment::OpenForReading(fd.get()).ok());
  // Shorter than its header says.
  ASSERT_EQ(ftruncate(fd.get(), kBytes / 2), 0);
  EXPECT_FALSE(Segment::OpenForReading(fd.get()).ok());
  EXPECT_FALSE(Segment::Format(fd.get(), 100).ok());
  EXPECT_EQ(Segment::Format(fd.get(), Segment::kMostBytes + 1).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SegmentTest, AFileThatWasCutIsAMissAndNoCrash) {
  const UniqueFd fd = MakeSegment(kBytes);
  auto writer = Segment::OpenForWriting(fd.get());
  const auto reader = Segment::OpenForReading(fd.get());
  ASSERT_TRUE(writer.ok() && reader.ok());
  ASSERT_TRUE(writer->Add(Key(1), Value(1, 100'000)));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  std::string value;
  EXPECT_FALSE(reader->Find(Key(1), value));
  EXPECT_FALSE(writer->Add(Key(2), Value(2, 1000)));
  EXPECT_TRUE(writer->full()) << "another one is needed";
  EXPECT_FALSE(Segment::OpenForReading(fd.get()).ok());
}

}  // namespace
}  // namespace bulkhead
