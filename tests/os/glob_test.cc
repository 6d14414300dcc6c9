#include "server/os/files/glob.h"

#include <glob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using Paths = std::vector<std::string>;

class GlobTest : public testing::Test {
 protected:
  std::string Write(const std::string& name) { return dir_.Write(name, ""); }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
};

// What the C library finds, without entries "." and "..".
Paths Reference(const std::string& pattern) {
  glob_t matches{};
  Paths paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
    const auto has_dots = [](const std::string& path) {
      return (path + "/").find("/./") != std::string::npos ||
             (path + "/").find("/../") != std::string::npos;
    };
    paths.erase(std::remove_if(paths.begin(), paths.end(), has_dots), paths.end());
  }
  globfree(&matches);
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST_F(GlobTest, PathsComeInTheOrderOfTheirBytes) {
  const std::string b = Write("b.txt");
  const std::string a = Write("a.txt");
  const std::string upper = Write("B.txt");
  Write("c.dat");
  EXPECT_THAT(*ExpandGlob(folder_ + "/*.txt"), ElementsAre(upper, a, b));
  EXPECT_TRUE(ExpandGlob(folder_ + "/*.none")->empty());
}

TEST_F(GlobTest, InAFolderThatIsMissingNothingMatches) {
  Write("file");
  for (const char* pattern : {"/missing/*.txt", "/missing/*/*.txt", "/file/*.txt", "/*/*.txt"}) {
    const auto paths = ExpandGlob(folder_ + pattern);
    ASSERT_TRUE(paths.ok()) << pattern << ": " << paths.status();
    EXPECT_TRUE(paths->empty());
  }
}

TEST_F(GlobTest, FoldersThatLinkInACircleAreNamedSo) {
  fs::create_directory_symlink("b", folder_ + "/a");
  fs::create_directory_symlink("a", folder_ + "/b");
  const absl::Status status = ExpandGlob(folder_ + "/a/*.jpg").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its symbolic links lead in a circle"));
}

TEST_F(GlobTest, APathThatExistsMatchesItselfThoughItLooksLikeAPattern) {
  const std::string path = Write("[1].txt");
  Write("1.txt");
  EXPECT_THAT(*ExpandGlob(path), ElementsAre(path));
}

TEST_F(GlobTest, FindsWhatTheCLibraryFinds) {
  for (const char* name : {"a/x.txt", "a/y.txt", "b/x.txt", "ab/c/x.txt", ".hidden/x.txt",
                           "b/.x.txt", "a[b/x]", "a*/star", "]/c", "x.txt"}) {
    Write(name);
  }
  fs::create_symlink(folder_ + "/a", folder_ + "/link");
  fs::create_symlink("missing", folder_ + "/b/dangling");
  fs::create_symlink("..", folder_ + "/b/up");
  const Paths parts = {"*",   "?",  "a",    "b",  "x.txt", "*.txt", "[ab]", "[!a]", "a[b", "a\\*",
                       "\\a", ".*", "link", "up", "[]]",   "[a-",   "d*",   "c",    "",    "a?"};
  std::mt19937 random(7);
  size_t found = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string pattern = folder_;
    const size_t depth = 1 + random() % 4;
    for (size_t k = 0; k < depth; ++k) pattern += "/" + parts[random() % parts.size()];
    // As written; and of a file with a slash behind it the C library thinks otherwise.
    if (fs::exists(pattern) || pattern.back() == '/') continue;
    const auto paths = ExpandGlob(pattern);
    ASSERT_TRUE(paths.ok()) << pattern << ": " << paths.status();
    EXPECT_EQ(*paths, Reference(pattern)) << pattern;
    found += paths->size();
  }
  EXPECT_GT(found, 1000u);
}

TEST_F(GlobTest, LinksThatLeadUpwardsEndAtALimit) {
  for (int i = 0; i < 10; ++i) fs::create_directory_symlink(".", folder_ + "/" + std::to_string(i));
  const std::string pattern = folder_ + "/*/*/*/*/*/*/*/*/*/*";
  const auto many = ExpandGlob(pattern, {.paths = 1000});
  EXPECT_TRUE(absl::IsResourceExhausted(many.status()));
  EXPECT_THAT(many.status().message(), HasSubstr("more than 1000 paths; is there a link"));
  const auto long_way = ExpandGlob(pattern + "/none", {.paths = 1'000'000, .entries = 5000});
  EXPECT_THAT(long_way.status().message(), HasSubstr("more than 5000 entries"));
}

TEST_F(GlobTest, ManyPathsWaitForThoseOfOthers) {
  for (int i = 0; i < 5; ++i) Write("file" + std::to_string(i));
  GlobLimits limits;
  limits.paths_of_all = 3;
  limits.few_paths = 2;
  const std::string pattern = folder_ + "/file*";
  EXPECT_TRUE(absl::IsResourceExhausted(ExpandGlob(pattern, limits).status()));
  limits.few_paths = 5;
  EXPECT_EQ(ExpandGlob(pattern, limits)->size(), 5u);
  limits.few_paths = 2;
  limits.paths_of_all = 5;  // every expansion before has given back what it took
  EXPECT_EQ(ExpandGlob(pattern, limits)->size(), 5u);
}

TEST_F(GlobTest, AFolderThatIsExchangedAfterItsCheckShowsNothing) {
  Write("root/data/a.txt");
  Write("outside/secret.txt");
  bool exchanged = false;
  const MayEnterFn may_enter = [&](const std::string& folder) {
    if (fs::canonical(folder) == fs::path(folder_) / "outside") {
      return absl::PermissionDeniedError(folder);
    }
    if (!exchanged && fs::path(folder).parent_path().filename() == "data") {
      exchanged = true;
      fs::remove_all(folder_ + "/root/data");
      fs::create_directory_symlink(folder_ + "/outside", folder_ + "/root/data");
    }
    return absl::OkStatus();
  };
  const auto found = ExpandGlob(folder_ + "/root/data/*", {}, may_enter);
  ASSERT_TRUE(exchanged);
  ASSERT_FALSE(found.ok()) << testing::PrintToString(*found);
  EXPECT_THAT(std::string(found.status().message()), testing::Not(HasSubstr("outside")));
}

}  // namespace
}  // namespace bulkhead
