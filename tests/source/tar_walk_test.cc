#include "server/source/tar/tar_walk.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/source/file.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

// A ustar member, padded to whole blocks.
std::string Member(const std::string& name, const std::string& data, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char number[16];
  std::snprintf(number, sizeof(number), "%011llo", static_cast<unsigned long long>(data.size()));
  header.replace(124, 11, number);
  header[156] = type;
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(number, sizeof(number), "%06o", sum);
  header.replace(148, 7, std::string(number, 7));
  return header + data + std::string((512 - data.size() % 512) % 512, '\0');
}

// "name=bytes" of each member of the tar `bytes`, or the reason of the error at the end.
std::vector<std::string> Walk(const std::string& bytes) {
  const TempFolder folder;
  const auto file = DataFile::Open(folder.Write("a.tar", bytes), "a.tar");
  const auto stream = NewRecordStream(*file, v1::COMPRESSION_NONE, nullptr);
  TarWalk walk(*stream, "a.tar");
  std::vector<std::string> found;
  for (;;) {
    const auto member = walk.Next();
    if (!member.ok()) {
      found.push_back(GetErrorInfo(member.status())->reason);
      return found;
    }
    if (!member->has_value()) return found;
    found.push_back(
        absl::StrCat((*member)->name, "=", bytes.substr((*member)->data, (*member)->size_bytes)));
  }
}

using Found = std::vector<std::string>;

TEST(TarWalkTest, GivesFilesAndPassesOverFoldersAndLinks) {
  EXPECT_EQ(Walk(Member("d/", "", '5') + Member("a.cls", "7") + Member("l.txt", "", '2') +
                 Member("../b.txt", "hello") + std::string(1024, '\0')),
            (Found{"a.cls=7", "../b.txt=hello"}));
}

TEST(TarWalkTest, ReadsLongNamesOfGnuAndPax) {
  const std::string name = std::string(300, 'n') + ".cls";
  EXPECT_EQ(Walk(Member("././@LongLink", name + '\0', 'L') + Member("n", "1")), Found{name + "=1"});
  EXPECT_EQ(Walk(Member("x", "14 path=b.cls\n", 'x') + Member("n", "1")), Found{"b.cls=1"});
}

TEST(TarWalkTest, EveryCutIsAnErrorOrAShorterWhole) {
  const std::string tar = Member("a.cls", "7") + Member("b.cls", std::string(600, 'b'));
  for (size_t cut = 0; cut <= tar.size(); ++cut) {
    const Found found = Walk(tar.substr(0, cut));
    const bool whole = cut == 0 || cut == 1024 || cut == tar.size();
    EXPECT_EQ(found.empty() || found.back() != reason::kTruncatedRecord, whole) << cut;
  }
}

TEST(TarWalkTest, RefusesDamagedHeadersAndSparseFiles) {
  std::string tar = Member("a.cls", "7");
  tar[3] ^= 1;
  EXPECT_EQ(Walk(tar), Found{std::string(reason::kCorruptRecord)});
  EXPECT_EQ(Walk(Member("a.cls", "7", 'S')), Found{std::string(reason::kCorruptRecord)});
}

TEST(TarWalkTest, SplitsNamesAsWebDatasetDoes) {
  EXPECT_EQ(SplitMemberName("a.b/c.seg.PNG")->key, "a.b/c");
  EXPECT_EQ(SplitMemberName("a.b/c.seg.PNG")->field, "seg.png");
  EXPECT_FALSE(SplitMemberName("a.b/README").has_value());
  EXPECT_FALSE(SplitMemberName("a/.hidden").has_value());
  EXPECT_FALSE(SplitMemberName("__meta__").has_value());
}

}  // namespace
}  // namespace bulkhead
