#include "server/source/roots.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

// data/: a root, with a.rec, deep/b.rec. other/: another root. secret/: no root.
class RootsTest : public testing::Test {
 protected:
  RootsTest() {
    folder_.Write("data/a.rec", "inside");
    folder_.Write("data/deep/b.rec", "inside");
    folder_.Write("other/c.rec", "inside");
    folder_.Write("secret/key.rec", "secret");
    google::protobuf::RepeatedPtrField<std::string> roots;
    *roots.Add() = folder_ / "data";
    *roots.Add() = folder_ / "other";
    roots_ = Roots(roots);
  }

  void Link(const std::string& target, const std::string& path) {
    std::filesystem::create_symlink(target, folder_ / path);
  }

  // What the file at `path` holds, or the reason why it is not opened.
  std::string Read(const std::string& path) {
    const auto file = roots_.Open(folder_ / path, path);
    EXPECT_EQ(roots_.Check(folder_ / path, path).ok(), file.ok());
    return Contents(file);
  }
  // The same without the check before it, as if what was checked had been swapped since.
  std::string ReadUnchecked(const std::string& relative) {
    const std::string root = std::filesystem::canonical(folder_ / "data").string() + "/";
    const std::string contents = Contents(OpenBeneath(root, relative, relative));
    EXPECT_EQ(Contents(OpenBeneath(root, relative, relative, /*ask_kernel=*/false)), contents);
    return contents;
  }

  TempFolder folder_;
  Roots roots_;

 private:
  static std::string Contents(const absl::StatusOr<DataFile>& file) {
    if (!file.ok()) {
      const std::string reason = ReasonOf(file.status());
      EXPECT_EQ(reason == reason::kPathNotAllowed,
                file.status().code() == absl::StatusCode::kPermissionDenied);
      return reason;
    }
    std::string bytes(file->size_bytes(), '\0');
    EXPECT_TRUE(file->ReadAt(0, bytes.data(), bytes.size()).ok());
    return bytes;
  }
};

TEST_F(RootsTest, FilesBelowARootAreRead) {
  EXPECT_EQ(Read("data/a.rec"), "inside");
  EXPECT_EQ(Read("data/deep/b.rec"), "inside");
  EXPECT_EQ(Read("data/deep/../a.rec"), "inside");
  EXPECT_EQ(Read("other/../data/a.rec"), "inside");
}

TEST_F(RootsTest, LinksInsideOrBetweenRootsAreFine) {
  Link("deep/b.rec", "data/link.rec");
  Link(folder_ / "other/c.rec", "data/absolute.rec");
  Link("../other", "data/folder");
  Link("../secret/../other/c.rec", "data/detour.rec");
  EXPECT_EQ(Read("data/link.rec"), "inside");
  EXPECT_EQ(Read("data/absolute.rec"), "inside");
  EXPECT_EQ(Read("data/folder/c.rec"), "inside");
  EXPECT_EQ(Read("data/detour.rec"), "inside");
}

TEST_F(RootsTest, ALinkIntoARootFromOutsideIsFine) {
  Link("../data/a.rec", "secret/link.rec");
  EXPECT_EQ(Read("secret/link.rec"), "inside");
}

TEST_F(RootsTest, WhatLeadsOutIsRefused) {
  Link(folder_ / "secret/key.rec", "data/link.rec");
  Link("../secret", "data/folder");
  Link("folder/key.rec", "data/twice.rec");
  for (const char* path :
       {"secret/key.rec", "data/../secret/key.rec", "data/link.rec", "data/folder/key.rec",
        "data/twice.rec", "data/deep/../folder/key.rec"}) {
    EXPECT_EQ(Read(path), reason::kPathNotAllowed) << path;
  }
}

TEST_F(RootsTest, OutsideNobodyIsToldWhatThereIs) {
  for (const char* path : {"/etc/passwd", "/etc/there-is-no-such-file", "/no/such/folder/file"}) {
    const absl::Status refused = roots_.Check(path, "x").status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << path << ": " << refused;
  }
}

TEST_F(RootsTest, ALinkThatLeadsOutTellsNotWhetherItsTargetIsThere) {
  Link("../secret/key.rec", "data/there");
  Link("../secret/none.rec", "data/missing");
  Link("missing", "data/twice");
  Link(folder_ / "secret/none", "data/folder");
  Link("deep/none.rec", "data/inside");
  Link("circle", "data/circle");
  for (const char* path :
       {"data/there", "data/missing", "data/twice", "data/folder", "data/folder/x"}) {
    EXPECT_EQ(Read(path), reason::kPathNotAllowed) << path;
  }
  EXPECT_EQ(Read("data/inside"), reason::kFileNotFound);
  EXPECT_EQ(Read("data/circle"), reason::kFileUnreadable);
}

TEST_F(RootsTest, AWayThroughOutsideTellsNotWhatThereIs) {
  for (const char* path : {"data/../secret/../data/a.rec", "data/../none/../data/a.rec",
                           "secret/key.rec/../../data/a.rec"}) {
    EXPECT_EQ(Read(path), "inside") << path;
    EXPECT_EQ(*roots_.Check(folder_ / path, "x"), *roots_.Check(folder_ / "data/a.rec", "x"));
  }
}

TEST_F(RootsTest, ANameThatBeginsLikeARootIsNoneOfIt) {
  folder_.Write("data-secret/key.rec", "secret");
  EXPECT_EQ(Read("data-secret/key.rec"), reason::kPathNotAllowed);
}

TEST_F(RootsTest, WhatWasSwappedForALinkAfterTheCheckIsRefused) {
  Link(folder_ / "secret/key.rec", "data/link.rec");
  Link("../secret", "data/folder");
  Link("a.rec", "data/inner.rec");
  EXPECT_EQ(ReadUnchecked("a.rec"), "inside");
  EXPECT_EQ(ReadUnchecked("deep/b.rec"), "inside");
  EXPECT_EQ(ReadUnchecked("link.rec"), reason::kPathNotAllowed);
  EXPECT_EQ(ReadUnchecked("folder/key.rec"), reason::kPathNotAllowed);
  // Of a path that was resolved before, no link can be part.
  EXPECT_EQ(ReadUnchecked("inner.rec"), reason::kPathNotAllowed);
  EXPECT_EQ(ReadUnchecked("../secret/key.rec"), reason::kPathNotAllowed);
  EXPECT_EQ(ReadUnchecked("gone.rec"), reason::kFileNotFound);
}

TEST_F(RootsTest, MissingFilesAndFoldersAreNamed) {
  EXPECT_EQ(Read("data/gone.rec"), reason::kFileNotFound);
  EXPECT_EQ(ReasonOf(roots_.Open(folder_ / "data/deep", "deep").status()), reason::kFileUnreadable);
  EXPECT_EQ(ReasonOf(roots_.Open(folder_ / "data", "data").status()), reason::kFileUnreadable);
}

TEST_F(RootsTest, WithoutRootsEveryFileIsRead) {
  roots_ = Roots();
  EXPECT_EQ(Read("secret/key.rec"), "secret");
}

}  // namespace
}  // namespace bulkhead
