#include "server/data/index_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "server/base/error.h"
#include "server/data/index_kind.h"
#include "server/os/files/filesystem.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class IndexFolderTest : public testing::Test {
 protected:
  IndexFolder Folder(uint64_t most_bytes = 0, uint64_t most_open = 100) const {
    return IndexFolder({path_, most_bytes, most_open});
  }
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  // An index with a good header and `payload_bytes` behind it.
  std::string Publish(IndexFolder& folder, const std::string& name, uint64_t payload_bytes = 10) {
    const UniqueFd file = *folder.Create();
    IndexHeader header;
    header.kind = 7;
    header.payload_bytes = payload_bytes;
    const auto bytes = header.Serialize();
    EXPECT_TRUE(
        WriteExactly(file.get(), 0, {reinterpret_cast<const char*>(bytes.data()), bytes.size()})
            .ok());
    EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes.size() + payload_bytes)), 0);
    EXPECT_TRUE(folder.Publish(file.get(), PathOf(name)).ok());
    return PathOf(name);
  }
  static void MakeOlder(const std::string& path, int hours) {
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  }

  const TestDir dir_;
  const std::string path_ = dir_.path();
};

// Writes a header that tells of `payload_bytes`, and then as many as there are.
TEST_F(IndexFolderTest, AnIndexIsCutBehindItsEndAndNeverTooShort) {
  IndexFolder folder = Folder();
  const IndexKind kind{"indexing", /*header_kind=*/7, {}, {}, {}, {}, {}};
  const auto checked = [&](uint64_t payload_bytes, uint64_t written_bytes) {
    const UniqueFd file = *folder.Create();
    IndexHeader header;
    header.kind = 7;
    header.payload_bytes = payload_bytes;
    const auto bytes = header.Serialize();
    EXPECT_TRUE(
        WriteExactly(file.get(), 0, {reinterpret_cast<const char*>(bytes.data()), bytes.size()})
            .ok());
    EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes.size() + written_bytes)), 0);
    return CheckIndex(file.get(), kind).ok() ? *FileSize(file.get()) - bytes.size() : ~uint64_t{0};
  };
  constexpr uint64_t kRefused = ~uint64_t{0};
  EXPECT_EQ(checked(10, 10), 10u);
  EXPECT_EQ(checked(10, 17), 10u);
  EXPECT_EQ(checked(10, 9), kRefused);
  EXPECT_EQ(checked(~uint64_t{0} - 99, 10), kRefused) << "no sum may wrap around";
}

TEST_F(IndexFolderTest, FindsWhatIsOursAndWhole) {
  IndexFolder folder = Folder();
  const std::string path = Publish(folder, "a.index");
  ASSERT_TRUE(folder.Find(path).has_value());
  EXPECT_EQ(folder.Find(path)->kind, 7u);
  EXPECT_FALSE(folder.Find(PathOf("b.index")).has_value());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_FALSE(folder.Find(path).has_value()) << "others may read it, and might have written it";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(folder.Find(path).has_value());
  ASSERT_EQ(truncate(path.c_str(), IndexHeader::kBytes + 9), 0);
  EXPECT_FALSE(folder.Find(path).has_value()) << "cut";
}

TEST_F(IndexFolderTest, WhatIsDamagedIsNotFoundUntilItIsPublishedAnew) {
  IndexFolder folder = Folder();
  const std::string path = Publish(folder, "a.index");
  folder.NoteDamaged(path);
  EXPECT_FALSE(folder.Find(path).has_value());
  Publish(folder, "a.index");
  EXPECT_TRUE(folder.Find(path).has_value());
}

TEST_F(IndexFolderTest, AFolderThatIsGoneIsMadeAgain) {
  IndexFolder folder = Folder();
  std::filesystem::remove_all(path_);
  Publish(folder, "a.index");
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms::owner_all);
  const UniqueFd file = *folder.Create();
  std::filesystem::remove_all(path_);
  EXPECT_TRUE(folder.Publish(file.get(), PathOf("c.index")).ok()) << "while it was written";
  Publish(folder, "b.index");
  EXPECT_TRUE(folder.Find(PathOf("b.index")).has_value());
}

TEST_F(IndexFolderTest, WhatIsOpenIsSharedAndSurvivesItsName) {
  IndexFolder folder = Folder(0, 2);
  std::string a = Publish(folder, "a.index");
  std::string b = Publish(folder, "b.index");
  auto files = folder.Open({&a, &b});
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ(folder.Open({&a})->size(), 0u) << "no more may be open";
  files->pop_back();
  EXPECT_EQ(folder.Open({&a})->front(), files->front());
  std::filesystem::remove(a);
  EXPECT_EQ(ReadPrefix(files->front()->get(), 8)->size(), 8u);
  files->clear();
  EXPECT_EQ(GetErrorInfo(folder.Open({&a}).status())->reason, reason::kIndexDamaged);
  Publish(folder, "a.index");
  files = folder.Open({&a});
  Publish(folder, "a.index");
  EXPECT_NE(folder.Open({&a})->front(), files->front()) << "another file has its name";
}

TEST_F(IndexFolderTest, WhatWasNotUsedForTheLongestTimeGoesFirst) {
  IndexFolder folder = Folder(3 * (IndexHeader::kBytes + 1000));
  for (int i = 0; i < 6; ++i) {
    MakeOlder(Publish(folder, std::to_string(i) + (i % 2 == 0 ? ".index" : ".selection"), 1000),
              10 - i);
  }
  std::ofstream(PathOf("quarantine")) << std::string(100'000, 'q');
  std::ofstream(PathOf("x.index.0123.tmp")) << "left behind";
  MakeOlder(PathOf("x.index.0123.tmp"), 2);
  std::string open = PathOf("0.index");
  const auto kept = folder.Open({&open});
  folder.Collect({PathOf("1.selection")});
  std::set<std::string> left;
  for (const std::string& name : NamesIn(path_)) left.insert(name);
  EXPECT_EQ(left, (std::set<std::string>{"0.index", "1.selection", "5.selection", "quarantine"}));
  Folder(0).Collect({});
  EXPECT_EQ(NamesIn(path_).size(), 4u) << "without a bound";
}

}  // namespace
}  // namespace bulkhead
