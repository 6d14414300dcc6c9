#include "server/source/index/selection_index.h"

#include <vector>

#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

constexpr uint32_t kIndexKind = 1;

// The file of a selection that keeps record i where keep[i] says so.
internal::v1::ResolvedFile WriteSelection(const TempFolder& folder, const std::vector<bool>& keep) {
  internal::v1::ResolvedFile file;
  file.set_name("a.tfrecord");
  file.set_selection_path(folder / "a.selection");
  const int fd = open(file.selection_path().c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  SelectionWriter writer(fd);
  for (const bool one : keep) EXPECT_TRUE(writer.Add(one).ok());
  IndexHeader header;
  header.kind = kIndexKind;
  EXPECT_TRUE(writer.Finish(header).ok());
  close(fd);
  return file;
}

void ExpectSelects(const std::vector<bool>& keep) {
  const TempFolder folder;
  const auto index = SelectionIndex::Open(WriteSelection(folder, keep), kIndexKind);
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->indexed_count(), keep.size());
  uint64_t k = 0;
  for (uint64_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) ASSERT_EQ(index->Select(k++).value(), i) << "of " << keep.size();
  }
  EXPECT_EQ(index->kept_count(), k);
}

// Sizes around words, blocks and their ends; patterns from nothing to everything.
TEST(SelectionIndexTest, FindsEveryKeptRecord) {
  for (const size_t size : {0, 1, 63, 64, 65, 383, 384, 385, 768, 1000, 5000}) {
    for (const size_t step : {1, 2, 7, 64, 385, 100000}) {
      std::vector<bool> every(size);
      for (size_t i = 0; i < size; i += step) every[i] = true;
      ExpectSelects(every);
      every.flip();
      ExpectSelects(every);
    }
  }
}

TEST(SelectionIndexTest, FindsRecordsBehindLongGaps) {
  std::vector<bool> keep(20'000);
  for (const size_t i : {0u, 385u, 9'000u, 9'001u, 19'999u}) keep[i] = true;
  ExpectSelects(keep);
}

TEST(SelectionIndexTest, TakesFourThirdsOfABitForARecord) {
  const TempFolder folder;
  const auto file = WriteSelection(folder, std::vector<bool>(384 * 100, true));
  EXPECT_EQ(std::filesystem::file_size(file.selection_path()),
            IndexHeader::kBytes + 6400 + 12);  // and the table of checksums
}

TEST(SelectionIndexTest, NoticesDamage) {
  const TempFolder folder;
  const auto file = WriteSelection(folder, std::vector<bool>(1000, true));
  const std::string good = ReadFile(file.selection_path());
  for (const size_t at :
       {size_t{0}, size_t{20}, size_t{90}, IndexHeader::kBytes + 3, good.size() - 1}) {
    std::string bad = good;
    bad[at] ^= 4;
    folder.Write("a.selection", bad);
    EXPECT_EQ(ReasonOf(SelectionIndex::Open(file, kIndexKind).status()), reason::kIndexDamaged)
        << at;
  }
  folder.Write("a.selection", good.substr(0, good.size() - 64));
  EXPECT_EQ(ReasonOf(SelectionIndex::Open(file, kIndexKind).status()), reason::kIndexDamaged);
  folder.Write("a.selection", good);
  EXPECT_TRUE(SelectionIndex::Open(file, kIndexKind).ok());
  EXPECT_EQ(ReasonOf(SelectionIndex::Open(file, kIndexKind + 1).status()), reason::kIndexDamaged)
      << "of another kind of source";
}

// The blocks' checksums are compared once, so they do not see this.
TEST(SelectionIndexTest, NoticesThatItWasOverwrittenInUse) {
  const TempFolder folder;
  const auto file = WriteSelection(folder, std::vector<bool>(1000, true));
  const auto index = SelectionIndex::Open(file, kIndexKind);
  for (const uint64_t k : {0, 400, 999}) EXPECT_EQ(index->Select(k).value(), k);
  std::fstream bytes(file.selection_path(), std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](size_t at, const std::string& what) {
    bytes.seekp(static_cast<std::streamoff>(IndexHeader::kBytes + at));
    bytes << what << std::flush;
  };
  const std::string good = ReadFile(file.selection_path()).substr(IndexHeader::kBytes);
  put(8, "\x7f");  // a bit of a block
  EXPECT_EQ(ReasonOf(index->Select(5).status()), reason::kIndexDamaged);
  put(0, good.substr(64, 64));  // a whole block in another one's place
  EXPECT_EQ(ReasonOf(index->Select(5).status()), reason::kIndexDamaged);
  put(0, good);
  EXPECT_EQ(index->Select(5).value(), 5);
}

// An index of records is no selection, and the other way round.
TEST(SelectionIndexTest, IsToldFromAnIndex) {
  const TempFolder folder;
  const auto file = WriteSelection(folder, {true});
  EXPECT_FALSE(MappedIndex::Open(file.selection_path(), "a", kIndexKind).ok());
}

}  // namespace
}  // namespace bulkhead
