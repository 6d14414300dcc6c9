// TFRecord files, uncompressed: indexing, reading, and every way in which a file can be damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string>& Values() {
  static const std::vector<std::string> values = {"first", "", "the third value"};
  return values;
}

// Three records; `ends` gets the offset behind each.
std::string ThreeRecords(std::vector<size_t>* ends = nullptr) {
  std::string file;
  for (const std::string& value : Values()) {
    file += TfRecordFrame(ExampleOf(value));
    if (ends != nullptr) ends->push_back(file.size());
  }
  return file;
}

TEST(TfRecordTest, ReadsRecordsOfSeveralFilesInAnyOrder) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  for (int file = 0; file < 3; ++file) {
    std::string bytes;
    for (int i = 0; i <= file; ++i) bytes += TfRecordFrame(ExampleOf(absl::StrCat(file, ".", i)));
    const auto records = test.Index(folder.Write(absl::StrCat(file, ".tfrecord"), bytes));
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_EQ(*records, file + 1);
  }
  const auto source = test.Open();
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->record_count(), 6);
  const auto context = (*source)->NewContext();
  Record record;
  const std::vector<std::string> expected = {"0.0", "1.0", "1.1", "2.0", "2.1", "2.2"};
  for (const uint64_t i : {5, 0, 3, 1, 4, 2, 2}) {
    ASSERT_TRUE((*source)->Read(i, *context, record).ok());
    EXPECT_EQ(Text(record.values[0]), expected[i]);
    EXPECT_EQ((*source)->RecordName(i), record.origin);
  }
  EXPECT_EQ(record.origin, absl::StrCat("1.tfrecord@", TfRecordFrame(ExampleOf("1.0")).size()));
}

TEST(TfRecordTest, ReadsMoreFilesThanItKeepsOpen) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  for (int i = 0; i < 70; ++i) {
    const std::string bytes = TfRecordFrame(ExampleOf(absl::StrCat(i)));
    ASSERT_TRUE(test.Index(folder.Write(absl::StrCat(i, ".tfrecord"), bytes)).ok());
  }
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 70; ++i) {
      ASSERT_TRUE((*source)->Read(i, *context, record).ok());
      EXPECT_EQ(Text(record.values[0]), absl::StrCat(i));
    }
  }
}

TEST(TfRecordTest, IndexWalksLargeAndSmallRecordsAlike) {
  const TempFolder folder;
  std::string bytes;
  std::vector<std::string> values;
  for (const size_t size : {100, 200'000, 1, 70'000, 33'000, 5, 300'000, 65'536, 65'519, 2}) {
    values.push_back(std::string(size, static_cast<char>('a' + values.size())));
    bytes += TfRecordFrame(ExampleOf(values.back()));
  }
  TestSource test = MakeTfRecordSource();
  ASSERT_TRUE(test.Index(folder.Write("a.tfrecord", bytes)).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE((*source)->Read(i, *context, record).ok());
    EXPECT_EQ(Text(record.values[0]), values[i]);
  }
}

TEST(TfRecordTest, TruncationAtAnyByteIsATypedErrorOrAShorterFile) {
  const TempFolder folder;
  std::vector<size_t> ends;
  const std::string good = ThreeRecords(&ends);
  for (size_t size = 0; size < good.size(); ++size) {
    TestSource test = MakeTfRecordSource();
    const auto records = test.Index(folder.Write("cut.tfrecord", good.substr(0, size)));
    const auto whole = std::find(ends.begin(), ends.end(), size);
    if (size == 0) {
      EXPECT_EQ(ReasonOf(records.status()), reason::kFileEmpty);
    } else if (whole != ends.end()) {
      ASSERT_TRUE(records.ok()) << size;
      EXPECT_EQ(*records, whole - ends.begin() + 1);
    } else {
      ASSERT_FALSE(records.ok()) << size;
      EXPECT_EQ(ReasonOf(records.status()), reason::kTruncatedRecord) << records.status();
      const size_t begin = size < ends[0] ? 0 : size < ends[1] ? ends[0] : ends[1];
      EXPECT_EQ(MetadataOf(records.status(), "offset"), absl::StrCat(begin));
      EXPECT_THAT(std::string(records.status().message()),
                  HasSubstr(absl::StrCat("cut.tfrecord@", begin)));
      EXPECT_FALSE(IsSampleError(records.status()));
    }
  }
}

TEST(TfRecordTest, FileCutAfterIndexingIsAChangedFileNotABadSample) {
  const TempFolder folder;
  const std::string good = ThreeRecords();
  const std::string path = folder.Write("a.tfrecord", good);
  TestSource test = MakeTfRecordSource();
  ASSERT_TRUE(test.Index(path).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  Record record;
  // Cut while it is open: the sizes agreed when it was opened.
  const auto open_before = (*source)->NewContext();
  ASSERT_TRUE((*source)->Read(0, *open_before, record).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(size)), 0);
    const absl::Status status = (*source)->Read(2, *open_before, record);
    EXPECT_EQ(ReasonOf(status), reason::kFileChanged) << size;
    EXPECT_FALSE(IsSampleError(status));
    const auto open_after = (*source)->NewContext();
    EXPECT_EQ(ReasonOf((*source)->Read(0, *open_after, record)), reason::kFileChanged);
    folder.Write("a.tfrecord", good);
  }
}

TEST(TfRecordTest, DamageOfAnyByteIsNoticedByTheIndexOrTheRead) {
  const TempFolder folder;
  std::vector<size_t> ends;
  const std::string good = ThreeRecords(&ends);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 0x04;
    const size_t number = at < ends[0] ? 0 : at < ends[1] ? 1 : 2;
    const size_t begin = number == 0 ? 0 : ends[number - 1];
    TestSource test = MakeTfRecordSource();
    const auto records = test.Index(folder.Write("bad.tfrecord", bad));
    if (at - begin < 12) {
      EXPECT_EQ(ReasonOf(records.status()), reason::kCorruptRecord) << at;
      EXPECT_EQ(MetadataOf(records.status(), "offset"), absl::StrCat(begin));
      continue;
    }
    ASSERT_TRUE(records.ok()) << at << records.status();
    const auto source = test.Open();
    ASSERT_TRUE(source.ok());
    const auto context = (*source)->NewContext();
    Record record;
    for (size_t i = 0; i < 3; ++i) {
      const absl::Status status = (*source)->Read(i, *context, record);
      if (i != number) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_EQ(ReasonOf(status), reason::kCorruptRecord) << at;
      EXPECT_TRUE(IsSampleError(status));
      EXPECT_EQ(MetadataOf(status, "file"), "bad.tfrecord");
      EXPECT_EQ(MetadataOf(status, "offset"), absl::StrCat(begin));
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("bad.tfrecord@", begin)));
    }
  }
}

TEST(TfRecordTest, DamageOfAnyByteAfterIndexingIsABadSample) {
  const TempFolder folder;
  std::vector<size_t> ends;
  const std::string good = ThreeRecords(&ends);
  const std::string path = folder.Write("a.tfrecord", good);
  TestSource test = MakeTfRecordSource();
  ASSERT_TRUE(test.Index(path).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  ASSERT_TRUE((*source)->Read(0, *context, record).ok());
  for (size_t at = 0; at < ends[0]; ++at) {
    std::string bad = good;
    bad[at] ^= 0x80;
    folder.Damage("a.tfrecord", bad);
    const absl::Status status = (*source)->Read(0, *context, record);
    EXPECT_EQ(ReasonOf(status), reason::kCorruptRecord) << at;
    EXPECT_TRUE(IsSampleError(status));
    EXPECT_TRUE((*source)->Read(1, *context, record).ok());
  }
}

TEST(TfRecordTest, RefusesAHugeLengthWithAValidChecksum) {
  const TempFolder folder;
  for (const uint64_t length :
       {uint64_t{1} << 60, UINT64_MAX, UINT64_MAX - 15, uint64_t{1} << 40}) {
    std::string bytes = TfRecordFrame(ExampleOf("good"));
    const size_t begin = bytes.size();
    std::string header;
    AppendLittle<uint64_t>(header, length);
    AppendLittle<uint32_t>(header, MaskCrc32c(Crc32c(header)));
    TestSource test = MakeTfRecordSource();
    const auto records = test.Index(folder.Write("huge.tfrecord", bytes + header + "some bytes"));
    EXPECT_EQ(ReasonOf(records.status()), reason::kTruncatedRecord) << length;
    EXPECT_EQ(MetadataOf(records.status(), "offset"), absl::StrCat(begin));
    EXPECT_THAT(std::string(records.status().message()), HasSubstr(absl::StrCat(length)));
  }
}

TEST(TfRecordTest, IdentityFollowsTheRecordsNotTheirCompression) {
  const TempFolder folder;
  std::vector<std::string> checksums;
  const auto add = [&](const std::string& name, v1::Compression compression, std::string last) {
    auto writer = TfRecordWriter::Create(folder / name, compression);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Write(ExampleOf("one")).ok());
    ASSERT_TRUE((*writer)->Write(ExampleOf(last)).ok());
    ASSERT_TRUE((*writer)->Close().ok());
    TestSource test = MakeTfRecordSource();
    ASSERT_TRUE(test.Index(folder / name).ok());
    const auto header = IndexHeader::Parse(ReadFile(test.resolved.files(0).index_path()));
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->kind, v1::Source::kTfrecord);
    EXPECT_EQ(header->record_count, 2);
    EXPECT_EQ(header->file_size_bytes, std::filesystem::file_size(folder / name));
    checksums.emplace_back(header->checksum.begin(), header->checksum.end());
  };
  add("plain", v1::COMPRESSION_NONE, "two");
  add("gzip", v1::COMPRESSION_GZIP, "two");
  add("zlib", v1::COMPRESSION_ZLIB, "two");
  add("other", v1::COMPRESSION_NONE, "TWO");
  ASSERT_EQ(checksums.size(), 4);
  EXPECT_EQ(checksums[0], checksums[1]);
  EXPECT_EQ(checksums[0], checksums[2]);
  EXPECT_NE(checksums[0], checksums[3]);
}

TEST(TfRecordTest, MissingAndUnsuitableFilesAreTypedErrors) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  const auto missing = test.Index(folder / "nothing.tfrecord");
  EXPECT_EQ(ReasonOf(missing.status()), reason::kFileNotFound);
  EXPECT_EQ(MetadataOf(missing.status(), "file"), "nothing.tfrecord");
  std::filesystem::create_directory(folder / "folder");
  EXPECT_EQ(ReasonOf(test.Index(folder / "folder").status()), reason::kFileUnreadable);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReasonOf(test.Index(folder / "pipe").status()), reason::kFileUnreadable);
  const auto text = test.Index(folder.Write("list.txt", "a.jpg 1\nb.jpg 2\n"));
  EXPECT_EQ(ReasonOf(text.status()), reason::kCorruptRecord);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("not a TFRecord file"));
}

TEST(TfRecordTest, FileThatVanishedEndsTheStream) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  ASSERT_TRUE(test.Index(folder.Write("a.tfrecord", ThreeRecords())).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  std::filesystem::remove(folder / "a.tfrecord");
  const auto context = (*source)->NewContext();
  Record record;
  const absl::Status status = (*source)->Read(1, *context, record);
  EXPECT_EQ(ReasonOf(status), reason::kFileNotFound);
  EXPECT_FALSE(IsSampleError(status));
}

TEST(TfRecordTest, FilesOutsideTheRootsAreRefusedAlsoThroughLinks) {
  const TempFolder inside;
  const TempFolder outside;
  outside.Write("a.tfrecord", ThreeRecords());
  std::filesystem::create_symlink(outside / "a.tfrecord", inside / "link.tfrecord");
  TestSource test = MakeTfRecordSource();
  test.resolved.add_roots(inside.path());
  const auto refused = test.Index(inside / "link.tfrecord");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReasonOf(refused.status()), reason::kPathNotAllowed);
  test.resolved.add_roots(outside.path());
  EXPECT_TRUE(test.Index(inside / "link.tfrecord").ok());
}

TEST(TfRecordTest, DamagedOrMissingIndexIsRefusedAtOpen) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  ASSERT_TRUE(test.Index(folder.Write("a.tfrecord", ThreeRecords())).ok());
  const std::string index_path = test.resolved.files(0).index_path();
  const std::string good = ReadFile(index_path);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 1;
    std::ofstream(index_path, std::ios::binary) << bad;
    const auto source = test.Open();
    ASSERT_FALSE(source.ok()) << at;
    EXPECT_EQ(source.status().code(), absl::StatusCode::kDataLoss);
  }
  for (size_t size = 0; size < good.size(); ++size) {
    std::ofstream(index_path, std::ios::binary) << good.substr(0, size);
    EXPECT_FALSE(test.Open().ok()) << size;
  }
  std::filesystem::remove(index_path);
  EXPECT_EQ(ReasonOf(test.Open().status()), reason::kIndexDamaged)
      << "built anew, as a damaged one is";
}

TEST(TfRecordTest, AnIndexThatIsOverwrittenWhileItIsUsedIsNoDamagedRecord) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  ASSERT_TRUE(test.Index(folder.Write("a.tfrecord", ThreeRecords())).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  const std::string path = test.resolved.files(0).index_path();
  const size_t size = std::filesystem::file_size(path);
  const std::vector<std::string> values = Values();
  Record record;
  int damaged = 0;
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE((*source)->Read(i, *context, record).ok());
  for (size_t at = IndexHeader::kBytes; at < size; ++at) {
    TempFolder::Flip(path, at);
    for (uint64_t i = 0; i < 3; ++i) {
      const absl::Status status = (*source)->Read(i, *context, record);
      if (status.ok()) {
        ASSERT_EQ(Text(record.values[0]), values[i]) << at;
      } else {
        ASSERT_EQ(ReasonOf(status), reason::kIndexDamaged) << at << ": " << status;
        ++damaged;
      }
    }
    TempFolder::Flip(path, at);
  }
  EXPECT_GT(damaged, 30);
}

TEST(TfRecordTest, ReportsProgressWhileIndexing) {
  const TempFolder folder;
  std::string bytes;
  const std::string frame = TfRecordFrame("x");
  for (int i = 0; i < 40'000; ++i) bytes += frame;
  TestSource test = MakeTfRecordSource();
  std::vector<uint64_t> seen;
  const auto records = test.Index(folder.Write("many.tfrecord", bytes),
                                  [&](uint64_t records, uint64_t) { seen.push_back(records); });
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(*records, 40'000);
  EXPECT_THAT(seen, ::testing::ElementsAre(16384, 32768));
}

TEST(TfRecordTest, FileRewrittenInPlaceIsAChangedFileNotOtherRecords) {
  const TempFolder folder;
  for (const bool read_before : {false, true}) {
    TestSource test = MakeTfRecordSource();
    const std::string path = folder.Write("a.tfrecord", ThreeRecords());
    ASSERT_TRUE(test.Index(path).ok());
    const auto source = test.Open();
    ASSERT_TRUE(source.ok());
    const auto context = (*source)->NewContext();
    Record record;
    if (read_before) ASSERT_TRUE((*source)->Read(0, *context, record).ok());
    std::string other;
    for (std::string value : Values()) {
      for (char& byte : value) byte ^= 1;
      other += TfRecordFrame(ExampleOf(value));
    }
    folder.Write("a.tfrecord", other);
    const absl::Status status = (*source)->Read(2, *context, record);
    EXPECT_EQ(ReasonOf(status), reason::kFileChanged) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a.tfrecord: changed"));
  }
}

TEST(TfRecordTest, FileThatAnotherOneReplacedIsAChangedFile) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  const std::string path = folder.Write("a.tfrecord", ThreeRecords());
  ASSERT_TRUE(test.Index(path).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  test.resolved.mutable_files(0)->set_inode(info.st_ino);
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  Record record;
  const auto before = (*source)->NewContext();
  ASSERT_TRUE((*source)->Read(0, *before, record).ok());
  const std::string other = folder.Write("b.tfrecord", ThreeRecords());
  std::filesystem::last_write_time(other, std::filesystem::last_write_time(path));
  std::filesystem::rename(other, path);
  EXPECT_TRUE((*source)->Read(0, *before, record).ok()) << "the old one is still open";
  const auto after = (*source)->NewContext();
  EXPECT_EQ(ReasonOf((*source)->Read(0, *after, record)), reason::kFileChanged);
}

}  // namespace
}  // namespace bulkhead
