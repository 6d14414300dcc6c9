#include "server/os/files/foreign_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace bulkhead {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(ForeignLinesTest, ALineCannotPassForOneOfTheLog) {
  ForeignLines lines;
  EXPECT_EQ(lines.Take("2026-01-01T00:00:00.000 info all is well\n\033[2J\u202e\n", kSecond),
            "  | 2026-01-01T00:00:00.000 info all is well\n  | \\x1b[2J\\xe2\\x80\\xae\n");
}

TEST(ForeignLinesTest, ALineMayComeInPartsAndEndsBeforeOthersSpeak) {
  ForeignLines lines;
  EXPECT_EQ(lines.Take("one", kSecond), "  | one");
  EXPECT_EQ(lines.Take(" two\nthree", kSecond), " two\n  | three");
  EXPECT_EQ(lines.End(), "\n");
  EXPECT_EQ(lines.End(), "");
  EXPECT_EQ(lines.Take("four\n", kSecond), "  | four\n");
  EXPECT_EQ(lines.End(), "");
}

TEST(ForeignLinesTest, AsJsonALineIsAnObjectOfItsOwn) {
  ForeignLines lines(LogStyle::kJson);
  const std::string begun = lines.Take("a \"b\" \\ \033[2J", kSecond);
  EXPECT_THAT(begun, testing::EndsWith(R"(,"level":"output","text":"a \"b\" \\ \\x1b[2J)"));
  EXPECT_THAT(begun, testing::StartsWith(R"({"time":")"));
  EXPECT_THAT(lines.Take("\nc\n", kSecond), testing::MatchesRegex("\"}\n.*\"text\":\"c\"}\n"));
  EXPECT_EQ(lines.End(), "");
}

TEST(ForeignLinesTest, ALongLineIsCut) {
  ForeignLines lines;
  const std::string most(ForeignLines::kMostLineBytes, 'x');
  EXPECT_EQ(lines.Take(most + "\n", kSecond), "  | " + most + "\n");
  EXPECT_EQ(lines.Take(most, kSecond), "  | " + most);
  EXPECT_EQ(lines.Take("x", kSecond), " …");
  EXPECT_EQ(lines.Take(most + most + "\nnext\n", kSecond), "\n  | next\n");
}

TEST(ForeignLinesTest, AFloodIsBoundedCountedAndTold) {
  ForeignLines lines;
  std::string flood;
  const auto most = static_cast<size_t>(ForeignLines::kLinesAtOnce);
  for (size_t i = 0; i < most + 1000; ++i) flood += "x\n";
  const std::string kept = lines.Take(flood, kSecond);
  EXPECT_EQ(static_cast<size_t>(std::count(kept.begin(), kept.end(), '\n')), most);
  EXPECT_EQ(lines.dropped(), 1000u);
  EXPECT_EQ(lines.Take("later\n", 2 * kSecond),
            "  | (1000 lines were left out here: more than 500 a second)\n  | later\n");
  EXPECT_EQ(lines.dropped(), 1000u);
}

}  // namespace
}  // namespace bulkhead
