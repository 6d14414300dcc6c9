#include "server/supervisor/worker/scratch_folders.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/os/files/filesystem.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

class ScratchFoldersTest : public testing::Test {
 protected:
  // As a worker does.
  static void Fill(const std::string& path) {
    ASSERT_TRUE(MakeNewDirectory(path).ok());
    ASSERT_TRUE(MakeNewDirectory(path + "/tmp").ok());
    const UniqueFd file(open((path + "/tmp/file").c_str(), O_WRONLY | O_CREAT, 0600));
    ASSERT_EQ(write(file.get(), "x", 1), 1);
  }
  template <typename Condition>
  static bool Await(const Condition& condition) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!condition() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
    return condition();
  }

  const TestDir dir_{"/var/tmp"};  // a disk, also where /tmp is none
  const std::string folder_ = dir_.path();
};

TEST_F(ScratchFoldersTest, AFolderIsRemovedWithTheLastWhoHoldsIt) {
  auto folders = ScratchFolders::Open(folder_, "a").value();
  auto one = folders->Lend();
  const auto other = folders->Lend();
  EXPECT_NE(one->path(), other->path());
  Fill(one->path());
  Fill(other->path());
  const std::string path = one->path();
  auto copy = one;
  one.reset();
  copy.reset();
  EXPECT_TRUE(Await([&] { return !StatFile(path).ok(); }));
  EXPECT_TRUE(StatFile(other->path() + "/tmp/file").ok());
}

TEST_F(ScratchFoldersTest, NothingIsLeftOfAServiceThatEnded) {
  auto folders = ScratchFolders::Open(folder_, "a").value();
  auto one = folders->Lend();
  Fill(one->path());
  folders.reset();
  EXPECT_THAT(NamesIn(folder_), IsEmpty());
}

TEST_F(ScratchFoldersTest, WhatKilledServicesLeftIsRemovedAtTheNextStartAndNothingOfTheLiving) {
  const auto living = ScratchFolders::Open(folder_, "living").value();
  Fill(living->Lend()->path());
  ASSERT_TRUE(ReplaceFile(folder_ + "/dead.lock", "").ok());
  ASSERT_TRUE(MakeNewDirectory(folder_ + "/dead").ok());
  Fill(folder_ + "/dead/1");
  const auto next = ScratchFolders::Open(folder_, "next").value();
  EXPECT_THAT(NamesIn(folder_), UnorderedElementsAre("living", "living.lock", "next", "next.lock"));
}

TEST_F(ScratchFoldersTest, WhatAWorkerHoldsIsFoundWithAndWithoutAName) {
  const auto folders = ScratchFolders::Open(folder_, "a").value();
  const auto one = folders->Lend();
  Fill(one->path());
  one->SetOwner(getpid());
  const std::string block(1 << 20, 'x');
  const UniqueFd named(open((one->path() + "/named").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(named.get(), block.data(), block.size()), 1 << 20);
  EXPECT_TRUE(Await([&] {
    folders->LookSoon();
    return one->bytes() >= 1 << 20 && one->files() == 3;
  }));
  const UniqueFd unnamed(open(one->path().c_str(), O_WRONLY | O_TMPFILE, 0600));
  ASSERT_EQ(write(unnamed.get(), block.data(), block.size()), 1 << 20);
  EXPECT_TRUE(Await([&] {
    folders->LookSoon();
    return one->bytes() >= 2 << 20;
  }));
}

TEST_F(ScratchFoldersTest, MemoryIsNoPlaceForIt) {
  if (!IsInMemory("/dev/shm")) GTEST_SKIP() << "no tmpfs here";
  const std::string folder = absl::StrCat("/dev/shm/bulkhead-scratch-", getpid());
  const auto folders = ScratchFolders::Open(folder, "a");
  EXPECT_TRUE(absl::IsFailedPrecondition(folders.status())) << folders.status();
  RemoveTree(folder);
}

TEST_F(ScratchFoldersTest, ADeepTreeWithFoldersThatAreClosedIsRemovedToo) {
  const auto folders = ScratchFolders::Open(folder_, "a").value();
  auto one = folders->Lend();
  const std::string path = one->path();
  Fill(path);
  std::string deep = path;
  for (int i = 0; i < 500; ++i) {
    deep += "/f";
    ASSERT_TRUE(MakeNewDirectory(deep).ok());
  }
  ASSERT_EQ(symlink("/", (path + "/link").c_str()), 0);
  ASSERT_EQ(chmod(deep.c_str(), 0), 0);
  ASSERT_EQ(chmod((path + "/f").c_str(), 0), 0);
  one.reset();
  EXPECT_TRUE(Await([&] { return !StatFile(path).ok(); }));
}

}  // namespace
}  // namespace bulkhead
