#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/spec/normalize/normalize.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() { Take({"bmp", "jpeg", "jpg", "png", "webp"}); }

  // As normalized specs do, names the endings of images.
  void Take(const std::vector<std::string>& extensions) {
    auto& taken = *test_.source.mutable_image_folder()->mutable_extensions();
    taken.Assign(extensions.begin(), extensions.end());
  }

  // "path label" of every record.
  std::vector<std::string> Rows() {
    std::vector<std::string> rows;
    const auto source = test_.Open();
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return rows;
    const auto context = (*source)->NewContext();
    Record record;
    for (uint64_t i = 0; i < (*source)->record_count(); ++i) {
      const absl::Status status = (*source)->Read(i, *context, record);
      EXPECT_TRUE(status.ok()) << status;
      const FeatureValue& path = record.values.back();
      EXPECT_EQ(Text(record.values[0]), Text(path));  // the files hold their own names
      rows.push_back(Text(path));
      if (record.values.size() == 3) {
        absl::StrAppend(&rows.back(), " ", Numbers<int64_t>(record.values[1])[0]);
      }
    }
    return rows;
  }

  void Put(const std::string& name) { folder_.Write("set/" + name, name); }
  absl::StatusOr<uint64_t> Index() { return test_.Index(folder_ / "set"); }

  TempFolder folder_;
  TestSource test_;
};

TEST_F(ImageFolderTest, LabelsFollowSortedClassNamesAndImagesSortedPaths) {
  for (const char* name :
       {"dog/2.JPG", "dog/10.jpeg", "cat/deep/er/x.png", "cat/a.webp", "Zebra/z.bmp",
        "cat/notes.txt", "cat/.hidden.jpg", ".git/x.jpg", "stray.jpg"}) {
    Put(name);
  }
  std::filesystem::create_directory(folder_ /
                                    "set/bird");  // a class without images keeps its number
  const auto records = Index();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(Rows(), ElementsAre("Zebra/z.bmp 0", "cat/a.webp 2", "cat/deep/er/x.png 2",
                                  "dog/10.jpeg 3", "dog/2.JPG 3"));
}

TEST_F(ImageFolderTest, ByDefaultAGifIsNoSample) {
  v1::PipelineSpec spec;
  spec.mutable_source()->mutable_image_folder()->set_path("set");
  spec.mutable_batch()->set_size(1);
  ASSERT_TRUE(Normalize(spec).ok());
  *test_.source.mutable_image_folder() = spec.source().image_folder();
  for (const char* name : {"cat/a.gif", "cat/b.jpg", "cat/c.GIF"}) Put(name);
  ASSERT_TRUE(Index().ok());
  EXPECT_THAT(Rows(), ElementsAre("cat/b.jpg 0"));
}

TEST_F(ImageFolderTest, OrderIsThatOfWholePathsAlsoWhereOneClassBeginsLikeAnother) {
  for (const char* name : {"a/1.jpg", "a-b/1.jpg", "a/b.jpg", "a/b/c.jpg", "a/b-c.jpg"}) Put(name);
  ASSERT_TRUE(Index().ok());
  EXPECT_THAT(Rows(),
              ElementsAre("a-b/1.jpg 1", "a/1.jpg 0", "a/b-c.jpg 0", "a/b.jpg 0", "a/b/c.jpg 0"));
}

TEST_F(ImageFolderTest, RecordsAreCalledByTheirPathsBelowTheFolder) {
  Put("c/a.jpg");
  ASSERT_TRUE(Index().ok());
  for (const char* folder : {"photos/set", ".", "/set"}) {
    test_.resolved.mutable_files(0)->set_name(folder);
    const auto source = test_.Open();
    EXPECT_EQ((*source)->RecordName(0), "c/a.jpg");
    const auto context = (*source)->NewContext();
    Record record;
    ASSERT_TRUE((*source)->Read(0, *context, record).ok());
    EXPECT_EQ(record.origin, "c/a.jpg");
  }
}

TEST_F(ImageFolderTest, UnlabeledFolderGivesNoLabel) {
  Put("b.jpg");
  Put("sub/a.jpg");
  test_.source.mutable_image_folder()->set_unlabeled(true);
  ASSERT_TRUE(Index().ok());
  EXPECT_THAT(Rows(), ElementsAre("b.jpg", "sub/a.jpg"));
}

TEST_F(ImageFolderTest, TakesOnlyTheExtensionsAskedFor) {
  Put("c/a.jpg");
  Put("c/b.Ppm");
  Take({"PPM"});
  ASSERT_TRUE(Index().ok());
  EXPECT_THAT(Rows(), ElementsAre("c/b.Ppm 0"));
}

TEST_F(ImageFolderTest, FollowsLinksButNotInCircles) {
  Put("c/a.jpg");
  folder_.Write("elsewhere/c/linked.jpg", "c/linked.jpg");
  std::filesystem::create_symlink(folder_ / "elsewhere/c/linked.jpg", folder_ / "set/c/linked.jpg");
  ASSERT_TRUE(Index().ok());
  EXPECT_THAT(Rows(), ElementsAre("c/a.jpg 0", "c/linked.jpg 0"));
  std::filesystem::create_directory_symlink(folder_ / "set", folder_ / "set/c/round");
  const auto circle = Index();
  EXPECT_EQ(ReasonOf(circle.status()), reason::kFileUnreadable);
  EXPECT_THAT(std::string(circle.status().message()), HasSubstr("c/round"));
}

TEST_F(ImageFolderTest, LinkOutOfTheRootsIsRefused) {
  Put("c/a.jpg");
  folder_.Write("elsewhere/x.jpg", "x");
  std::filesystem::create_symlink(folder_ / "elsewhere/x.jpg", folder_ / "set/c/x.jpg");
  test_.resolved.add_roots(folder_ / "set");
  EXPECT_EQ(ReasonOf(Index().status()), reason::kPathNotAllowed);
}

TEST_F(ImageFolderTest, GivenClassesDecideTheNumbers) {
  for (const char* name : {"cat/a.jpg", "dog/b.jpg"}) Put(name);
  std::filesystem::create_directory(folder_ / "set/empty");
  for (const char* name : {"emu", "dog", "cat"}) {
    test_.source.mutable_image_folder()->add_classes(name);
  }
  ASSERT_TRUE(Index().ok());
  EXPECT_THAT(Rows(), ElementsAre("cat/a.jpg 2", "dog/b.jpg 1"));
  Put("dogs/c.jpg");
  const auto refused = Index();
  EXPECT_EQ(ReasonOf(refused.status()), reason::kListInvalid);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("set/dogs: is not among `classes`; did you mean `dog`?"));
}

TEST_F(ImageFolderTest, ClassesMayStandInAFile) {
  for (const char* name : {"cat/a.jpg", "dog/b.jpg"}) Put(name);
  test_.source.mutable_image_folder()->set_classes_file("names.txt");
  test_.classes = folder_.Write("names.txt", "emu\ndog\ncat\n");
  ASSERT_TRUE(Index().ok());
  EXPECT_THAT(Rows(), ElementsAre("cat/a.jpg 2", "dog/b.jpg 1"));
}

TEST_F(ImageFolderTest, ALinkThatLeadsNowhereIsAnErrorOrASampleError) {
  Put("c/a.jpg");
  std::filesystem::create_symlink(folder_ / "gone.jpg", folder_ / "set/c/b.jpg");
  std::filesystem::create_symlink(folder_ / "gone.txt", folder_ / "set/c/notes.txt");
  EXPECT_EQ(ReasonOf(Index().status()), reason::kFileNotFound);
  test_.keep_missing = true;
  const auto records = Index();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, 2);
  const auto source = test_.Open();
  const auto context = (*source)->NewContext();
  Record record;
  EXPECT_TRUE((*source)->Read(0, *context, record).ok());
  const absl::Status missing = (*source)->Read(1, *context, record);
  EXPECT_TRUE(IsSampleError(missing)) << missing;
  EXPECT_EQ(MetadataOf(missing, "file"), "c/b.jpg");
}

TEST_F(ImageFolderTest, FolderWithoutImagesIsRefused) {
  EXPECT_EQ(ReasonOf(Index().status()), reason::kFileNotFound);
  Put("loose.jpg");  // not in a class
  const auto records = Index();
  EXPECT_EQ(ReasonOf(records.status()), reason::kNoSamples);
  EXPECT_THAT(std::string(records.status().message()), HasSubstr("unlabeled"));
}

TEST_F(ImageFolderTest, IdentityFollowsPathsAndSizesOnly) {
  Put("c/a.jpg");
  const auto checksum = [&] {
    test_.resolved.clear_files();
    EXPECT_TRUE(Index().ok());
    return IndexHeader::Parse(ReadFile(test_.resolved.files(0).index_path()))->checksum;
  };
  const auto first = checksum();
  folder_.Write("set/c/a.jpg", "C/A.JPG");
  EXPECT_EQ(checksum(), first);
  folder_.Write("set/c/a.jpg", "longer than it was");
  EXPECT_NE(checksum(), first);
  Put("c/a.jpg");
  std::filesystem::rename(folder_ / "set/c/a.jpg", folder_ / "set/c/b.jpg");
  EXPECT_NE(checksum(), first);
}

}  // namespace
}  // namespace bulkhead
