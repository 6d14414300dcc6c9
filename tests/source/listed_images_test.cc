// The images that a list names, and its index: what is missing, outside, changed or damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <chrono>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "tests/source/image_list_fixture.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Images are read when somebody asks for them, as in a worker that keeps coefficients.
struct ReadingLater {
  explicit ReadingLater(const Source& source) : context(source.NewContext()) {
    context->read_later = &features;
  }
  const std::vector<std::string> features = {"image"};
  const std::unique_ptr<ReadContext> context;
};

TEST_F(ImageListTest, MissingImageNamesListLineAndPath) {
  const auto records = Index("a.jpg 1\nnone.jpg 2\n");
  EXPECT_EQ(ReasonOf(records.status()), reason::kFileNotFound);
  EXPECT_THAT(std::string(records.status().message()), HasSubstr("train.txt:2: none.jpg"));
  EXPECT_EQ(MetadataOf(records.status(), "file"), "none.jpg");
  EXPECT_EQ(MetadataOf(records.status(), "line"), "2");
}

TEST_F(ImageListTest, AMissingImageIsToldWithWhereItsPathStarts) {
  const auto said = [&](absl::string_view text) {
    const absl::Status status = Index(text).status();
    EXPECT_EQ(ReasonOf(status), reason::kFileNotFound);
    return std::string(status.message());
  };
  EXPECT_THAT(
      said("a.jpg 3\nmissing.jpg 1\n"),
      HasSubstr("train.txt:2: missing.jpg: there is no such file; relative paths start "
                "from the list's folder, absolute ones may be written as well, and `errors: "
                "{policy: substitute}`"));
  list_->add_entries("missing.jpg 1");
  test_.resolved.set_base_dir(folder_.path());
  EXPECT_THAT(std::string(test_.Index("").status().message()),
              HasSubstr("relative paths start from the spec's folder"));
}

TEST_F(ImageListTest, MissingImagesThatAreKeptAreSampleErrors) {
  test_.keep_missing = true;
  ASSERT_TRUE(Index("a.jpg 1\nnone.jpg 2\nb.jpg 3\n").ok());
  folder_.Write("none.jpg", "it came later");  // which changes nothing: the verdict is the index's
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok()) << source.status();
  const auto context = (*source)->NewContext();
  Record record;
  EXPECT_TRUE((*source)->Read(0, *context, record).ok());
  const absl::Status missing = (*source)->Read(1, *context, record);
  EXPECT_TRUE(IsSampleError(missing)) << missing;
  EXPECT_EQ(ReasonOf(missing), reason::kFileNotFound);
  EXPECT_THAT(std::string(missing.message()), StartsWith("train.txt:2: none.jpg: there was no"));
  EXPECT_EQ(record.list, "train.txt");
  EXPECT_EQ(record.line, 2);
  EXPECT_TRUE((*source)->Read(2, *context, record).ok());
}

TEST_F(ImageListTest, ImageThatChangedItsSizeEndsTheStream) {
  ASSERT_TRUE(Index("a.jpg 1\nb.jpg 2\n").ok());
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  folder_.Write("b.jpg", "longer than before");
  EXPECT_TRUE((*source)->Read(0, *context, record).ok());
  const absl::Status changed = (*source)->Read(1, *context, record);
  EXPECT_EQ(ReasonOf(changed), reason::kFileChanged);
  EXPECT_FALSE(IsSampleError(changed));
  std::filesystem::remove(folder_ / "a.jpg");
  EXPECT_EQ(ReasonOf((*source)->Read(0, *context, record)), reason::kFileNotFound);
}

TEST_F(ImageListTest, ImageOfTheSameSizeThatWasWrittenToEndsTheStream) {
  ASSERT_TRUE(Index("a.jpg 1\nb.jpg 2\n").ok());
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  (*source)->Expect(1, *context);  // opened before, too
  folder_.Write("b.jpg", "B.JPG");
  EXPECT_TRUE((*source)->Read(0, *context, record).ok());
  for (int round = 0; round < 2; ++round) {
    const absl::Status changed = (*source)->Read(1, *context, record);
    EXPECT_EQ(ReasonOf(changed), reason::kFileChanged);
    EXPECT_THAT(std::string(changed.message()), HasSubstr("b.jpg: changed"));
  }
}

TEST_F(ImageListTest, ImagesOfWhichEnoughMayBeKnownAreReadWhenSomebodyAsks) {
  ASSERT_TRUE(Index("a.jpg 1\nb.jpg 2\n").ok());
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok());
  const ReadingLater reading(**source);
  ReadContext* const context = reading.context.get();
  Record record;
  for (const bool expected : {false, true}) {
    record.files.clear();
    if (expected) (*source)->Expect(1, *context);
    ASSERT_TRUE((*source)->Read(1, *context, record).ok());
    FileBytes* const image = record.values[0].later;
    ASSERT_NE(image, nullptr);
    EXPECT_EQ(record.values[0].data, nullptr);
    EXPECT_EQ(record.values[0].size_bytes, 5u);
    ASSERT_EQ(record.files.size(), 1u);
    EXPECT_EQ(record.files[0].size_bytes, 5u);
    EXPECT_EQ(Numbers<int64_t>(record.values[1])[0], 2);
    // It was written just now: its times would not tell of another write.
    EXPECT_FALSE(image->state().has_value());
    EXPECT_EQ(*image->Get(), "b.jpg");
    EXPECT_EQ(*image->Get(), "b.jpg");
  }
  // Whoever opens a file that has changed, or reads one that changes after that, is told.
  ASSERT_TRUE((*source)->Read(1, *context, record).ok());
  folder_.Write("b.jpg", "B.JPG");
  EXPECT_EQ(ReasonOf(record.values[0].later->Get().status()), reason::kFileChanged);
  EXPECT_EQ(ReasonOf((*source)->Read(1, *context, record)), reason::kFileChanged);
}

// The first file of the project, which nobody has written to just now.
TEST_F(ImageListTest, AnImageThatStandsStillIsKnownByItsState) {
  const std::string still = BULKHEAD_SOURCE_DIR "/tests/e2e/cache/still/0.jpg";
  int lists = 0;
  const auto state_of = [&](const std::string& path) -> std::optional<StoreKey> {
    TestSource test;
    *test.source.mutable_image_list() = *list_;
    const std::string list = folder_.Write(absl::StrCat("still", ++lists, ".txt"), path + " 1\n");
    EXPECT_TRUE(test.Index(list).ok());
    const auto source = test.Open();
    EXPECT_TRUE(source.ok());
    const ReadingLater reading(**source);
    Record record;
    EXPECT_TRUE((*source)->Read(0, *reading.context, record).ok());
    return record.values[0].later->state();
  };
  struct stat info;
  ASSERT_EQ(stat(still.c_str(), &info), 0);
  if (time(nullptr) - info.st_ctime < 60) GTEST_SKIP() << "the project was copied just now";
  struct statfs where;
  ASSERT_EQ(statfs(still.c_str(), &where), 0);
  if (where.f_type != EXT4_SUPER_MAGIC && where.f_type != BTRFS_SUPER_MAGIC) {
    GTEST_SKIP() << "the project lies neither on ext4 nor on Btrfs";
  }
  ASSERT_TRUE(state_of(still).has_value());
  EXPECT_EQ(state_of(still), state_of(still));
  EXPECT_NE(state_of(still), state_of(BULKHEAD_SOURCE_DIR "/tests/e2e/cache/still/1.jpg"));
  EXPECT_NE(state_of(still), state_of(BULKHEAD_SOURCE_DIR "/tests/e2e/cache/still/../still/0.jpg"))
      << "another record of the same file has coefficients of its own";
  // overlayfs shows the times of whatever lies below it.
  const std::string shown = folder_ / "shown";
  const std::string empty = folder_ / "empty";
  std::filesystem::create_directory(shown);
  std::filesystem::create_directory(empty);
  const std::string layers =
      absl::StrCat("lowerdir=", BULKHEAD_SOURCE_DIR "/tests/e2e/cache/still:", empty);
  if (mount("none", shown.c_str(), "overlay", MS_RDONLY, layers.c_str()) != 0) return;
  EXPECT_FALSE(state_of(shown + "/0.jpg").has_value());
  EXPECT_EQ(umount2(shown.c_str(), MNT_DETACH), 0);
}

TEST_F(ImageListTest, AnotherStateOfAnImageIsAnotherIndexByItsHeader) {
  const auto table = [&] {
    EXPECT_TRUE(Index("a.jpg 1\nb.jpg 2\n").ok());
    const auto header = IndexHeader::Parse(ReadFile(test_.resolved.files().rbegin()->index_path()));
    EXPECT_TRUE(header.ok()) << header.status();
    return header->table_crc32c;
  };
  const uint32_t before = table();
  EXPECT_EQ(table(), before);
  const auto written = std::filesystem::last_write_time(folder_ / "b.jpg");
  std::filesystem::last_write_time(folder_ / "b.jpg", written + std::chrono::seconds(1));
  EXPECT_NE(table(), before) << "services name an index by it";
}

TEST_F(ImageListTest, ImageThatAnotherOneReplacedEndsTheStream) {
  ASSERT_TRUE(Index("a.jpg 1\nb.jpg 2\n").ok());
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  const std::string other = folder_.Write("other", "other");
  std::filesystem::last_write_time(other, std::filesystem::last_write_time(folder_ / "a.jpg"));
  std::filesystem::rename(other, folder_ / "a.jpg");
  const absl::Status changed = (*source)->Read(0, *context, record);
  EXPECT_EQ(ReasonOf(changed), reason::kFileChanged);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("another file took its place"));
}

TEST_F(ImageListTest, ABitThatFlipsInAMappedIndexIsDamageNotAnotherLabel) {
  std::string text;
  for (int i = 0; i < 4000; ++i) absl::StrAppend(&text, "a.jpg ", i, "\n");
  ASSERT_TRUE(Index(text).ok());
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  Record record;
  ASSERT_TRUE((*source)->Read(0, *context, record).ok());
  std::fstream file(test_.resolved.files(0).index_path(), std::ios::in | std::ios::out);
  file.seekp(IndexHeader::kBytes + 70'000);  // of a row that nobody has read yet
  file.put('\x7f');
  file.close();
  int damaged = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const absl::Status status = (*source)->Read(i, *context, record);
    if (status.ok()) {
      ASSERT_EQ(Numbers<int64_t>(record.values[1])[0], i);
    } else {
      ASSERT_EQ(ReasonOf(status), reason::kIndexDamaged);
      ++damaged;
    }
  }
  EXPECT_GT(damaged, 1000);
}

TEST_F(ImageListTest, ABitThatFlipsInARowThatWasReadBeforeIsDamageToo) {
  std::string text;
  for (int i = 0; i < 8; ++i) absl::StrAppend(&text, "a.jpg ", i, "\n");
  ASSERT_TRUE(Index(text).ok());
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok());
  const auto context = (*source)->NewContext();
  const std::string path = test_.resolved.files(0).index_path();
  const size_t size = std::filesystem::file_size(path);
  Record record;
  int damaged = 0;
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE((*source)->Read(i, *context, record).ok());
  for (size_t at = IndexHeader::kBytes; at < size; ++at) {
    TempFolder::Flip(path, at);
    for (uint64_t i = 0; i < 8; ++i) {
      const absl::Status status = (*source)->Read(i, *context, record);
      if (status.ok()) {
        ASSERT_EQ(Numbers<int64_t>(record.values[1])[0], i) << at;
        ASSERT_EQ(record.line, i + 1) << at;
      } else {
        ASSERT_EQ(ReasonOf(status), reason::kIndexDamaged) << at << ": " << status;
        ++damaged;
      }
    }
    TempFolder::Flip(path, at);
  }
  EXPECT_GT(damaged, 300);
}

TEST_F(ImageListTest, ImagesOutsideTheRootsAreRefused) {
  const TempFolder outside;
  outside.Write("x.jpg", "x");
  test_.resolved.add_roots(folder_.path());
  const auto refused = Index(absl::StrCat("a.jpg 1\n", outside / "x.jpg", " 2\n"));
  EXPECT_EQ(ReasonOf(refused.status()), reason::kPathNotAllowed);
  EXPECT_EQ(MetadataOf(refused.status(), "line"), "2");
}

TEST_F(ImageListTest, IdentityFollowsTextAndSizes) {
  const auto checksum = [&](absl::string_view text) {
    test_.resolved.clear_files();
    EXPECT_TRUE(Index(text).ok());
    return IndexHeader::Parse(ReadFile(test_.resolved.files(0).index_path()))->checksum;
  };
  const auto first = checksum("a.jpg 1\n");
  EXPECT_EQ(checksum("a.jpg 1\n"), first);
  EXPECT_NE(checksum("a.jpg 2\n"), first);
  folder_.Write("a.jpg", "another size");
  EXPECT_NE(checksum("a.jpg 1\n"), first);
}

}  // namespace
}  // namespace bulkhead
