#include "server/data/file_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace bulkhead {
namespace {

using ::testing::ElementsAre;

TEST(NameFromPatternTest, BeginsWithTheFirstComponentThatHasAWildcard) {
  EXPECT_EQ(NameFromPattern("/data/*.rec", "/data/a.rec"), "a.rec");
  EXPECT_EQ(NameFromPattern("../x*/pos/a.rec", "/home/x1/pos/a.rec"), "x1/pos/a.rec");
  EXPECT_EQ(NameFromPattern("data/[ab]/c/?.rec", "/n/data/a/c/d.rec"), "a/c/d.rec");
}

TEST(NameFromPatternTest, OfALiteralPathIsItsLastComponent) {
  EXPECT_EQ(NameFromPattern("/data/pos/a.rec", "/data/pos/a.rec"), "a.rec");
  EXPECT_EQ(NameFromPattern("a.rec", "/base/a.rec"), "a.rec");
  EXPECT_EQ(NameFromPattern("pos\\*/a\\?.rec", "/base/pos*/a?.rec"), "a?.rec");
}

TEST(NameFromPatternTest, DoesNotDependOnTheSpelling) {
  for (const auto& [pattern, path] : {std::pair("/d//x*/./y.rec", "/d//x1/./y.rec"),
                                      {"/d/x*//y.rec", "/d/x1//y.rec"},
                                      {"./x*/y.rec", "/base/./x1/y.rec"},
                                      {"x*/y.rec", "/y.rec/x1/y.rec"}}) {
    EXPECT_EQ(NameFromPattern(pattern, path), "x1/y.rec") << pattern;
  }
  // A pattern may match the folder itself.
  EXPECT_EQ(NameFromPattern(".*/x.rec", "/base/./x.rec"), "x.rec");
}

// "PATTERN NAME" after NameAndSort.
std::vector<std::string> Named(const std::vector<std::pair<size_t, std::string>>& found) {
  std::vector<FoundFile> files;
  for (const auto& [pattern, name] : found) {
    files.emplace_back().pattern = pattern;
    files.back().file.set_name(name);
  }
  NameAndSort(files);
  std::vector<std::string> names;
  for (const FoundFile& file : files) names.push_back(file.file.name());
  return names;
}

TEST(NameAndSortTest, FilesAreInTheOrderOfTheirNames) {
  EXPECT_THAT(Named({{0, "c"}, {1, "b/a"}, {0, "b"}, {1, "a"}}), ElementsAre("a", "b", "b/a", "c"));
}

TEST(NameAndSortTest, WhereTwoCollideAllGetTheNumberOfTheirPattern) {
  EXPECT_THAT(Named({{0, "c"}, {0, "a"}, {2, "a"}, {10, "b"}}),
              ElementsAre("0:a", "0:c", "2:a", "10:b"));
}

}  // namespace
}  // namespace bulkhead
