// TFRecord files in GZIP and ZLIB: restart points, members, and damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "server/base/random.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

// Text that compresses about as well as real data does: deflate blocks of several kinds.
std::string SomeValue(uint64_t number, size_t size) {
  SampleRandom random(7, 0, number, 0);
  std::string value;
  while (value.size() < size) {
    if (random.NextBelow(3) == 0) {
      value.append(random.NextBelow(200), static_cast<char>(random.Next32()));
    } else {
      absl::StrAppend(&value, random.NextBelow(1000), " ");
    }
  }
  value.resize(size);
  return value;
}

size_t SizeOf(uint64_t number) { return (number * 7919) % 60'000; }

std::string WriteRecords(const std::string& path, v1::Compression compression, int first,
                         int count) {
  auto writer = TfRecordWriter::Create(path, compression);
  EXPECT_TRUE(writer.ok());
  for (int i = first; i < first + count; ++i) {
    EXPECT_TRUE((*writer)->Write(ExampleOf(SomeValue(i, SizeOf(i)))).ok());
  }
  EXPECT_TRUE((*writer)->Close().ok());
  return path;
}

// Reads the records in a scattered order, in order, and backwards with fresh contexts.
void ExpectEveryRecord(const TestSource& test, uint64_t count) {
  const auto source = test.Open();
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->record_count(), count);
  const auto context = (*source)->NewContext();
  Record record;
  const auto expect = [&](uint64_t i, ReadContext& with) {
    const absl::Status status = (*source)->Read(i, with, record);
    ASSERT_TRUE(status.ok()) << i << ": " << status;
    ASSERT_EQ(Text(record.values[0]), SomeValue(i, SizeOf(i))) << i;
  };
  for (uint64_t i = 0; i < count; i += 7) expect((i * 271) % count, *context);
  for (uint64_t i = 0; i < count; ++i) expect(i, *context);
  for (uint64_t i = count; i > 0; i -= std::min<uint64_t>(i, 61)) {
    const auto fresh = (*source)->NewContext();
    expect(i - 1, *fresh);
  }
}

class CompressedTfRecordTest : public ::testing::TestWithParam<v1::Compression> {};

TEST_P(CompressedTfRecordTest, RandomAccessGivesWhatSequentialReadingGives) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  const auto records = test.Index(WriteRecords(folder / "a.tfrecord", GetParam(), 0, 600));
  ASSERT_TRUE(records.ok()) << records.status();
  // About 18 MB of output: restart points were made, each with a window of 32 KiB.
  EXPECT_GT(std::filesystem::file_size(test.resolved.files(0).index_path()), 3u * 32768);
  ExpectEveryRecord(test, 600);
}

TEST_P(CompressedTfRecordTest, TruncationAtAnyByteIsATypedError) {
  const TempFolder folder;
  const std::string path = folder / "whole.tfrecord";
  auto writer = TfRecordWriter::Create(path, GetParam());
  ASSERT_TRUE(writer.ok());
  for (const char* value : {"first", "second", "third"}) {
    ASSERT_TRUE((*writer)->Write(ExampleOf(value)).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
  const std::string good = ReadFile(path);
  for (size_t size = 1; size < good.size(); ++size) {
    TestSource test = MakeTfRecordSource();
    test.source.mutable_tfrecord()->set_compression(GetParam());
    const auto records = test.Index(folder.Write("cut.tfrecord", good.substr(0, size)));
    ASSERT_FALSE(records.ok()) << size;
    EXPECT_EQ(ReasonOf(records.status()), reason::kTruncatedRecord) << size << records.status();
    EXPECT_FALSE(IsSampleError(records.status()));
  }
}

TEST_P(CompressedTfRecordTest, DamageOfAnyByteIsATypedErrorOrHarmless) {
  const TempFolder folder;
  const std::string path = folder / "whole.tfrecord";
  auto writer = TfRecordWriter::Create(path, GetParam());
  ASSERT_TRUE(writer.ok());
  for (const char* value : {"first", "second", "third"}) {
    ASSERT_TRUE((*writer)->Write(ExampleOf(value)).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
  const std::string good = ReadFile(path);
  int refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 0x20;
    TestSource test = MakeTfRecordSource();
    test.source.mutable_tfrecord()->set_compression(GetParam());
    const auto records = test.Index(folder.Write("bad.tfrecord", bad));
    if (records.ok()) {
      EXPECT_EQ(*records, 3) << at;  // a byte of gzip's header that says nothing
      continue;
    }
    ++refused;
    EXPECT_THAT(ReasonOf(records.status()),
                ::testing::AnyOf(reason::kCorruptRecord, reason::kTruncatedRecord))
        << at << records.status();
    EXPECT_NE(MetadataOf(records.status(), "offset"), "");
  }
  EXPECT_GT(refused, static_cast<int>(good.size()) - 10);
}

INSTANTIATE_TEST_SUITE_P(Both, CompressedTfRecordTest,
                         ::testing::Values(v1::COMPRESSION_GZIP, v1::COMPRESSION_ZLIB),
                         [](const auto& info) {
                           return info.param == v1::COMPRESSION_GZIP ? "Gzip" : "Zlib";
                         });

TEST(CompressedTfRecordTest, ReadsAGzipFileOfThreeMembers) {
  const TempFolder folder;
  std::string bytes;
  for (int part = 0; part < 3; ++part) {
    bytes += ReadFile(WriteRecords(folder / "part", v1::COMPRESSION_GZIP, part * 200, 200));
  }
  TestSource test = MakeTfRecordSource();
  const auto records = test.Index(folder.Write("joined.tfrecord", bytes));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, 600);
  ExpectEveryRecord(test, 600);
}

TEST(CompressedTfRecordTest, FindsARecordThatSpansGzipMembers) {
  const TempFolder folder;
  // Each member holds a third of the frames' bytes, wherever that cuts them.
  std::string frames;
  for (int i = 0; i < 90; ++i) frames += TfRecordFrame(ExampleOf(SomeValue(i, SizeOf(i))));
  std::string bytes;
  for (int part = 0; part < 3; ++part) {
    const size_t begin = frames.size() * part / 3;
    const size_t end = frames.size() * (part + 1) / 3;
    folder.Write("part", frames.substr(begin, end - begin));
    ASSERT_EQ(system(absl::StrCat("gzip -kf ", folder / "part").c_str()), 0);
    bytes += ReadFile(folder / "part.gz");
  }
  TestSource test = MakeTfRecordSource();
  const auto records = test.Index(folder.Write("joined.tfrecord", bytes));
  ASSERT_TRUE(records.ok()) << records.status();
  ExpectEveryRecord(test, 90);
}

TEST(CompressedTfRecordTest, ProgressIsReportedWithinARecordThatIsFarLargerThanItsBytes) {
  const TempFolder folder;
  const std::string path = folder / "large.tfrecord";
  auto writer = TfRecordWriter::Create(path, v1::COMPRESSION_GZIP);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write(std::string(size_t{200} << 20, '\0')).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  std::vector<uint64_t> seen;
  TestSource test = MakeTfRecordSource();
  const auto records = test.Index(path, [&](uint64_t, uint64_t bytes) { seen.push_back(bytes); });
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_LT(seen[0], seen[1]);
  EXPECT_LT(seen[1], seen[2]);
}

TEST(CompressedTfRecordTest, GarbageBehindTheLastMemberIsRefused) {
  const TempFolder folder;
  const std::string bytes =
      ReadFile(WriteRecords(folder / "a", v1::COMPRESSION_GZIP, 0, 3)) + "garbage";
  TestSource test = MakeTfRecordSource();
  const auto records = test.Index(folder.Write("tail.tfrecord", bytes));
  EXPECT_EQ(ReasonOf(records.status()), reason::kCorruptRecord);
}

TEST(CompressedTfRecordTest, PlainFileDeclaredAsGzipIsRefusedWithAnExplanation) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  test.source.mutable_tfrecord()->set_compression(v1::COMPRESSION_GZIP);
  const auto records = test.Index(WriteRecords(folder / "a", v1::COMPRESSION_NONE, 0, 2));
  EXPECT_EQ(ReasonOf(records.status()), reason::kCorruptRecord);
  EXPECT_THAT(std::string(records.status().message()),
              ::testing::HasSubstr("compression is gzip, but the file's first bytes say none"));
}

TEST(CompressedTfRecordTest, ReadsOnAfterAnErrorInTheMiddle) {
  const TempFolder folder;
  const std::string path = WriteRecords(folder / "a", v1::COMPRESSION_GZIP, 0, 400);
  TestSource test = MakeTfRecordSource();
  ASSERT_TRUE(test.Index(path).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  ASSERT_TRUE((*source)->Read(0, *context, record).ok());
  // Damage the file's end in place: what lies before it must still be readable by this context.
  std::string bytes = ReadFile(path);
  const size_t at = bytes.size() - bytes.size() / 8;
  for (size_t i = 0; i < 64; ++i) bytes[at + i] ^= 0x55;
  folder.Damage("a", bytes);
  absl::Status status;
  for (uint64_t i = 300; i < 400 && status.ok(); ++i) status = (*source)->Read(i, *context, record);
  ASSERT_TRUE(IsSampleError(status)) << status;
  EXPECT_EQ(ReasonOf(status), reason::kCorruptRecord);
  ASSERT_TRUE((*source)->Read(5, *context, record).ok());
  EXPECT_EQ(Text(record.values[0]), SomeValue(5, SizeOf(5)));
}

}  // namespace
}  // namespace bulkhead
