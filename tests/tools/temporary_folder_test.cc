#include "tools/local/temporary_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "server/os/files/fd.h"
#include "tests/support/test_dir.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolderTest, GoesWithItsObjectAndTakesWhatKilledProcessesLeft) {
  const TestDir parent;
  const auto leave = [&](const std::string& name, std::chrono::hours age) {
    const fs::path path = parent.path() / name;
    fs::create_directory(path);
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
    return path;
  };
  using std::chrono::hours;
  const fs::path dead = leave("bulkhead-tool-run-aaaaaa", hours(1));
  const fs::path young = leave("bulkhead-tool-run-bbbbbb", hours(0));
  const fs::path locked = leave("bulkhead-tool-run-cccccc", hours(1));
  const fs::path other = leave("bulkhead-run-dddddd", hours(1));
  const UniqueFd owner(open(locked.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(owner.get(), LOCK_EX | LOCK_NB), 0);
  std::string path;
  {
    auto folder = TemporaryFolder::Make("doctor", parent.path());
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = folder->path();
    EXPECT_TRUE(fs::is_directory(path));
    EXPECT_FALSE(fs::exists(dead));
    EXPECT_TRUE(fs::exists(young) && fs::exists(locked) && fs::exists(other));
    const UniqueFd thief(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_NE(flock(thief.get(), LOCK_EX | LOCK_NB), 0) << "nobody takes it for left";
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace bulkhead::tools
