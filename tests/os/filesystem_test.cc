#include "server/os/files/filesystem.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "server/os/files/user_folders.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class FilesystemTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    return dir_.Write(name, text);
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
};

TEST_F(FilesystemTest, ACacheDoesNotShrinkByWhatItKeeps) {
  constexpr uint64_t kKept = uint64_t{2} << 30;
  const uint64_t empty = UsualCacheBytes(folder_);
  const UniqueFd fd(open(Write("kept", "").c_str(), O_RDWR | O_CLOEXEC));
  if (!AllocateFile(fd.get(), kKept).ok()) GTEST_SKIP() << "the disk is too full";
  // Others write to the disk meanwhile, but not as much.
  EXPECT_GT(UsualCacheBytes(folder_) + kKept / 20, empty);
}

TEST_F(FilesystemTest, AFileThatTheDiskCannotHoldIsNotAllocated) {
  const UniqueFd fd(open(Write("f", "").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(AllocateFile(fd.get(), 1 << 20).ok());
  EXPECT_EQ(FileSize(fd.get()).value(), uint64_t{1} << 20);
  const absl::Status refused = AllocateFile(fd.get(), uint64_t{1} << 60);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(FileSize(fd.get()).value(), uint64_t{1} << 20);
}

TEST_F(FilesystemTest, LinksThatLeadInACircleAreNamedSo) {
  std::filesystem::create_symlink("b", folder_ + "/a");
  std::filesystem::create_symlink("a", folder_ + "/b");
  const std::string path = folder_ + "/a";
  for (const absl::Status& status : {RealPath(path).status(), StatFile(path).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(), path + ": its symbolic links lead in a circle; repair them");
  }
}

TEST_F(FilesystemTest, AFileIsNotTheOneThatTookItsName) {
  const std::string path = Write("f", "old");
  const UniqueFd fd = OpenFile(path, /*writable=*/false).value();
  EXPECT_TRUE(IsFileAt(fd.get(), path));
  Write("g", "new");
  ASSERT_EQ(rename((folder_ + "/g").c_str(), path.c_str()), 0);
  EXPECT_FALSE(IsFileAt(fd.get(), path));
  RemoveFile(path);
  EXPECT_FALSE(IsFileAt(fd.get(), path));
}

TEST_F(FilesystemTest, AFileThatHasGrownTooLongKeepsItsEnd) {
  const std::string path = Write("log", "0123456789");
  const UniqueFd fd = OpenFile(path, /*writable=*/true).value();
  TrimFile(fd.get(), 10, 4);
  EXPECT_EQ(*ReadPrefix(path, 100), "0123456789");
  TrimFile(fd.get(), 9, 4);
  EXPECT_EQ(*ReadPrefix(path, 100), "6789");
}

TEST_F(FilesystemTest, PublishesAFileAtomicallyOverAnOldOne) {
  const std::string path = Write("index", "old");
  const auto fd = CreateUnnamedFile(folder_);
  ASSERT_TRUE(fd.ok()) << fd.status();
  ASSERT_EQ(write(fd->get(), "new!", 4), 4);
  EXPECT_EQ(*ReadPrefix(path, 10), "old");
  ASSERT_TRUE(PublishFile(fd->get(), path).ok());
  EXPECT_EQ(*ReadPrefix(path, 10), "new!");
  EXPECT_EQ(*ReadPrefix(path, 2), "ne");
  EXPECT_EQ(*FileSize(fd->get()), 4);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FilesystemTest, TheStartOfAFileTakesMemoryForWhatIsThere) {
  const std::string text(300'000, 'x');
  const std::string path = Write("f", text);
  const std::string prefix = ReadPrefix(path, size_t{1} << 30).value();
  EXPECT_TRUE(prefix == text);
  EXPECT_LT(prefix.capacity(), 1'000'000u);
  EXPECT_TRUE(ReadPrefix(path, 200'000).value() == text.substr(0, 200'000));
}

constexpr int kNoNamespaces = 77;

// Publishes a file as the first process of a namespace, and so with a process id that others have.
// 0 if that succeeded.
int PublishAsFirstProcess(const std::string& folder) {
  const pid_t parent = fork();
  if (parent == 0) {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
      _exit(kNoNamespaces);
    }
    const UniqueFd fd = CreateUnnamedFile(folder).value();
    const pid_t child = fork();
    if (child == 0) _exit(getpid() == 1 && PublishFile(fd.get(), folder + "/index").ok() ? 0 : 1);
    int status = 0;
    _exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(parent, &status, 0), parent);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(FilesystemTest, WhatAWriterOfTheSameProcessIdLeftDoesNotStandInTheWay) {
  const UniqueFd watch(inotify_init1(IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.get(), folder_.c_str(), IN_MOVED_FROM), 0);
  const int first = PublishAsFirstProcess(folder_);
  if (first == kNoNamespaces) GTEST_SKIP() << "no namespaces of processes are to be had";
  ASSERT_EQ(first, 0);
  alignas(inotify_event) char event[sizeof(inotify_event) + NAME_MAX + 1] = {};
  ASSERT_GT(read(watch.get(), event, sizeof(event)), 0);
  // As if that one had ended between giving the file a name and putting it into its place.
  const std::string left = reinterpret_cast<const inotify_event*>(event)->name;
  ASSERT_NE(left, "");
  Write(left, "");
  EXPECT_EQ(PublishAsFirstProcess(folder_), 0) << left;
}

TEST_F(FilesystemTest, AnUnpublishedFileLeavesNothing) {
  CreateUnnamedFile(folder_).value();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FilesystemTest, MakesPrivateFolders) {
  ASSERT_TRUE(MakeDirectories(folder_ + "/a/b/c").ok());
  ASSERT_TRUE(MakeDirectories(folder_ + "/a/b/c").ok());
  EXPECT_TRUE(CheckPrivateFolder(folder_ + "/a/b/c").ok());
  ASSERT_EQ(chmod((folder_ + "/a").c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(CheckPrivateFolder(folder_ + "/a")));
  Write("file", "");
  EXPECT_FALSE(MakeDirectories(folder_ + "/file").ok());
}

TEST_F(FilesystemTest, AFileOfAnothersOrOpenToOthersIsNotOurs) {
  const std::string path = Write("f", "text");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(OpenOwnFile(path, /*writable=*/false).ok());
  EXPECT_TRUE(OpenOwnFile(path, /*writable=*/true).ok());
  for (const mode_t mode : {0640, 0604, 0620, 0660, 0666}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(absl::IsPermissionDenied(OpenOwnFile(path, false).status())) << mode;
  }
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  if (chown(path.c_str(), 65534, 65534) != 0) GTEST_SKIP() << "only root can give files away";
  const absl::Status others = OpenOwnFile(path, false).status();
  EXPECT_TRUE(absl::IsPermissionDenied(others)) << others;
  EXPECT_THAT(std::string(others.message()), testing::HasSubstr("belongs to user 65534"));
}

TEST_F(FilesystemTest, AFolderThatOthersMayWriteToByNowIsNotTrusted) {
  ASSERT_EQ(mkdir((folder_ + "/cache").c_str(), 0700), 0);
  const std::string path = Write("cache/f", "text");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  for (const mode_t mode : {0777, 0770, 0720, 0702}) {
    ASSERT_EQ(chmod((folder_ + "/cache").c_str(), mode), 0);
    for (const absl::Status& refused :
         {OpenOwnFile(path, false).status(), OpenOwnFile(path, true).status(),
          CreateUnnamedFile(folder_ + "/cache").status(), ReplaceFile(path, "forged")}) {
      EXPECT_TRUE(absl::IsPermissionDenied(refused)) << mode << " " << refused;
      EXPECT_THAT(std::string(refused.message()),
                  testing::HasSubstr("chmod go= " + folder_ + "/cache"));
    }
  }
  // Who may look at it harms nobody.
  ASSERT_EQ(chmod((folder_ + "/cache").c_str(), 0755), 0);
  EXPECT_TRUE(OpenOwnFile(path, false).ok());
  EXPECT_TRUE(CreateUnnamedFile(folder_ + "/cache").ok());
  if (chown((folder_ + "/cache").c_str(), 65534, 65534) != 0) return;
  EXPECT_TRUE(absl::IsPermissionDenied(OpenOwnFile(path, false).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(CreateUnnamedFile(folder_ + "/cache").status()));
}

TEST_F(FilesystemTest, ACutFileKeepsItsBeginning) {
  const std::string path = Write("f", "one and the rest");
  const auto fd = OpenFile(path, /*writable=*/true);
  CutFile(fd->get(), 100);
  EXPECT_EQ(ReadPrefix(path, 100).value(), "one and the rest");
  CutFile(fd->get(), 3);
  EXPECT_EQ(ReadPrefix(path, 100).value(), "one");
}

TEST_F(FilesystemTest, WhatIsNoRegularFileIsNotOurs) {
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(OpenOwnFile(folder_ + "/pipe", false).status()));
  ASSERT_EQ(mkdir((folder_ + "/folder").c_str(), 0700), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(OpenOwnFile(folder_ + "/folder", false).status()));
  const std::string path = Write("f", "text");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(symlink(path.c_str(), (folder_ + "/link").c_str()), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(OpenOwnFile(folder_ + "/link", false).status()));
  EXPECT_TRUE(absl::IsNotFound(OpenOwnFile(folder_ + "/none", false).status()));
}

TEST_F(FilesystemTest, AFolderThatOthersMayEnterIsOursOnlyWhereItIsEmpty) {
  const std::string path = folder_ + "/cache";
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  EXPECT_TRUE(TakeOwnFolder(path).ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
  Write("cache/f", "text");
  EXPECT_TRUE(TakeOwnFolder(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  const absl::Status open_to_others = TakeOwnFolder(path);
  EXPECT_TRUE(absl::IsPermissionDenied(open_to_others));
  EXPECT_THAT(std::string(open_to_others.message()), testing::HasSubstr("chmod go= " + path));
  ASSERT_EQ(symlink(path.c_str(), (folder_ + "/link").c_str()), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(TakeOwnFolder(folder_ + "/link")));
  EXPECT_TRUE(absl::IsPermissionDenied(TakeOwnFolder(path + "/f")));
}

TEST(IsBeneathTest, ComparesWholeNames) {
  EXPECT_TRUE(IsBeneath("/data/a", "/data"));
  EXPECT_TRUE(IsBeneath("/data", "/data"));
  EXPECT_TRUE(IsBeneath("/anything", "/"));
  EXPECT_FALSE(IsBeneath("/database", "/data"));
  EXPECT_FALSE(IsBeneath("/", "/data"));
}

TEST(FreeDiskBytesTest, AreThoseThoseOfTheNearestFolder) {
  const uint64_t free = FreeDiskBytes(testing::TempDir());
  EXPECT_GT(free, 0u);
  const uint64_t below = FreeDiskBytes(testing::TempDir() + "/no/such/folder");
  EXPECT_LT(std::max(free, below) - std::min(free, below), free / 2);
  EXPECT_EQ(FreeDiskBytes(""), 0u);
}

}  // namespace
}  // namespace bulkhead
