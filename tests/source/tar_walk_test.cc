#include "server/source/tar/tar_walk.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/source/tar/memory_stream.h"
#include "tests/source/source_testing.h"
#include "tests/source/tar_testing.h"

namespace bulkhead {
namespace {

// "name=bytes" of each member of the tar `bytes`, or the reason of the error at the end.
std::vector<std::string> Walk(const std::string& bytes) {
  MemoryStream stream(bytes);
  TarWalk walk(stream);
  std::vector<std::string> found;
  TarMember member;
  for (;;) {
    const auto more = walk.Next(member);
    if (!more.ok()) {
      found.push_back(GetErrorInfo(more.status())->reason);
      return found;
    }
    if (!*more) return found;
    found.push_back(absl::StrCat(member.name, "=", bytes.substr(member.data, member.size_bytes)));
  }
}

using FoundMembers = std::vector<std::string>;

TEST(TarWalkTest, GivesFilesAndPassesOverFoldersAndLinks) {
  EXPECT_EQ(Walk(TarMemberBytes("d/", "", '5') + TarMemberBytes("a.cls", "7") +
                 TarMemberBytes("l.txt", "", '2') + TarMemberBytes("../b.txt", "hello") +
                 std::string(1024, '\0')),
            (FoundMembers{"a.cls=7", "../b.txt=hello"}));
}

TEST(TarWalkTest, ReadsLongNamesOfGnuAndPax) {
  const std::string name = std::string(300, 'n') + ".cls";
  EXPECT_EQ(Walk(TarMemberBytes("././@LongLink", name + '\0', 'L') + TarMemberBytes("n", "1")),
            FoundMembers{name + "=1"});
  EXPECT_EQ(Walk(TarMemberBytes("x", "14 path=b.cls\n", 'x') + TarMemberBytes("n", "1")),
            FoundMembers{"b.cls=1"});
}

TEST(TarWalkTest, EveryCutIsAnErrorOrAShorterWhole) {
  const std::string tar =
      TarMemberBytes("a.cls", "7") + TarMemberBytes("b.cls", std::string(600, 'b'));
  for (size_t cut = 0; cut <= tar.size(); ++cut) {
    const FoundMembers found = Walk(tar.substr(0, cut));
    const bool whole = cut == 0 || cut == 1024 || cut == tar.size();
    EXPECT_EQ(found.empty() || found.back() != reason::kTruncatedRecord, whole) << cut;
  }
}

TEST(TarWalkTest, RefusesDamagedHeadersAndSparseFiles) {
  std::string tar = TarMemberBytes("a.cls", "7");
  tar[3] ^= 1;
  EXPECT_EQ(Walk(tar), FoundMembers{std::string(reason::kCorruptRecord)});
  EXPECT_EQ(Walk(TarMemberBytes("a.cls", "7", 'S')),
            FoundMembers{std::string(reason::kCorruptRecord)});
}

TEST(TarWalkTest, SplitsNamesAsWebDatasetDoes) {
  EXPECT_EQ(SplitMemberName("a.b/c.seg.PNG")->key, "a.b/c");
  EXPECT_EQ(SplitMemberName("a.b/c.seg.PNG")->ending, "seg.PNG");
  EXPECT_FALSE(SplitMemberName("a.b/README").has_value());
  EXPECT_FALSE(SplitMemberName("a/.hidden").has_value());
  EXPECT_FALSE(SplitMemberName("__meta__").has_value());
}

}  // namespace
}  // namespace bulkhead
