#include "server/data/source_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SourceResolverTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ + "/data/deep");
    std::filesystem::create_directories(folder_ + "/secret");
    for (const char* name : {"data/b.rec", "data/a.rec", "data/deep/c.rec", "secret/key.rec"}) {
      std::ofstream(folder_ + "/" + name) << name;
    }
    roots_.roots = {folder_ + "/data"};
  }

  static v1::Source Records(std::initializer_list<std::string> files) {
    v1::Source source;
    for (const std::string& file : files) source.mutable_tfrecord()->add_files(file);
    return source;
  }
  static std::vector<std::string> Names(const internal::v1::ResolvedSource& resolved) {
    std::vector<std::string> names;
    for (const auto& file : resolved.files()) names.push_back(file.name());
    return names;
  }
  std::string ReasonOf(const v1::Source& source) {
    const auto resolved = ResolveSource(source, folder_ + "/data", roots_);
    return resolved.ok() ? "OK" : GetErrorInfo(resolved.status())->reason;
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
  DataRoots roots_;
};

TEST_F(SourceResolverTest, APublishedIndexIsNoData) {
  std::ofstream(folder_ + "/data/a.rec.bulkhead-index") << "index";
  EXPECT_THAT(Names(ResolveSource(Records({"a.*"}), folder_ + "/data", roots_).value()),
              ElementsAre("a.rec"));
  EXPECT_EQ(ReasonOf(Records({"a.rec.*"})), reason::kFileNotFound);
  roots_.roots = {"s3://b"};
  const FindObjectsFn find = [](const std::string&) {
    std::vector<internal::v1::ResolvedFile> found;
    for (const char* url : {"s3://b/a.rec", "s3://b/a.rec.bulkhead-index"}) {
      found.emplace_back().set_path(url);
      found.back().mutable_object()->set_url(url);
    }
    return found;
  };
  EXPECT_THAT(Names(ResolveSource(Records({"s3://b/a*"}), "/", roots_, find).value()),
              ElementsAre("a.rec"));
}

TEST_F(SourceResolverTest, AFolderOfObjectsIsNamedAndNotLookedAt) {
  roots_.roots = {"s3://b/train"};
  v1::Source source;
  source.mutable_image_folder()->set_path("s3://b/train/photos");
  const FindObjectsFn none =
      [](const std::string&) -> absl::StatusOr<std::vector<internal::v1::ResolvedFile>> {
    return absl::InternalError("asks the store");
  };
  const auto refused = [&](const FindObjectsFn& find) {
    return GetErrorInfo(ResolveSource(source, "/", roots_, find).status())->reason;
  };
  const auto resolved = ResolveSource(source, "/", roots_, none).value();
  ASSERT_EQ(resolved.files_size(), 1);
  EXPECT_EQ(resolved.files(0).path(), "s3://b/train/photos/");
  EXPECT_EQ(resolved.files(0).name(), "photos");
  source.mutable_image_folder()->set_path("s3://b/training/photos");
  EXPECT_EQ(refused(none), reason::kPathNotAllowed);
  source.mutable_image_folder()->set_path("s3://b/train/photos");
  EXPECT_EQ(refused(nullptr), reason::kPathNotAllowed);
}

TEST_F(SourceResolverTest, WithoutARootNoEntryIsRead) {
  v1::Source source;
  source.mutable_image_list()->add_entries("/etc/passwd 0");
  const absl::Status refused = ResolveSource(source, "/", {}).status();
  EXPECT_EQ(GetErrorInfo(refused)->reason, reason::kPathNotAllowed);
  EXPECT_TRUE(ResolveSource(source, "/", {{}, /*unrestricted=*/true}).ok());
}

TEST_F(SourceResolverTest, AUrlThatMatchesNothingIsAnError) {
  roots_.roots = {"s3://b"};
  const FindObjectsFn none = [](const std::string&) {
    return std::vector<internal::v1::ResolvedFile>();
  };
  const auto resolved = ResolveSource(Records({"s3://b/a*"}), "/", roots_, none);
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(GetErrorInfo(resolved.status())->reason, reason::kFileNotFound);
  EXPECT_THAT(std::string(resolved.status().message()), HasSubstr("no object matches s3://b/a*"));
}

TEST_F(SourceResolverTest, FindsFilesInTheOrderOfTheirNames) {
  const auto resolved =
      ResolveSource(Records({"deep/*.rec", "*.rec"}), folder_ + "/data", roots_).value();
  EXPECT_THAT(Names(resolved), ElementsAre("a.rec", "b.rec", "c.rec"));
  EXPECT_EQ(resolved.files(0).path(), folder_ + "/data/a.rec");
  EXPECT_EQ(resolved.files(0).size_bytes(), 10);
  EXPECT_GT(resolved.files(0).mtime_ns(), 0);
  EXPECT_GT(resolved.files(0).inode(), 0);
}

TEST_F(SourceResolverTest, AFileThatIsThereAsWrittenIsThatFileInAnyFolder) {
  for (const std::string name : {"run", "run[1]", "run*", "run\\1"}) {
    const std::string folder = absl::StrCat(folder_, "/data/", name);
    std::filesystem::create_directories(folder);
    for (const char* file : {"x[1].rec", "x1.rec", "y\\z.rec"}) {
      std::ofstream(absl::StrCat(folder, "/", file)) << file;
    }
    for (const std::string file : {"x[1].rec", "x1.rec", "y\\z.rec"}) {
      for (const std::string& written : {file, absl::StrCat(folder, "/", file)}) {
        const auto resolved = ResolveSource(Records({written}), folder, roots_);
        ASSERT_TRUE(resolved.ok()) << resolved.status();
        EXPECT_THAT(Names(*resolved), ElementsAre(file)) << written;
        EXPECT_EQ(resolved->files(0).path(), absl::StrCat(folder, "/", file));
      }
    }
  }
}

TEST_F(SourceResolverTest, AFolderInPlaceOfAListIsAnsweredWithTheSourceForFolders) {
  v1::Source source;
  source.mutable_image_list()->set_path("deep");
  EXPECT_THAT(std::string(ResolveSource(source, folder_ + "/data", roots_).status().message()),
              testing::HasSubstr("deep is a folder, not a list; a folder of images is an "
                                 "image_folder source"));
}

TEST_F(SourceResolverTest, WhatLeadsOutOfTheRootsIsRefused) {
  std::filesystem::create_symlink(folder_ + "/secret/key.rec", folder_ + "/data/link.rec");
  EXPECT_EQ(ReasonOf(Records({"../secret/key.rec"})), "PATH_NOT_ALLOWED");
  EXPECT_EQ(ReasonOf(Records({"link.rec"})), "PATH_NOT_ALLOWED");
  std::filesystem::create_symlink(folder_ + "/secret/none", folder_ + "/data/to-nothing");
  EXPECT_EQ(ReasonOf(Records({"to-nothing"})), "PATH_NOT_ALLOWED");
  EXPECT_EQ(ReasonOf(Records({"to-nothing/x.rec"})), "PATH_NOT_ALLOWED");
  EXPECT_EQ(ReasonOf(Records({folder_ + "/secret/key.rec"})), "PATH_NOT_ALLOWED");
}

TEST_F(SourceResolverTest, AFileOfClassesIsFoundBesideTheSource) {
  std::ofstream(folder_ + "/data/names.txt") << "cat";
  v1::Source source;
  source.mutable_image_folder()->set_path("deep");
  source.mutable_image_folder()->set_classes_file("names.txt");
  const auto resolved = ResolveSource(source, folder_ + "/data", roots_).value();
  EXPECT_THAT(Names(resolved), ElementsAre("deep"));
  EXPECT_EQ(resolved.classes().path(), folder_ + "/data/names.txt");
  EXPECT_EQ(resolved.classes().name(), "names.txt");
  EXPECT_EQ(resolved.classes().size_bytes(), 3);
  source.mutable_image_folder()->set_classes_file("../secret/key.rec");
  EXPECT_EQ(ReasonOf(source), "PATH_NOT_ALLOWED");
  source.mutable_image_folder()->set_classes_file("none.txt");
  EXPECT_EQ(ReasonOf(source), "FILE_NOT_FOUND");
}

TEST_F(SourceResolverTest, AFileOfClassesMayBeAnObject) {
  roots_.roots.push_back("s3://b");
  const FindObjectsFn find = [](const std::string& url) {
    internal::v1::ResolvedFile file;
    file.mutable_object()->set_url(url);
    return std::vector<internal::v1::ResolvedFile>{file};
  };
  v1::Source source;
  source.mutable_image_folder()->set_path("deep");
  source.mutable_image_folder()->set_classes_file("s3://b/names.txt");
  const auto resolved = ResolveSource(source, folder_ + "/data", roots_, find).value();
  EXPECT_THAT(Names(resolved), ElementsAre("deep"));
  EXPECT_EQ(resolved.classes().name(), "names.txt");
  EXPECT_EQ(resolved.classes().object().url(), "s3://b/names.txt");
  EXPECT_EQ(ReasonOf(source), "PATH_NOT_ALLOWED") << "without a reader of stores";
  source.mutable_image_folder()->set_classes_file("s3://other/names.txt");
  const auto other = ResolveSource(source, folder_ + "/data", roots_, find).status();
  EXPECT_EQ(GetErrorInfo(other)->reason, reason::kPathNotAllowed);
}

TEST_F(SourceResolverTest, WhatIsMissingIsNotFound) {
  EXPECT_EQ(ReasonOf(Records({"none.rec"})), "FILE_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Records({"*.none"})), "FILE_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Records({"missing/*.rec"})), "FILE_NOT_FOUND");
}

TEST_F(SourceResolverTest, WhatIsNearlyThereIsOffered) {
  std::filesystem::create_directories(folder_ + "/data/photos/cats");
  std::ofstream(folder_ + "/data/deep/x.tfrecord-00000-of-00001") << "x";
  const auto said = [&](const v1::Source& source, const std::string& base) {
    return std::string(ResolveSource(source, folder_ + base, roots_).status().message());
  };
  const auto folder = [](const std::string& path) {
    v1::Source source;
    source.mutable_image_folder()->set_path(path);
    return source;
  };
  EXPECT_EQ(said(folder("photo"), "/data"),
            folder_ + "/data/photo does not exist; did you mean photos?");
  EXPECT_EQ(said(folder("photo/cats"), "/data"),
            folder_ + "/data/photo/cats does not exist; did you mean photos/cats?");
  EXPECT_THAT(said(folder("xyz"), "/data"), HasSubstr("relative paths start from"));
  EXPECT_THAT(said(folder("~/photos"), "/data"), HasSubstr("such as /home/NAME/photos"));
  EXPECT_THAT(said(Records({"dep/*.rec"}), "/data"), HasSubstr("did you mean deep/*.rec?"));
  EXPECT_THAT(said(Records({"none/*.rec"}), "/data"), HasSubstr("write files: \"deep/*.tfrec*\""));
  EXPECT_THAT(said(Records({"*"}), "/data"), HasSubstr("such as files: \"deep/*.tfrecord\""));
  // What lies outside the roots is not looked at.
  EXPECT_THAT(said(folder(folder_ + "/secret"), "/data"),
              HasSubstr("lies outside the data roots of this service; start bulkheadd with --root "
                        "FOLDER for its folder, too, or move it"));
  EXPECT_THAT(said(folder(folder_ + "/secre"), "/data"), testing::Not(HasSubstr("mean")));
  EXPECT_THAT(said(Records({"dat/*.rec"}), ""), testing::Not(HasSubstr("mean")));
}

TEST_F(SourceResolverTest, WhatIsMissingSaysWhichPlaceOfTheSpecNamesIt) {
  const auto status = ResolveSource(Records({"*.rec", "none"}), folder_ + "/data", roots_).status();
  EXPECT_EQ(GetErrorInfo(status)->metadata["path"], "source.tfrecord.files[1]");
}

TEST_F(SourceResolverTest, TarsAreFoundAsRecordsAre) {
  std::ofstream(folder_ + "/data/deep/x.tar") << "x";
  v1::Source source;
  const auto said = [&](std::initializer_list<std::string> files) {
    source.mutable_tar()->clear_files();
    for (const std::string& file : files) source.mutable_tar()->add_files(file);
    return ResolveSource(source, folder_ + "/data", roots_);
  };
  EXPECT_THAT(Names(said({"*/*.tar"}).value()), testing::ElementsAre("deep/x.tar"));
  const absl::Status missing = said({"deep/x.tar", "none/*.tar"}).status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("write files: \"deep/*.tar*\""));
  EXPECT_EQ(GetErrorInfo(missing)->metadata["path"], "source.tar.files[1]");
  EXPECT_THAT(std::string(said({"deep/x.tar", "deep/*.tar"}).status().message()),
              HasSubstr("source.tar.files names x.tar twice"));
  EXPECT_THAT(std::string(said({"deep/{x..z}.tar"}).status().message()),
              HasSubstr("braces are not expanded: write * in their place"));
  std::ofstream(folder_ + "/data/deep/{1..2}.tar") << "x";
  EXPECT_THAT(Names(said({"deep/{1..2}.tar"}).value()), testing::ElementsAre("{1..2}.tar"));
  EXPECT_THAT(std::string(said({"deep"}).status().message()), HasSubstr("files: \"deep/*.tar\""));
}

// Nobody learns from a refusal what lies where he may not look.
TEST_F(SourceResolverTest, APatternOutsideTheRootsNamesNoFileThere) {
  const auto refusal = [&](const std::string& pattern) {
    const absl::Status status =
        ResolveSource(Records({pattern}), folder_ + "/data", roots_).status();
    EXPECT_EQ(GetErrorInfo(status)->reason, "PATH_NOT_ALLOWED") << pattern << ": " << status;
    std::string text(status.message());
    EXPECT_EQ(text.find("key.rec"), std::string::npos) << text;
    // Without the pattern itself refusals are all the same.
    return text.substr(text.find(" lies outside"));
  };
  std::filesystem::create_symlink(folder_ + "/secret", folder_ + "/data/link");
  std::filesystem::create_symlink(folder_ + "/secret", folder_ + "/data/deep/link");
  const std::string expected = refusal(folder_ + "/secret/none-*");
  for (const std::string& pattern : {folder_ + "/secret/k*",
                                     std::string("../secret/k*"),
                                     std::string("../s*/k*.rec"),
                                     std::string("../s*/none*"),
                                     std::string("deep/../../secret/k?y.rec"),
                                     std::string("d*/../../secret/k*"),
                                     std::string("[d]*/../../secret/none*"),
                                     std::string("[d]*/\\.\\./../secret/k*"),
                                     folder_ + "/[ds]*/[ks][ne]*",
                                     folder_ + "/[dx]*/[kz]*",
                                     std::string("link/k*"),
                                     std::string("l*/k*"),
                                     std::string("l*/none*"),
                                     std::string("*/key.rec"),
                                     std::string("*/none.rec"),
                                     std::string("[d]*/link/key.rec"),
                                     std::string("[d]*/link/none.rec"),
                                     folder_ + "/secret/k[e]y.rec",
                                     folder_ + "/nowhere/*",
                                     std::string("/etc/shad*")}) {
    EXPECT_EQ(refusal(pattern), expected) << pattern;
  }
  // "." and ".." match nothing, so that this is never there.
  for (const char* name : {"k*", "none*"}) {
    EXPECT_EQ(ReasonOf(Records({absl::StrCat("[d]*/.?/.?/secret/", name)})), "FILE_NOT_FOUND");
  }
  EXPECT_EQ(ReasonOf(Records({folder_ + "/secret/none.rec"})), "PATH_NOT_ALLOWED");
  EXPECT_EQ(ReasonOf(Records({"../secret/none.rec"})), "PATH_NOT_ALLOWED");
}

TEST_F(SourceResolverTest, AWayThroughOutsideTellsNotWhatThereIs) {
  std::filesystem::create_symlink(folder_ + "/secret", folder_ + "/link");
  for (const char* name : {"none", "secret", "secret/key.rec", "link"}) {
    const std::string up = absl::StrCat(
        folder_, "/", name, "/../", std::string(name).find('/') == std::string::npos ? "" : "../");
    for (const char* path : {"data/a.rec", "data/a*", "data/deep/../a.rec"}) {
      EXPECT_EQ(ReasonOf(Records({up + path})), "OK") << up << path;
    }
    EXPECT_EQ(ReasonOf(Records({up + "data/none.rec"})), "FILE_NOT_FOUND") << up;
    EXPECT_EQ(ReasonOf(Records({up + "secret/key.rec"})), "PATH_NOT_ALLOWED") << up;
    v1::Source folder;
    folder.mutable_image_folder()->set_path(up + "data/deep");
    EXPECT_EQ(ReasonOf(folder), "OK") << up;
    // The same by a base folder.
    EXPECT_TRUE(ResolveSource(Records({"data/a.rec"}), up, roots_).ok()) << up;
  }
}

TEST_F(SourceResolverTest, APatternBeginsInARoot) {
  EXPECT_EQ(ReasonOf(Records({folder_ + "/d*/a.rec"})), "PATH_NOT_ALLOWED");
  EXPECT_EQ(ReasonOf(Records({folder_ + "/data/*/c.rec"})), "OK");
  std::filesystem::create_symlink(folder_ + "/data", folder_ + "/alias");
  EXPECT_EQ(ReasonOf(Records({folder_ + "/alias/a*"})), "OK");
  EXPECT_EQ(ReasonOf(Records({folder_ + "/alias/z*"})), "FILE_NOT_FOUND");
}

TEST_F(SourceResolverTest, ControlCharactersOfNamesAreEscaped) {
  const std::string name = "a\n2026 forged\033[2J.rec";
  const absl::Status status = ResolveSource(Records({name}), folder_ + "/data", roots_).status();
  EXPECT_EQ(GetErrorInfo(status)->reason, "FILE_NOT_FOUND");
  EXPECT_EQ(std::string(status.message()).find_first_of("\n\033"), std::string::npos) << status;
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

TEST_F(SourceResolverTest, NamesDependNeitherOnRootsNorOnTheBaseFolder) {
  const std::string link = folder_ + "/link";
  std::filesystem::create_symlink(folder_ + "/data", link);
  for (const DataRoots& roots :
       {roots_, DataRoots{{folder_}, false}, DataRoots{{}, /*unrestricted=*/true}}) {
    for (const auto& [base, data] : {std::pair(folder_ + "/data", std::string()),
                                     {folder_ + "/data", folder_ + "/data/"},
                                     {folder_ + "/data/deep", "../"},
                                     {folder_ + "/secret", "../data/"},
                                     {folder_ + "/secret", link + "/"},
                                     {link, "./"}}) {
      const auto resolved =
          ResolveSource(Records({data + "*/c.rec", data + "a.rec"}), base, roots).value();
      EXPECT_THAT(Names(resolved), ElementsAre("a.rec", "deep/c.rec")) << base << " " << data;
    }
  }
}

TEST_F(SourceResolverTest, TheBaseFolderIsNoPattern) {
  const std::string base = folder_ + "/data/x[1]*";
  std::filesystem::create_directories(base + "/more");
  std::filesystem::create_directories(folder_ + "/data/x1y");
  for (const char* name : {"/d.rec", "/more/e.rec"}) std::ofstream(base + name) << name;
  std::ofstream(folder_ + "/data/x1y/d.rec") << "d";
  const auto resolved = ResolveSource(Records({"d.rec", "*/*.rec"}), base, roots_).value();
  EXPECT_THAT(Names(resolved), ElementsAre("d.rec", "more/e.rec"));
  EXPECT_EQ(resolved.files(0).path(), base + "/d.rec");
}

TEST_F(SourceResolverTest, AFolderIsCalledByWhereItLeadsIfItsSpellingSaysNothing) {
  v1::Source folder;
  for (const auto& [path, name] : {std::pair("deep", "deep"), {".", "data"}, {"deep/..", "data"}}) {
    folder.mutable_image_folder()->set_path(path);
    EXPECT_THAT(Names(ResolveSource(folder, folder_ + "/data", roots_).value()), ElementsAre(name));
  }
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
