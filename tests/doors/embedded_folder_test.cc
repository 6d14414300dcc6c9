#include "server/doors/embedded_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class EmbeddedFolderTest : public testing::Test {
 protected:
  EmbeddedFolderTest() { std::filesystem::create_directory(folder_); }

  void Touch(const std::set<std::string>& names) {
    for (const std::string& name : names) std::ofstream(folder_ + "/" + name) << name;
  }

  // A service that processes share.
  void TouchShared() {
    Touch({"abcdef.sock", "abcdef.sock.arena", "abcdef.lock", "abcdef.log", "spawn", "current"});
  }

  void RemoveShared() {
    RemoveEmbeddedFolder("unix:" + folder_ + "/abcdef.sock", folder_ + "/abcdef.lock");
  }

  std::set<std::string> Left() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  const TestDir dir_;
  const std::string parent_ = dir_.path();
  const std::string folder_ = parent_ + "/bulkhead-0123456789abcdef";
};

TEST_F(EmbeddedFolderTest, WhatBelongsToOneProcessIsRemoved) {
  Touch({"s.sock", "s.sock.arena", "lock"});
  RemoveEmbeddedFolder("unix:" + folder_ + "/s.sock", "");
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(EmbeddedFolderTest, WhatIsNotTheServicesIsLeft) {
  Touch({"s.sock", "thesis.txt"});
  RemoveEmbeddedFolder("unix:" + folder_ + "/s.sock", "");
  EXPECT_EQ(Left(), std::set<std::string>{"thesis.txt"});
}

TEST_F(EmbeddedFolderTest, AFolderWithAnotherNameIsLeft) {
  std::ofstream(parent_ + "/s.sock") << "";
  RemoveEmbeddedFolder("unix:" + parent_ + "/s.sock", "");
  EXPECT_TRUE(std::filesystem::exists(parent_ + "/s.sock"));
}

TEST_F(EmbeddedFolderTest, TheLastServiceOfAMeetingFolderRemovesIt) {
  TouchShared();
  RemoveShared();
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(EmbeddedFolderTest, AMeetingFolderStaysWhereAnotherServiceIs) {
  TouchShared();
  Touch({"123456.lock"});
  RemoveShared();
  EXPECT_EQ(Left(), (std::set<std::string>{"123456.lock", "spawn", "current"}));
}

TEST_F(EmbeddedFolderTest, AMeetingFolderStaysWhereSomebodyIsAboutToStartOne) {
  TouchShared();
  const UniqueFd starter = OpenFile(folder_ + "/spawn", /*writable=*/true).value();
  ASSERT_TRUE(TryLockFile(starter.get()));
  RemoveShared();
  EXPECT_EQ(Left(), (std::set<std::string>{"spawn", "current"}));
}

TEST_F(EmbeddedFolderTest, ALockElsewhereRemovesNothingThere) {
  TouchShared();
  for (const char* name : {"/mine.lock", "/mine.log"}) std::ofstream(parent_ + name) << "";
  RemoveEmbeddedFolder("unix:" + folder_ + "/abcdef.sock", parent_ + "/mine.lock");
  EXPECT_TRUE(std::filesystem::exists(parent_ + "/mine.lock"));
  EXPECT_TRUE(std::filesystem::exists(parent_ + "/mine.log"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/spawn"));
}

TEST_F(EmbeddedFolderTest, ALogKeepsItsEnd) {
  const std::string log = folder_ + "/abcdef.log";
  std::ofstream(log) << std::string(1 << 20, 'x');
  TrimEmbeddedLog("unix:" + folder_ + "/abcdef.sock", folder_ + "/abcdef.lock");
  EXPECT_EQ(std::filesystem::file_size(log), 1U << 20);
  std::ofstream(log, std::ios::app) << "last words";
  TrimEmbeddedLog("unix:" + folder_ + "/abcdef.sock", folder_ + "/abcdef.lock");
  EXPECT_EQ(std::filesystem::file_size(log), 8U << 10);
  const std::string text = ReadPrefix(log, 1 << 20).value();
  EXPECT_EQ(text.substr(text.size() - 10), "last words");
}

TEST_F(EmbeddedFolderTest, ALogBesideALockElsewhereIsNotItsOwn) {
  TouchShared();
  for (const std::string& folder : {parent_, folder_}) {
    const std::string log = folder + "/mine.log";
    std::ofstream(log) << std::string(2 << 20, 'x');
    TrimEmbeddedLog("unix:" + folder + "/abcdef.sock", folder + "/mine.lock");
    EXPECT_EQ(std::filesystem::file_size(log), 2U << 20);
  }
  std::ofstream(parent_ + "/abcdef.log") << std::string(2 << 20, 'x');
  TrimEmbeddedLog("unix:" + parent_ + "/abcdef.sock", parent_ + "/abcdef.lock");
  EXPECT_EQ(std::filesystem::file_size(parent_ + "/abcdef.log"), 2U << 20);
}

}  // namespace
}  // namespace bulkhead
