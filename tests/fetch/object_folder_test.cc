#include "server/fetch/object_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>

#include "server/os/files/filesystem.h"
#include "tests/blocks/write_block.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

constexpr uint64_t kBlock = ObjectBlocks::kBlockBytes;
const ObjectBlocks::Object kObject{8 * kBlock, 1};
// The disk of a table of 8 words.
constexpr uint64_t kTable = 4096;
constexpr uint64_t kWhole = 8 * kBlock + kTable;

class ObjectFolderTest : public testing::Test {
 protected:
  // An object with all its blocks, of a service that has ended.
  void Leave(const std::string& key, int age_hours) const {
    ObjectFolder folder(path_, 100 * kWhole, 0);
    ObjectBlocks* const blocks = folder.Open(key, kObject).value();
    for (uint64_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(WriteBlock(*blocks, i, std::string(kBlock, 'x')).ok());
    }
    std::filesystem::last_write_time(
        path_ + "/" + key + ".blocks",
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(age_hours));
  }
  bool Has(const std::string& key) const {
    return std::filesystem::exists(path_ + "/" + key + ".blocks") &&
           std::filesystem::exists(path_ + "/" + key + ".data");
  }

  const TestDir dir_;
  const std::string path_ = dir_.path();
};

TEST_F(ObjectFolderTest, RemovesTheObjectThatWasNotUsedForLongest) {
  Leave("newer", 2);
  Leave("oldest", 9);
  Leave("old", 5);
  ObjectFolder folder(path_, 3 * kWhole + kTable, 0);
  ASSERT_TRUE(folder.Open("mine", kObject).ok());
  EXPECT_TRUE(folder.Reserve(8 * kBlock));
  EXPECT_FALSE(Has("oldest"));
  EXPECT_TRUE(Has("old") && Has("newer") && Has("mine"));
}

TEST_F(ObjectFolderTest, RemovesNothingThatAServiceUses) {
  Leave("mine", 9);
  Leave("others", 8);
  ObjectFolder others(path_, 2 * kWhole, 0);
  ASSERT_TRUE(others.Open("others", kObject).ok());
  ObjectFolder folder(path_, 2 * kWhole, 0);
  ASSERT_TRUE(folder.Open("mine", kObject).ok());
  EXPECT_FALSE(folder.Reserve(kBlock));
  EXPECT_TRUE(Has("mine") && Has("others"));
}

TEST_F(ObjectFolderTest, RemovesTablesThatHaveNoBlocks) {
  const auto leave = [&](const std::string& name) {
    const UniqueFd made(open((path_ + "/" + name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(WriteExactly(made.get(), 0, std::string(8 * kBlock, 'x')).ok());
  };
  leave("old.table");
  leave("held.table");
  const UniqueFd held(open((path_ + "/held.table").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(ShareFile(held.get()));
  ObjectFolder folder(path_, 2 * kWhole, 0);
  EXPECT_TRUE(folder.Reserve(8 * kBlock));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/old.table"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/held.table"));
  EXPECT_FALSE(folder.Reserve(8 * kBlock));
  EXPECT_FALSE(folder.Remove("held"));
  leave("new.table");
  EXPECT_TRUE(folder.Remove("new"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/new.table"));
}

TEST_F(ObjectFolderTest, LeavesRoomOnTheDisk) {
  const uint64_t kept = ObjectFolder::KeptFree(path_);
  EXPECT_GT(kept, 0u);
  EXPECT_LE(kept, uint64_t{256} << 20);
  EXPECT_EQ(ObjectFolder::KeptFree("/none"), 0u);
  const uint64_t free = std::filesystem::space(path_).available;
  Leave("unused", 2);
  ObjectFolder roomy(path_, 100 * kWhole, 0);
  EXPECT_TRUE(roomy.Reserve(kBlock));
  EXPECT_TRUE(Has("unused"));
  ObjectFolder full(path_, 100 * kWhole, 2 * free);
  EXPECT_FALSE(full.Reserve(9 * kBlock)) << "others have filled the disk";
  EXPECT_FALSE(Has("unused"));
}

TEST_F(ObjectFolderTest, CountsWhatItWrites) {
  const uint64_t empty = ObjectFolder(path_, 0, 0).used_bytes();
  ObjectFolder folder(path_, empty + kTable + 2 * kBlock, 0);
  ObjectBlocks* const blocks = folder.Open("mine", kObject).value();
  EXPECT_TRUE(folder.Reserve(2 * kBlock));
  ASSERT_TRUE(WriteBlock(*blocks, 0, std::string(kBlock, 'x')).ok());
  folder.Unreserve(2 * kBlock, kBlock);
  EXPECT_FALSE(folder.Reserve(kBlock + kTable + 1));
}

TEST_F(ObjectFolderTest, WhatIsOnItsWayCounts) {
  const uint64_t empty = ObjectFolder(path_, 0, 0).used_bytes();
  ObjectFolder folder(path_, empty + kTable + 3 * kBlock, 0);
  ASSERT_TRUE(folder.Open("mine", kObject).ok());
  EXPECT_TRUE(folder.Reserve(2 * kBlock));
  EXPECT_FALSE(folder.Reserve(2 * kBlock));
  folder.Unreserve(2 * kBlock, 0);  // it failed
  EXPECT_TRUE(folder.Reserve(2 * kBlock));
}

TEST_F(ObjectFolderTest, FilesThatWereRemovedAreMadeAgain) {
  ObjectFolder folder(path_, 8 * kWhole, 0);
  ObjectBlocks* const blocks = folder.Open("mine", kObject).value();
  ASSERT_TRUE(WriteBlock(*blocks, 0, std::string(kBlock, 'x')).ok());
  std::filesystem::remove(path_ + "/mine.blocks");
  EXPECT_EQ(folder.Open("mine", kObject).value(), blocks);
  EXPECT_FALSE(blocks->Has(0));
  EXPECT_TRUE(Has("mine"));
}

}  // namespace
}  // namespace bulkhead
