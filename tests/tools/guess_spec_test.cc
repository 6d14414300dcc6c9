#include "tools/stream/guess_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/source/tfrecord_writer.h"
#include "tests/tools/test_dir.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Guess(const std::vector<std::string>& data, const GuessOptions& options = {}) {
  const auto spec = GuessSpec(data, options);
  return spec.ok() ? *spec : "error: " + std::string(spec.status().message());
}

std::string WriteRecord(const TestDir& dir, const std::string& name, const std::string& record) {
  return dir.Write(name, TfRecordFrame(record));
}

TEST(GuessSpecTest, AFolderWithSubfoldersHasClasses) {
  TestDir dir;
  dir.Write("cats/a.jpg", "");
  EXPECT_THAT(Guess({dir.path().string()}),
              AllOf(HasSubstr("image_folder"), Not(HasSubstr("unlabeled")),
                    HasSubstr("outputs: [image, label]")));
}

TEST(GuessSpecTest, AFlatFolderHasNone) {
  TestDir dir;
  dir.Write("a.jpg", "");
  EXPECT_THAT(Guess({dir.path().string()}),
              AllOf(HasSubstr("unlabeled: true"), HasSubstr("outputs: [image]")));
}

TEST(GuessSpecTest, AListTellsItsColumns) {
  TestDir dir;
  EXPECT_THAT(Guess({dir.Write("a.txt", "# note\n\nx.jpg\t3\n")}),
              AllOf(HasSubstr("labels: [label]"), Not(HasSubstr("header"))));
  EXPECT_THAT(Guess({dir.Write("b.csv", "file,class\nx.jpg,3\n")}), HasSubstr("header: true"));
  EXPECT_THAT(Guess({dir.Write("c.txt", "x.jpg 0.5 0.25\n")}),
              AllOf(HasSubstr("labels: [label, label_2]"), HasSubstr("label_dtype: float32")));
  EXPECT_THAT(Guess({dir.Write("d.txt", "x.jpg\n")}), HasSubstr("unlabeled: true"));
}

TEST(GuessSpecTest, RecordsWithCommonNamesAreUnderstood) {
  TestDir dir;
  WriteRecord(dir, "a-0.tfrecord",
              ExampleBuilder().Bytes("img_raw", "…").Int64("label", 1).Serialize());
  EXPECT_THAT(Guess({(dir.path() / "a-*.tfrecord").string()}),
              AllOf(HasSubstr("a-*.tfrecord"), HasSubstr("image: {key: \"img_raw\""),
                    HasSubstr("label: {key: \"label\"")));
}

TEST(GuessSpecTest, UnknownNamesAreListedAndCanBeSaid) {
  TestDir dir;
  const std::string file = WriteRecord(
      dir, "a.tfrecord", ExampleBuilder().Bytes("pixels", "…").Int64("kind", 1).Serialize());
  EXPECT_THAT(Guess({file}), AllOf(HasSubstr("--feature image=NAME"), HasSubstr("kind: int64 x 1"),
                                   HasSubstr("pixels: bytes x 1")));
  GuessOptions options;
  options.features = {{"image", "pixels"}, {"label", "kind"}};
  EXPECT_THAT(Guess({file}, options),
              AllOf(HasSubstr("key: \"pixels\""), HasSubstr("key: \"kind\"")));
  options.features = {{"image", "pixel"}};
  EXPECT_THAT(Guess({file}, options), HasSubstr("there is no 'pixel'"));
}

TEST(GuessSpecTest, WhatIsNoTfRecordSaysSo) {
  TestDir dir;
  EXPECT_THAT(Guess({dir.Write("a.bin", std::string(64, '\0'))}), HasSubstr("a.bin@0: "));
  EXPECT_THAT(Guess({dir.Write("b.bin", std::string(3, '\0'))}), HasSubstr("too short"));
  const std::string whole = TfRecordFrame(ExampleBuilder().Bytes("image", "…").Serialize());
  EXPECT_THAT(Guess({dir.Write("c.bin", whole.substr(0, 16))}), HasSubstr("cut short"));
  EXPECT_THAT(Guess({WriteRecord(dir, "d.bin", "\xff\xff no Example")}),
              HasSubstr("no tf.Example"));
}

TEST(GuessSpecTest, WhatIsNotThereSaysSo) {
  EXPECT_THAT(Guess({"/nonexistent/*.tfrecord"}), HasSubstr("no file matches"));
}

}  // namespace
}  // namespace bulkhead::tools
