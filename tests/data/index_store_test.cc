#include "server/data/index_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/os/files/filesystem.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

class IndexStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_ + "/list-1.index";
    const std::string names = SerializeClassNames(kNames);
    IndexHeader header;
    header.names_bytes = names.size();
    const auto bytes = header.Serialize();
    std::ofstream(path_) << std::string(bytes.begin(), bytes.end()) << names;
    EXPECT_EQ(chmod(path_.c_str(), 0600), 0);
  }

  absl::StatusOr<ClassNames> Names(const std::string& index_path) const {
    internal::v1::ResolvedSource resolved;
    resolved.add_files()->set_index_path(index_path);
    return IndexStore({folder_, 0, 100}, nullptr).NamesOf(resolved);
  }

  const ClassNames kNames = {{"label", {"cat", "dog"}}};
  const TestDir dir_;
  const std::string folder_ = dir_.path();
  std::string path_;
};

TEST_F(IndexStoreTest, NamesOfClassesComeFromFilesOfItsOwn) {
  EXPECT_EQ(Names(path_).value(), kNames);
  std::filesystem::create_symlink(path_, folder_ + "/link.index");
  EXPECT_EQ(GetErrorInfo(Names(folder_ + "/link.index").status())->reason, reason::kIndexDamaged);
  EXPECT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(GetErrorInfo(Names(path_).status())->reason, reason::kIndexDamaged);
}

TEST_F(IndexStoreTest, AFlippedBitInNamesOfClassesIsNoticed) {
  const size_t name = std::filesystem::file_size(path_) - 1;  // the last name's last byte
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(name));
  file.put('g' ^ 1);
  file.close();
  EXPECT_EQ(GetErrorInfo(Names(path_).status())->reason, reason::kIndexDamaged);
}

}  // namespace
}  // namespace bulkhead
