// Records that are announced before they are read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

// A list of so many images whose bytes are "image <number>".
std::unique_ptr<Source> ImageList(const TempFolder& folder, TestSource& test, int images) {
  std::string list;
  for (int i = 0; i < images; ++i) {
    folder.Write(absl::StrCat(i, ".jpg"), absl::StrCat("image ", i));
    absl::StrAppend(&list, i, ".jpg 0\n");
  }
  test.source.mutable_image_list();
  EXPECT_TRUE(test.Index(folder.Write("train.txt", list)).ok());
  auto source = test.Open();
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

TEST(ExpectedRecordsTest, AnExpectedImageIsOpenAlready) {
  const TempFolder folder;
  TestSource test;
  const auto source = ImageList(folder, test, 2);
  const auto context = source->NewContext();
  source->Expect(1, *context);
  std::filesystem::remove(folder / "1.jpg");
  Record record;
  ASSERT_TRUE(source->Read(1, *context, record).ok());
  EXPECT_EQ(Text(record.values[0]), "image 1");
  EXPECT_EQ(ReasonOf(source->Read(1, *context, record)), reason::kFileNotFound)
      << "it is opened once";
}

TEST(ExpectedRecordsTest, WhatIsNeverReadIsClosedInTime) {
  const TempFolder folder;
  TestSource test;
  const auto source = ImageList(folder, test, 100);
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = open_files();
  const auto context = source->NewContext();
  for (uint64_t i = 0; i < 100; ++i) source->Expect(i, *context);
  EXPECT_LE(open_files() - before, 32);
  Record record;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(source->Read(i, *context, record).ok());
    EXPECT_EQ(Text(record.values[0]), absl::StrCat("image ", i));
  }
}

TEST(ExpectedRecordsTest, WhatIsExpectedTwiceIsOpenedOnce) {
  const TempFolder folder;
  TestSource test;
  const auto source = ImageList(folder, test, 1);
  const auto context = source->NewContext();
  source->Expect(0, *context);
  source->Expect(0, *context);
  std::filesystem::remove(folder / "0.jpg");
  Record record;
  ASSERT_TRUE(source->Read(0, *context, record).ok());
  EXPECT_EQ(ReasonOf(source->Read(0, *context, record)), reason::kFileNotFound);
}

TEST(ExpectedRecordsTest, AFileThatIsNotThereIsTheReadersToTell) {
  const TempFolder folder;
  TestSource test;
  const auto source = ImageList(folder, test, 1);
  std::filesystem::remove(folder / "0.jpg");
  const auto context = source->NewContext();
  source->Expect(0, *context);
  Record record;
  EXPECT_EQ(ReasonOf(source->Read(0, *context, record)), reason::kFileNotFound);
}

// How many pages of the file's second half are in the kernel's cache.
int CachedPages(const std::string& path, size_t size) {
  const int fd = open(path.c_str(), O_RDONLY);
  void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages(size / 4096);
  EXPECT_EQ(mincore(data, size, pages.data()), 0);
  munmap(data, size);
  close(fd);
  int cached = 0;
  for (size_t i = pages.size() / 2; i < pages.size(); ++i) cached += pages[i] & 1;
  return cached;
}

TEST(ExpectedRecordsTest, AnExpectedRecordIsFetchedFromTheDisk) {
  const TempFolder folder;
  TestSource test = MakeTfRecordSource();
  constexpr size_t kRecordBytes = 8 << 20;
  const std::string bytes = TfRecordFrame(ExampleOf(std::string(kRecordBytes, 'a'))) +
                            TfRecordFrame(ExampleOf(std::string(kRecordBytes, 'b')));
  const std::string path = folder.Write("a.tfrecord", bytes);
  ASSERT_TRUE(test.Index(path).ok());
  const auto source = test.Open();
  ASSERT_TRUE(source.ok());
  const int fd = open(path.c_str(), O_RDWR);
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
  if (CachedPages(path, bytes.size()) > 0) GTEST_SKIP() << "this file system is the cache";
  const auto context = (*source)->NewContext();
  (*source)->Expect(1, *context);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (CachedPages(path, bytes.size()) == 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GT(CachedPages(path, bytes.size()), 0);
}

}  // namespace
}  // namespace bulkhead
