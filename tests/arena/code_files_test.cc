#include "server/arena/code_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/storage_watch.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class CodeFoldersTest : public testing::Test {
 protected:
  CodeFoldersTest() {
    for (const char* folder : {"/a", "/a/pkg", "/b", "/b/site-packages", "/c"}) {
      EXPECT_TRUE(MakeNewDirectory(root_ + folder).ok());
    }
    for (const char* file : {"/a/x.py", "/a/pkg/y.py", "/b/x.py", "/b/z.py",
                             "/b/site-packages/p.py", "/c/secret", "/a/libbulkhead_worker.so"}) {
      EXPECT_TRUE(ReplaceFile(root_ + file, file).ok());
    }
    EXPECT_EQ(symlink((root_ + "/c/secret").c_str(), (root_ + "/a/out").c_str()), 0);
    folders_ = CodeFolders({root_ + "/a", root_ + "/b"});
  }

  const TestDir dir_;
  const std::string root_ = dir_.path();
  CodeFolders folders_;
};

TEST_F(CodeFoldersTest, ANameIsRelativeToItsFolderAndLeadsBack) {
  for (const char* file : {"/a/x.py", "/a/pkg/y.py", "/b/z.py", "/b/x.py"}) {
    const std::string name = folders_.NameOf(root_ + file);
    EXPECT_EQ(folders_.PathOf(name).value(), root_ + file) << name;
    EXPECT_EQ(folders_.Read(name)->digest(), DigestOfCode(root_ + file));
  }
  EXPECT_EQ(folders_.NameOf(root_ + "/a/pkg/y.py"), "pkg/y.py");
  EXPECT_EQ(folders_.NameOf(root_ + "/b/z.py"), "z.py");
  // Another folder has one of this name before it.
  EXPECT_EQ(folders_.NameOf(root_ + "/b/x.py"), root_ + "/b/x.py");
}

// As a ConfigMap is mounted: what the link leads to has another name after every change.
TEST_F(CodeFoldersTest, BehindALinkWithinTheFolderAFileKeepsItsName) {
  ASSERT_EQ(symlink("pkg", (root_ + "/a/data").c_str()), 0);
  EXPECT_EQ(folders_.NameOf(root_ + "/a/data/y.py"), "data/y.py");
  EXPECT_EQ(folders_.PathOf("data/y.py").value(), root_ + "/a/pkg/y.py");
}

TEST_F(CodeFoldersTest, OthersFilesAndInstalledPackagesAreNoCodeOfTheUsers) {
  EXPECT_EQ(folders_.NameOf(root_ + "/c/secret"), "");
  EXPECT_EQ(folders_.NameOf(root_ + "/b/site-packages/p.py"), "");
  EXPECT_EQ(folders_.NameOf("/usr/lib/x.py"), "");
  EXPECT_EQ(folders_.NameOf(root_ + "/a/libbulkhead_worker.so"), "");
}

TEST_F(CodeFoldersTest, ANameThatLeadsOutOfTheFoldersReadsNothing) {
  for (const std::string name : {"../c/secret", "out", "/etc/passwd", "nowhere.py", "pkg", ""}) {
    EXPECT_EQ(folders_.Read(name)->digest(), "") << name;
  }
}

// As a share that nobody answers for: no more is known than that there may be a file.
TEST_F(CodeFoldersTest, StorageThatDoesNotAnswerIsNoFileThatIsGone) {
  StorageWatch watch({1, absl::ZeroDuration()});
  absl::Notification hangs, end;
  std::thread hanging([&] {
    const StorageWatch::Scope scope(&watch, std::make_shared<StorageWatch::Caller>());
    const StorageCall call("/hangs");
    hangs.Notify();
    end.WaitForNotification();
  });
  hangs.WaitForNotification();
  {
    const StorageWatch::Scope scope(&watch, std::make_shared<StorageWatch::Caller>());
    EXPECT_EQ(GetErrorInfo(folders_.PathOf("x.py").status())->reason, reason::kStorageStalled);
    EXPECT_EQ(GetErrorInfo(folders_.Read("x.py").status())->reason, reason::kStorageStalled);
  }
  end.Notify();
  hanging.join();
}

TEST(FingerprintWithCodeTest, DependsOnNamesAndContents) {
  v1::CodeFile one;
  one.set_name("a.py");
  one.set_digest("01");
  v1::CodeFile other = one;
  other.set_digest("02");
  EXPECT_EQ(FingerprintWithCode("ab", {}), "ab");
  EXPECT_NE(FingerprintWithCode("ab", {one}), FingerprintWithCode("ab", {other}));
  EXPECT_NE(FingerprintWithCode("ab", {one}), FingerprintWithCode("ac", {one}));
  other.set_name("b.py");
  EXPECT_NE(FingerprintWithCode("ab", {one}), FingerprintWithCode("ab", {one, other}));
  other.set_later(true);
  EXPECT_EQ(FingerprintWithCode("ab", {one}), FingerprintWithCode("ab", {one, other}));
  EXPECT_EQ(FingerprintWithCode("ab", {other}), "ab");
}

TEST(CodeNameTest, IsAPathThatFoldersGive) {
  for (const char* name :
       {"a.py", "pkg/a.py", "/srv/code/a.py", "pkg/\xc3\xa4.py", ".hidden/a.py"}) {
    EXPECT_TRUE(IsCodeName(name)) << name;
  }
  for (const char* name : {"", "/", "./a.py", "pkg/./a.py", "pkg//a.py", "../a.py", "pkg/..",
                           "a\n.py", "a\x1b[2J.py", "\xff.py"}) {
    EXPECT_FALSE(IsCodeName(name)) << name;
  }
  EXPECT_FALSE(IsCodeName(std::string("a.py\0x", 6)));
  EXPECT_TRUE(IsCodeName(std::string(kMostCodeNameBytes, 'a')));
  EXPECT_FALSE(IsCodeName(std::string(kMostCodeNameBytes + 1, 'a')));
}

}  // namespace
}  // namespace bulkhead
