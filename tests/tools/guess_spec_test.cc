#include "tools/inspect/guess_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "server/source/tfrecord/tfrecord_writer.h"
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
              HasSubstr("not a tf.Example"));
}

TEST(GuessSpecTest, AnEmptyTfRecordFileSaysThatItIsEmpty) {
  TestDir dir;
  const std::string empty = dir.Write("a-0.tfrecord", "");
  EXPECT_THAT(Guess({empty}), AllOf(HasSubstr("a-0.tfrecord: is empty"), Not(HasSubstr("label"))));
  WriteRecord(dir, "a-1.tfrecord", ExampleBuilder().Bytes("image", "…").Serialize());
  EXPECT_THAT(Guess({(dir.path() / "a-*.tfrecord").string()}), HasSubstr("image: {key: \"image\""));
}

// The same record as a whole file of each compression.
std::string Compressed(const std::string& bytes, int window_bits) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(GuessSpecTest, CompressedRecordsAreUnderstoodAndReadInTheirOrder) {
  TestDir dir;
  const std::string frame =
      TfRecordFrame(ExampleBuilder().Bytes("jpeg", "…").Int64("y", 1).Serialize());
  constexpr int kGzip = 15 + 16, kZlib = 15;
  for (const std::string& file : {dir.Write("a.tfrecord.gz", Compressed(frame, kGzip)),
                                  dir.Write("a.bin", Compressed(frame, kZlib))}) {
    EXPECT_THAT(Guess({file}), AllOf(HasSubstr("key: \"jpeg\""), HasSubstr("key: \"y\""),
                                     HasSubstr("order: {sequential: {}}")));
  }
  const std::string whole = Compressed(frame, kGzip);
  EXPECT_THAT(Guess({dir.Write("c.gz", whole.substr(0, whole.size() / 2))}),
              AllOf(HasSubstr("error: "), HasSubstr("c.gz")));
}

TEST(GuessSpecTest, WhatIsNotThereSaysSo) {
  EXPECT_THAT(Guess({"/nonexistent/*.tfrecord"}), HasSubstr("no file matches"));
}

}  // namespace
}  // namespace bulkhead::tools
