#include "server/objects/key_pattern.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

TEST(KeyPatternTest, ListsWhatStandsBeforeTheFirstWildcard) {
  EXPECT_EQ(KeyPattern("a/b-*.tar").prefix(), "a/b-");
  EXPECT_EQ(KeyPattern("a/[0-9]").prefix(), "a/");
  EXPECT_EQ(KeyPattern("a\\*?").prefix(), "a");
  EXPECT_EQ(KeyPattern("a").prefix(), "a");
  EXPECT_TRUE(KeyPattern("a/b-*.tar").is_of_one_folder());
  EXPECT_FALSE(KeyPattern("a/*/b").is_of_one_folder());
}

TEST(KeyPatternTest, MatchesAsPathsDo) {
  EXPECT_TRUE(KeyPattern("a*").Matches("a1"));
  EXPECT_FALSE(KeyPattern("a*").Matches("a/1"));
  EXPECT_FALSE(KeyPattern("*").Matches(".a"));
  EXPECT_FALSE(KeyPattern("a/*").Matches("a/"));
  EXPECT_FALSE(KeyPattern("a/*/").Matches("a/b/"));
  EXPECT_TRUE(KeyPattern("a\\*[0-9]").Matches("a*1"));
  EXPECT_FALSE(KeyPattern("a\\*[0-9]").Matches("ab1"));
  EXPECT_FALSE(KeyPattern("a?").Matches("a/"));
}

TEST(KeyPatternTest, OneWithoutWildcardsIsAKey) {
  EXPECT_FALSE(KeyPattern("a\\b").has_wildcard());
  EXPECT_TRUE(KeyPattern("a\\b").Matches("a\\b"));
  EXPECT_FALSE(KeyPattern("a").Matches("ab"));
}

}  // namespace
}  // namespace bulkhead
