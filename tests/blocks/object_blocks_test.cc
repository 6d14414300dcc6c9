#include "server/blocks/object_blocks.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/blocks/write_block.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

constexpr uint64_t kBlock = ObjectBlocks::kBlockBytes;
const ObjectBlocks::Object kObject{3 * kBlock + 100, 1'700'000'000'000'000'000};

class ObjectBlocksTest : public testing::Test {
 protected:
  std::string path() const { return folder_ + "/key"; }
  ObjectBlocks Writing() const { return ObjectBlocks::OpenForWriting(path(), kObject).value(); }
  ObjectBlocks Reading() const { return ObjectBlocks::Open(path()).value(); }

  static std::string BytesOf(const ObjectBlocks& blocks, uint64_t block) {
    return std::string(blocks.BytesOf(block), static_cast<char>('a' + block));
  }
  // Overwrites one byte of a file.
  void Damage(const std::string& name, uint64_t offset) const {
    std::fstream file(folder_ + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('!');
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
};

TEST_F(ObjectBlocksTest, GivesWhatWasWrittenAndNothingElse) {
  ObjectBlocks writing = Writing();
  const ObjectBlocks reading = Reading();
  EXPECT_EQ(reading.block_count(), 4u);
  EXPECT_EQ(reading.object().mtime_ns, kObject.mtime_ns);
  ASSERT_TRUE(WriteBlock(writing, 1, BytesOf(writing, 1)).ok());
  ASSERT_TRUE(WriteBlock(writing, 3, BytesOf(writing, 3)).ok());
  std::string bytes(kBlock, ' ');
  EXPECT_FALSE(reading.Read(0, 0, bytes.data(), kBlock));
  EXPECT_TRUE(reading.Read(1, 0, bytes.data(), kBlock));
  EXPECT_EQ(bytes, BytesOf(reading, 1));
  EXPECT_TRUE(reading.Read(3, 40, bytes.data(), 60));
  EXPECT_EQ(bytes.substr(0, 60), std::string(60, 'd'));
  EXPECT_FALSE(reading.Read(3, 40, bytes.data(), 61));  // behind the object's end
}

TEST_F(ObjectBlocksTest, TakesDamagedBlocksForAbsent) {
  ObjectBlocks writing = Writing();
  ASSERT_TRUE(WriteBlock(writing, 0, BytesOf(writing, 0)).ok());
  ASSERT_TRUE(WriteBlock(writing, 1, BytesOf(writing, 1)).ok());
  Damage("key.data", kBlock + 5);
  const ObjectBlocks reading = Reading();
  std::string bytes(kBlock, ' ');
  EXPECT_TRUE(reading.Read(0, 0, bytes.data(), kBlock));
  EXPECT_FALSE(reading.Read(1, 0, bytes.data(), kBlock));
  EXPECT_FALSE(reading.Read(1, 0, bytes.data(), 1));
  ASSERT_TRUE(WriteBlock(writing, 1, BytesOf(writing, 1)).ok());
  EXPECT_TRUE(reading.Read(1, 0, bytes.data(), kBlock));
}

TEST_F(ObjectBlocksTest, RefusesATableOfAnotherKindOrLength) {
  Writing();
  Damage("key.blocks", 0);
  EXPECT_TRUE(absl::IsDataLoss(ObjectBlocks::Open(path()).status()));
  std::filesystem::remove(path() + ".blocks");
  EXPECT_TRUE(absl::IsNotFound(ObjectBlocks::Open(path()).status()));
  Writing();
  std::filesystem::resize_file(path() + ".blocks", 70);
  EXPECT_TRUE(absl::IsDataLoss(ObjectBlocks::Open(path()).status()));
}

TEST_F(ObjectBlocksTest, GivesTheDiskOfDroppedBlocksBack) {
  ObjectBlocks writing = Writing();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(WriteBlock(writing, i, BytesOf(writing, i)).ok());
  const uint64_t full = SizeOfTree(folder_, 10).bytes;
  writing.Drop(1, 3);
  EXPECT_EQ(SizeOfTree(folder_, 10).bytes, full - 2 * kBlock);
  EXPECT_FALSE(writing.Has(1));
  EXPECT_FALSE(writing.Has(2));
  EXPECT_TRUE(writing.Has(3));
}

TEST_F(ObjectBlocksTest, KeysDifferByEachPartOfTheState) {
  const std::string key = ObjectBlocks::KeyOf("s3://b/k", "\"e\"", {1, 2});
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(ObjectBlocks::KeyOf("s3://b/k", "\"e\"", {1, 2}), key);
  EXPECT_NE(ObjectBlocks::KeyOf("s3://b/l", "\"e\"", {1, 2}), key);
  EXPECT_NE(ObjectBlocks::KeyOf("s3://b/k", "\"f\"", {1, 2}), key);
  EXPECT_NE(ObjectBlocks::KeyOf("s3://b/k", "\"e\"", {3, 2}), key);
  EXPECT_NE(ObjectBlocks::KeyOf("s3://b/k", "\"e\"", {1, 3}), key);
}

}  // namespace
}  // namespace bulkhead
