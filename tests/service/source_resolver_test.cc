#include "server/service/source_resolver.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "server/base/error.h"
#include "server/os/filesystem.h"

namespace bulkhead {
namespace {

class SourceResolverTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/bulkhead-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = RealPath(pattern).value();
    std::filesystem::create_directories(folder_ + "/data/deep");
    std::filesystem::create_directories(folder_ + "/secret");
    for (const char* name : {"data/b.rec", "data/a.rec", "data/deep/c.rec", "secret/key.rec"}) {
      std::ofstream(folder_ + "/" + name) << name;
    }
    roots_.roots = {folder_ + "/data"};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static v1::Source Records(std::initializer_list<std::string> files) {
    v1::Source source;
    for (const std::string& file : files) source.mutable_tfrecord()->add_files(file);
    return source;
  }
  std::string ReasonOf(const v1::Source& source) {
    const auto resolved = ResolveSource(source, folder_ + "/data", roots_);
    return resolved.ok() ? "OK" : GetErrorInfo(resolved.status())->reason;
  }

  std::string folder_;
  DataRoots roots_;
};

TEST_F(SourceResolverTest, FindsFilesInOrderNamedByTheirPlaceBelowTheBase) {
  const auto resolved =
      ResolveSource(Records({"deep/*.rec", "*.rec"}), folder_ + "/data", roots_).value();
  ASSERT_EQ(resolved.files_size(), 3);
  EXPECT_EQ(resolved.files(0).name(), "a.rec");
  EXPECT_EQ(resolved.files(1).name(), "b.rec");
  EXPECT_EQ(resolved.files(2).name(), "deep/c.rec");
  EXPECT_EQ(resolved.files(0).path(), folder_ + "/data/a.rec");
  EXPECT_EQ(resolved.files(0).size_bytes(), 10);
  EXPECT_GT(resolved.files(0).mtime_ns(), 0);
}

TEST_F(SourceResolverTest, WhatLeadsOutOfTheRootsIsRefused) {
  std::filesystem::create_symlink(folder_ + "/secret/key.rec", folder_ + "/data/link.rec");
  EXPECT_EQ(ReasonOf(Records({"../secret/key.rec"})), "PATH_NOT_ALLOWED");
  EXPECT_EQ(ReasonOf(Records({"link.rec"})), "PATH_NOT_ALLOWED");
  EXPECT_EQ(ReasonOf(Records({folder_ + "/secret/key.rec"})), "PATH_NOT_ALLOWED");
}

TEST_F(SourceResolverTest, LinksThatStayInsideAreFine) {
  std::filesystem::create_symlink(folder_ + "/data/deep/c.rec", folder_ + "/data/link.rec");
  EXPECT_EQ(ReasonOf(Records({"link.rec"})), "OK");
}

TEST_F(SourceResolverTest, WithoutRootsNothingMayBeRead) {
  roots_.roots.clear();
  EXPECT_EQ(ReasonOf(Records({"a.rec"})), "PATH_NOT_ALLOWED");
  roots_.unrestricted = true;
  EXPECT_EQ(ReasonOf(Records({"../secret/key.rec"})), "OK");
}

TEST_F(SourceResolverTest, AFileFarFromTheBaseIsNamedByItsPath) {
  roots_.roots.clear();
  roots_.unrestricted = true;
  const auto resolved =
      ResolveSource(Records({"../secret/key.rec"}), folder_ + "/data", roots_).value();
  EXPECT_EQ(resolved.files(0).name(), folder_ + "/secret/key.rec");
}

TEST_F(SourceResolverTest, MissingFilesAndWrongKindsAreNamed) {
  EXPECT_EQ(ReasonOf(Records({"none-*.rec"})), "FILE_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Records({"none.rec"})), "FILE_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Records({"deep"})), "FILE_UNREADABLE");
  v1::Source folder;
  folder.mutable_image_folder()->set_path("a.rec");
  EXPECT_EQ(ReasonOf(folder), "FILE_UNREADABLE");
  folder.mutable_image_folder()->set_path("deep");
  EXPECT_EQ(ReasonOf(folder), "OK");
}

TEST_F(SourceResolverTest, AFileNamedTwiceIsAMistake) {
  EXPECT_EQ(ReasonOf(Records({"a.rec", "*.rec"})), "SPEC_INVALID");
}

// Names travel in messages of text: such a one would end every worker that it is told to.
TEST_F(SourceResolverTest, AFileWhoseNameIsNoTextIsNamed) {
  std::ofstream(folder_ + "/data/z\xff.rec") << "z";
  const absl::Status status = ResolveSource(Records({"*.rec"}), folder_ + "/data", roots_).status();
  EXPECT_EQ(GetErrorInfo(status)->reason, "FILE_UNREADABLE");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), folder_ + "/data/z\\xff.rec");
  EXPECT_NE(std::string(status.message()).find("z\\xff.rec"), std::string::npos) << status;
  std::filesystem::rename(folder_ + "/data/z\xff.rec", folder_ + "/data/deep/z\xff.bin");
  std::filesystem::create_symlink(folder_ + "/data/deep/z\xff.bin", folder_ + "/data/link.rec");
  EXPECT_EQ(ReasonOf(Records({"link.rec"})), "FILE_UNREADABLE");
}

TEST_F(SourceResolverTest, ARelativeBaseIsRefused) {
  EXPECT_EQ(GetErrorInfo(ResolveSource(Records({"a.rec"}), "data", roots_).status())->reason,
            "PROTOCOL_VIOLATION");
}

}  // namespace
}  // namespace bulkhead
