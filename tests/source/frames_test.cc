#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "server/spec/selection.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder of images, whose bytes are their paths, in windows.
class FramesTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::string>& names) {
    for (const std::string& name : names) folder_.Write("data/" + name, name);
  }

  v1::Frames& Frames(uint32_t window, uint32_t stride) {
    v1::ImageFolderSource& source = *test_.source.mutable_image_folder();
    source.set_path("data");
    source.set_unlabeled(true);
    source.clear_extensions();
    source.add_extensions("jpg");
    source.mutable_frames()->set_window(window);
    source.mutable_frames()->set_stride(stride);
    *selection_.mutable_frames() = source.frames();
    return *source.mutable_frames();
  }

  // What the images of every window hold, a window a text: "a/1.jpg a/2.jpg".
  std::vector<std::string> Windows() {
    test_.resolved.clear_files();
    EXPECT_TRUE(test_.Index(folder_ / "data").ok());
    EXPECT_TRUE(test_.Select(selection_, folder_.path()).ok());
    source_ = test_.Open().value();
    context_ = source_->NewContext();
    std::vector<std::string> windows;
    for (uint64_t i = 0; i < source_->record_count(); ++i) windows.push_back(Window(i));
    return windows;
  }
  std::string Window(uint64_t i) {
    const absl::Status status = source_->Read(i, *context_, record_);
    EXPECT_TRUE(status.ok()) << status;
    std::string text;
    for (size_t k = 0; k + 1 < record_.values.size(); ++k) {
      text += (k == 0 ? "" : " ") + Text(record_.values[k]);
    }
    EXPECT_EQ(Text(record_.values.back()), Text(record_.values[0])) << "`path` is the first's";
    return text;
  }

  TempFolder folder_;
  TestSource test_;
  internal::v1::Selection selection_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<ReadContext> context_;
  Record record_;
};

TEST_F(FramesTest, WindowsStayWithinTheirFolder) {
  Write({"a/1.jpg", "a/2.jpg", "a/3.jpg", "b/1.jpg", "c/1.jpg", "c/2.jpg"});
  Frames(2, 1);
  EXPECT_THAT(Windows(), ElementsAre("a/1.jpg a/2.jpg", "a/2.jpg a/3.jpg", "c/1.jpg c/2.jpg"));
  EXPECT_EQ(source_->features()[1].name, "image/1");
  EXPECT_EQ(source_->RecordName(1), "a/2.jpg");
}

TEST_F(FramesTest, TheStrideCountsFromTheBeginOfEachFolder) {
  Write({"a/1.jpg", "a/2.jpg", "a/3.jpg", "a/4.jpg", "a/5.jpg", "b/1.jpg", "b/2.jpg"});
  Frames(2, 2);
  EXPECT_THAT(Windows(), ElementsAre("a/1.jpg a/2.jpg", "a/3.jpg a/4.jpg", "b/1.jpg b/2.jpg"));
  Frames(2, 3);
  EXPECT_THAT(Windows(), ElementsAre("a/1.jpg a/2.jpg", "a/4.jpg a/5.jpg", "b/1.jpg b/2.jpg"));
}

TEST_F(FramesTest, AFolderWithTooFewImagesHasNoWindow) {
  Write({"a/1.jpg", "a/2.jpg"});
  Frames(3, 1);
  test_.resolved.clear_files();
  ASSERT_TRUE(test_.Index(folder_ / "data").ok());
  EXPECT_EQ(test_.Select(selection_, folder_.path()).value(), 0u);
  const v1::SelectionCounts counts = CountSelected(test_.source, [&] {
    internal::v1::ResolvedSource resolved = test_.resolved;
    resolved.mutable_files(0)->set_record_count(2);
    return resolved;
  }());
  EXPECT_THAT(std::string(CheckSelected(selection_, counts).message()),
              HasSubstr("no folder has 3 images in a row"));
}

TEST_F(FramesTest, OverlappingFramesAreReadOnceWhileWindowsMoveForward) {
  Write({"a/1.jpg", "a/2.jpg", "a/3.jpg", "a/4.jpg"});
  Frames(2, 1);
  ASSERT_THAT(Windows(), ElementsAre("a/1.jpg a/2.jpg", "a/2.jpg a/3.jpg", "a/3.jpg a/4.jpg"));
  EXPECT_EQ(Window(0), "a/1.jpg a/2.jpg");
  const uint64_t second = record_.values[1].frame;
  EXPECT_NE(record_.values[0].frame, second);
  // The file is gone, but its bytes are here.
  std::filesystem::remove(folder_ / "data/a/2.jpg");
  EXPECT_EQ(Window(1), "a/2.jpg a/3.jpg");
  EXPECT_EQ(record_.values[0].frame, second) << "by which its pixels are found again";
  // Whoever begins anew notices.
  EXPECT_FALSE(source_->Read(0, *context_, record_).ok());
}

TEST_F(FramesTest, FramesOfWindowsThatDoNotOverlapAreNotKept) {
  Write({"a/1.jpg", "a/2.jpg", "a/3.jpg", "a/4.jpg"});
  Frames(2, 2);
  ASSERT_THAT(Windows(), ElementsAre("a/1.jpg a/2.jpg", "a/3.jpg a/4.jpg"));
  EXPECT_EQ(record_.values[0].frame, 0u);
}

TEST_F(FramesTest, ASplitKeepsAFolderInOnePart) {
  std::vector<std::string> names;
  for (int clip = 0; clip < 40; ++clip) {
    for (const char* frame : {"1", "2", "3", "4"}) {
      names.push_back("clip" + std::to_string(clip) + "/" + frame + ".jpg");
    }
  }
  Write(names);
  Frames(2, 1);
  v1::Split& split = *selection_.mutable_split();
  (*split.mutable_parts())["a"] = 0.5;
  (*split.mutable_parts())["b"] = 0.5;
  split.set_use("a");
  std::map<std::string, int> windows;
  for (const std::string& window : Windows()) ++windows[window.substr(0, window.find('/'))];
  EXPECT_GT(windows.size(), 8u);
  EXPECT_LT(windows.size(), 32u);
  for (const auto& [clip, count] : windows) EXPECT_EQ(count, 3) << clip;
}

TEST_F(FramesTest, LinesOfAListMakeClipsToo) {
  Write({"a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"});
  const std::string list =
      folder_.Write("data/list.txt", "a/1.jpg b/1.jpg 7\na/2.jpg b/2.jpg 8\nb/1.jpg a/1.jpg 9\n");
  TestSource test;
  v1::ImageListSource& source = *test.source.mutable_image_list();
  source.set_path("list.txt");
  for (const char* column : {"left", "right"}) source.add_images(column);
  source.mutable_frames()->set_window(2);
  source.mutable_frames()->set_stride(1);
  *selection_.mutable_frames() = source.frames();
  ASSERT_TRUE(test.Index(list).ok());
  ASSERT_EQ(test.Select(selection_, folder_.path()).value(), 1u);
  const auto opened = test.Open().value();
  const auto context = opened->NewContext();
  ASSERT_TRUE(opened->Read(0, *context, record_).ok());
  std::vector<std::string> names;
  for (const FeatureSignature& feature : opened->features()) names.push_back(feature.name);
  EXPECT_THAT(names, ElementsAre("label", "left/0", "left/1", "path", "right/0", "right/1"));
  EXPECT_EQ(Numbers<int64_t>(record_.values[0])[0], 7);
  EXPECT_EQ(Text(record_.values[1]), "a/1.jpg");
  EXPECT_EQ(Text(record_.values[2]), "a/2.jpg");
  EXPECT_EQ(Text(record_.values[4]), "b/1.jpg");
  EXPECT_EQ(Text(record_.values[5]), "b/2.jpg");
}

TEST_F(FramesTest, ALineThatCannotBeReadIsARecordByItself) {
  Write({"a/1.jpg", "a/2.jpg", "a/3.jpg"});
  const std::string list =
      folder_.Write("data/list.txt", "a/1.jpg 1\na/2.jpg 2\na/3.jpg x y z\na/3.jpg 3\n");
  TestSource test;
  test.keep_malformed = true;
  v1::ImageListSource& source = *test.source.mutable_image_list();
  source.set_path("list.txt");
  source.mutable_frames()->set_window(2);
  source.mutable_frames()->set_stride(1);
  *selection_.mutable_frames() = source.frames();
  ASSERT_TRUE(test.Index(list).ok());
  ASSERT_EQ(test.Select(selection_, folder_.path()).value(), 2u);
  const auto opened = test.Open().value();
  const auto context = opened->NewContext();
  EXPECT_TRUE(opened->Read(0, *context, record_).ok());
  EXPECT_EQ(ReasonOf(opened->Read(1, *context, record_)), reason::kListInvalid);
}

}  // namespace
}  // namespace bulkhead
