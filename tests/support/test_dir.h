#ifndef BULKHEAD_TESTS_TOOLS_TEST_DIR_H_
#define BULKHEAD_TESTS_TOOLS_TEST_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace bulkhead::tools {

// A folder that is gone when the test is over.
class TestDir {
 public:
  TestDir() {
    std::string name = (std::filesystem::temp_directory_path() / "bulkhead-tools-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TestDir() { std::filesystem::remove_all(path_); }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::string Write(const std::string& name, const std::string& bytes) const {
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

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TESTS_TOOLS_TEST_DIR_H_
