#include "server/blocks/object_table.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "server/base/read_fault.h"
#include "server/blocks/object_blocks.h"
#include "server/os/files/filesystem.h"
#include "tests/blocks/write_block.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using Entry = ObjectTable::Entry;

const std::vector<Entry> kEntries = {
    {"cats/b.jpg", "\"e2\"", 5000, 2, 0}, {"dogs/a.jpg", "\"e3\"", 0, 3, 0},
    {"cats/a.jpg", "\"e1\"", 100, 1, 0},  {"cats/b.jpg", "\"e2\"", 5000, 2, 0},
    {"dogs/b.jpg", "", 4096, 0, 0},
};

class ObjectTableTest : public testing::Test {
 protected:
  // The key of a table of these.
  std::string Write(const std::vector<Entry>& entries,
                    const std::string& base = "s3://bucket/photos/") const {
    ObjectTableWriter writer = ObjectTableWriter::Create(folder_, base).value();
    for (const Entry& entry : entries) EXPECT_TRUE(writer.Add(entry).ok());
    return writer.Finish().value();
  }
  std::string PathOf(const std::string& key) const { return folder_ + "/" + key; }
  std::shared_ptr<const ObjectTable> Open(const std::string& key) const {
    return ObjectTable::Open(PathOf(key)).value();
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
};

TEST_F(ObjectTableTest, HasEachObjectOnceByName) {
  const auto table = Open(Write(kEntries));
  ASSERT_EQ(table->count(), 4u);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < table->count(); ++i) names.emplace_back(table->Get(i)->name);
  EXPECT_EQ(names,
            std::vector<std::string>({"cats/a.jpg", "cats/b.jpg", "dogs/a.jpg", "dogs/b.jpg"}));
  const Entry second = table->Get(1).value();
  EXPECT_EQ(second.etag, "\"e2\"");
  EXPECT_EQ(second.size_bytes, 5000u);
  EXPECT_EQ(second.mtime_ns, 2);
  EXPECT_EQ(table->UrlOf(second), "s3://bucket/photos/cats/b.jpg");
  EXPECT_EQ(table->Find("dogs/b.jpg").value(), 3u);
  EXPECT_TRUE(absl::IsNotFound(table->Find("dogs/c.jpg").status()));
  EXPECT_TRUE(absl::IsDataLoss(table->Get(4).status()));
}

TEST_F(ObjectTableTest, GivesEachObjectAPlaceOfItsOwn) {
  const auto table = Open(Write(kEntries));
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < table->count(); ++i) places.push_back(table->Get(i)->place);
  EXPECT_EQ(places, std::vector<uint64_t>({0, 4096, 3 * 4096, 3 * 4096}));
  EXPECT_EQ(table->data_bytes(), 4u * 4096);
}

TEST_F(ObjectTableTest, ItsKeyIsThatOfTheObjects) {
  const std::string key = Write(kEntries);
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(Write({kEntries[4], kEntries[2], kEntries[1], kEntries[0]}), key);
  EXPECT_NE(Write({kEntries[4], kEntries[2], kEntries[1]}), key);
  EXPECT_NE(Write(kEntries, "s3://bucket/other/"), key);
  std::vector<Entry> changed = kEntries;
  changed[2].etag = "\"f1\"";
  EXPECT_NE(Write(changed), key);
}

TEST_F(ObjectTableTest, MayBeEmpty) {
  const auto table = Open(Write({}));
  EXPECT_EQ(table->count(), 0u);
  EXPECT_TRUE(absl::IsNotFound(table->Find("a").status()));
}

TEST_F(ObjectTableTest, ADamagedByteIsAnErrorAndNeverAnotherObject) {
  const std::string key = Write(kEntries);
  const std::string path = PathOf(key) + ".table";
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const auto right = Open(key);
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    const std::string other = PathOf("damaged");
    std::ofstream(other + ".table", std::ios::binary) << damaged;
    const auto table = ObjectTable::Open(other);
    if (!table.ok()) {
      ++refused;
      continue;
    }
    for (uint64_t i = 0; i < right->count(); ++i) {
      const auto entry = (*table)->Get(i);
      if (!entry.ok()) {
        ++refused;
        continue;
      }
      EXPECT_EQ(entry->name, right->Get(i)->name) << at;
      EXPECT_EQ(entry->etag, right->Get(i)->etag) << at;
      EXPECT_EQ(entry->size_bytes, right->Get(i)->size_bytes) << at;
      EXPECT_EQ(entry->place, right->Get(i)->place) << at;
    }
  }
  EXPECT_GT(refused, whole.size() * 3 / 4);
}

TEST_F(ObjectTableTest, ADamagedTableIsMadeAgain) {
  const std::string key = Write(kEntries);
  std::filesystem::resize_file(PathOf(key) + ".table", 60);
  EXPECT_TRUE(absl::IsDataLoss(ObjectTable::Open(PathOf(key)).status()));
  EXPECT_EQ(Write(kEntries), key);
  EXPECT_EQ(Open(key)->count(), 4u);
}

TEST_F(ObjectTableTest, ATableThatIsCutWhileItIsOpenIsAnError) {
  CatchReadFaults();
  const std::string key = Write(kEntries);
  const auto table = Open(key);
  std::filesystem::resize_file(PathOf(key) + ".table", 0);
  EXPECT_TRUE(absl::IsDataLoss(table->Get(0).status()));
  EXPECT_TRUE(absl::IsDataLoss(table->Find("cats/a.jpg").status()));
  EXPECT_EQ(table->base(), "s3://bucket/photos/");
}

class TableBlocksTest : public ObjectTableTest {
 protected:
  TableBlocksTest() : table_(Open(Write(kEntries))) {}

  ObjectBlocks Writing() const {
    return ObjectBlocks::OpenForWriting(PathOf("blocks"), {0, 0, table_}).value();
  }
  ObjectBlocks Reading() const { return ObjectBlocks::Open(PathOf("blocks"), table_).value(); }

  const std::shared_ptr<const ObjectTable> table_;
};

TEST_F(TableBlocksTest, EachObjectIsABlock) {
  ObjectBlocks writing = Writing();
  const ObjectBlocks reading = Reading();
  ASSERT_EQ(reading.block_count(), 4u);
  const std::string a(100, 'a');
  const std::string b(5000, 'b');
  ASSERT_TRUE(WriteBlock(writing, 1, b).ok());
  ASSERT_TRUE(WriteBlock(writing, 0, a).ok());
  std::string read(5000, ' ');
  ASSERT_TRUE(reading.Read(1, 0, read.data(), 5000));
  EXPECT_EQ(read, b);
  ASSERT_TRUE(reading.Read(0, 0, read.data(), 100));
  EXPECT_EQ(read.substr(0, 100), a);
  EXPECT_FALSE(reading.Read(3, 0, read.data(), 4096));
  EXPECT_FALSE(reading.Read(1, 0, read.data(), 5001));
  EXPECT_TRUE(reading.Read(1, 4000, read.data(), 1000));
  EXPECT_FALSE(WriteBlock(writing, 3, a).ok()) << "of another size";
}

TEST_F(TableBlocksTest, AnObjectIsThereOnceAllOfItIsWritten) {
  ObjectBlocks writing = Writing();
  const ObjectBlocks reading = Reading();
  ObjectBlocks::Part part;
  ASSERT_TRUE(writing.WritePart(1, part, std::string(3000, 'b')).ok());
  EXPECT_FALSE(reading.Has(1));
  EXPECT_FALSE(writing.WritePart(1, part, std::string(2001, 'b')).ok());
  ASSERT_TRUE(writing.WritePart(1, part, std::string(2000, 'c')).ok());
  EXPECT_TRUE(reading.Has(1));
  std::string read(5000, ' ');
  ASSERT_TRUE(reading.Read(1, 0, read.data(), 5000));
  EXPECT_EQ(read, std::string(3000, 'b') + std::string(2000, 'c'));
}

TEST_F(TableBlocksTest, AnEmptyObjectTakesNoDisk) {
  ObjectBlocks writing = Writing();
  EXPECT_FALSE(writing.Has(2));
  ASSERT_TRUE(WriteBlock(writing, 2, "").ok());
  EXPECT_TRUE(writing.IsRight(2));
  EXPECT_EQ(writing.DiskBytesOf(2), 0u);
}

TEST_F(TableBlocksTest, ADamagedObjectIsAbsent) {
  ObjectBlocks writing = Writing();
  ASSERT_TRUE(WriteBlock(writing, 0, std::string(100, 'a')).ok());
  ASSERT_TRUE(WriteBlock(writing, 1, std::string(5000, 'b')).ok());
  std::fstream file(PathOf("blocks.data"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 4500);
  file.put('!');
  file.close();
  const ObjectBlocks reading = Reading();
  std::string read(5000, ' ');
  EXPECT_TRUE(reading.Has(1));
  EXPECT_FALSE(reading.IsRight(1));
  EXPECT_FALSE(reading.Read(1, 0, read.data(), 5000));
  EXPECT_FALSE(reading.Read(1, 0, read.data(), 10));
  EXPECT_TRUE(reading.Read(0, 0, read.data(), 100));
}

TEST_F(TableBlocksTest, GivesTheDiskOfEachObjectBackAlone) {
  ObjectBlocks writing = Writing();
  ASSERT_TRUE(WriteBlock(writing, 0, std::string(100, 'a')).ok());
  ASSERT_TRUE(WriteBlock(writing, 1, std::string(5000, 'b')).ok());
  ASSERT_TRUE(WriteBlock(writing, 3, std::string(4096, 'c')).ok());
  const uint64_t full = SizeOfTree(folder_, 100).bytes;
  writing.Drop(1, 2);
  EXPECT_EQ(full - SizeOfTree(folder_, 100).bytes, writing.DiskBytesOf(1));
  EXPECT_EQ(writing.DiskBytesOf(1), 8192u);
  EXPECT_FALSE(writing.Has(1));
  EXPECT_TRUE(writing.IsRight(0) && writing.IsRight(3));
}

TEST_F(TableBlocksTest, RefusesTheFilesOfAnotherTable) {
  Writing();
  const auto other = Open(Write({kEntries[0]}));
  EXPECT_TRUE(absl::IsDataLoss(ObjectBlocks::Open(PathOf("blocks"), other).status()));
  EXPECT_TRUE(absl::IsDataLoss(ObjectBlocks::Open(PathOf("blocks")).status()));
}

TEST_F(TableBlocksTest, BlocksThatAreCutWhileTheyAreOpenAreAbsent) {
  CatchReadFaults();
  ObjectBlocks writing = Writing();
  ASSERT_TRUE(WriteBlock(writing, 1, std::string(5000, 'b')).ok());
  const ObjectBlocks reading = Reading();
  std::filesystem::resize_file(PathOf("blocks.blocks"), 0);
  EXPECT_FALSE(reading.Has(1));
  EXPECT_FALSE(reading.IsRight(1));
  EXPECT_TRUE(absl::IsDataLoss(WriteBlock(writing, 0, std::string(100, 'a'))));
}

TEST_F(TableBlocksTest, WithADamagedEntryNothingElseIsDropped) {
  ObjectBlocks writing = Writing();
  ASSERT_TRUE(WriteBlock(writing, 0, std::string(100, 'a')).ok());
  ASSERT_TRUE(WriteBlock(writing, 1, std::string(5000, 'b')).ok());
  std::fstream file(PathOf(Write(kEntries)) + ".table",
                    std::ios::in | std::ios::out | std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  file.seekp(static_cast<std::streamoff>(whole.find("cats/a.jpg")));  // of the first entry
  file.put('!');
  file.close();
  const uint64_t full = SizeOfTree(folder_, 100).bytes;
  writing.Drop(0, 2);
  EXPECT_EQ(SizeOfTree(folder_, 100).bytes, full);
  EXPECT_TRUE(!writing.Has(0) && !writing.Has(1));
}

}  // namespace
}  // namespace bulkhead
