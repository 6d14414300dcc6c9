#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/strings/string_view.h"

namespace bulkhead {

// A folder that is gone when the test is over.
class TestDir {
 public:
  // Below `parent`: "/tmp" where a socket's path has to be short, "/var/tmp" where it must be on a
  // disk.
  explicit TestDir(const std::string& parent = testing::TempDir()) {
    std::string name = parent + "/test-of-bulkhead-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = std::filesystem::canonical(name);
  }
  ~TestDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    EXPECT_FALSE(error) << path_ << ": " << error.message();
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  // Writes a file, with the folders that lead to it; returns its path.
  std::string Write(const std::string& name, absl::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace bulkhead
