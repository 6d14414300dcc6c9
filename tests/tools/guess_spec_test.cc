#include "tools/inspect/guess_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "server/source/tfrecord/tfrecord_writer.h"
#include "tests/support/test_dir.h"
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
  dir.Write(".git/b.jpg", "");
  EXPECT_THAT(Guess({dir.path().string()}),
              AllOf(HasSubstr("unlabeled: true"), HasSubstr("outputs: [image]")));
}

TEST(GuessSpecTest, AFolderWithoutImagesSaysWhatItHolds) {
  TestDir dir;
  dir.Write("a.tfrecord", "");
  EXPECT_THAT(Guess({dir.path().string()}),
              AllOf(HasSubstr("holds no images"), HasSubstr("/*.tfrec*")));
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

TEST(GuessSpecTest, AllLinesOfAListDecideItsLabels) {
  TestDir dir;
  EXPECT_THAT(Guess({dir.Write("a.txt", "x.jpg 1\ny.jpg 0.5\n")}), HasSubstr("float32"));
  EXPECT_THAT(Guess({dir.Write("b.txt", "x.jpg 1\ny.jpg cat\n")}),
              HasSubstr("column 2 has 1 number and 1 text"));
  EXPECT_THAT(Guess({dir.Write("c.txt", "x.jpg 0.5 cat\n")}), HasSubstr("some are fractions"));
  EXPECT_THAT(Guess({dir.Write("d.csv", "x.jpg,1,2\ny.jpg,1\n")}),
              HasSubstr("column 3 is missing in 1 line;"));
  EXPECT_THAT(Guess({dir.Write("e.txt", "3 x.jpg\n4 y.jpg\n5\n")}),
              HasSubstr("column 2 is missing in 1 line;"));
}

TEST(GuessSpecTest, TextsAreLabelsAndNoTitlesUnlessTheyStandOverPaths) {
  TestDir dir;
  EXPECT_THAT(Guess({dir.Write("a.csv", "x.jpg,cat\ny.jpg,dog\n")}),
              AllOf(HasSubstr("labels: [label]"), Not(HasSubstr("header"))));
  EXPECT_THAT(Guess({dir.Write("b.csv", "image,animal\ny.jpg,dog\n")}), HasSubstr("header: true"));
}

TEST(GuessSpecTest, AMissingFileIsNoTitle) {
  TestDir dir;
  for (const char* list : {"img1 3\nb.jpg 4\n", "img1 cat\nb.jpg dog\n", "img1\nb.jpg\n",
                           "image 3\nb.jpg 4\n", "3 img1\n4 b.jpg\n"}) {
    EXPECT_THAT(Guess({dir.Write("a.txt", list)}), Not(HasSubstr("header"))) << list;
  }
  for (const char* list :
       {"img1 kind\nb.jpg 4\n", "File_Name kind\nb.jpg cat\n", "image\nb.jpg\n"}) {
    EXPECT_THAT(Guess({dir.Write("a.txt", list)}), HasSubstr("header: true")) << list;
  }
}

TEST(GuessSpecTest, SemicolonsSeparate) {
  TestDir dir;
  EXPECT_THAT(
      Guess({dir.Write("a.csv", "path;kind;age\nmy x.jpg;\"a;b\";3\ny.jpg;cat;4\n")}),
      AllOf(HasSubstr("labels: [label, label_2], header: true"), Not(HasSubstr("entries"))));
}

TEST(GuessSpecTest, PathsBehindTheirLabelsArePutFirst) {
  TestDir dir;
  EXPECT_THAT(
      Guess({dir.Write("a.csv", "label,path\n3,x.jpg\n4,y.jpg\n")}),
      AllOf(HasSubstr("entries:"), HasSubstr("/x.jpg\\u00093\""), Not(HasSubstr("header"))));
  std::string text;
  for (int i = 0; i < 1001; ++i) text += "3,x.jpg\n";
  EXPECT_THAT(Guess({dir.Write("it's b.csv", text)}),
              AllOf(HasSubstr("the paths are in column 2"), HasSubstr("'{print $2,$1}' '"),
                    HasSubstr("/it'\\''s b.csv' > reordered.txt")));
  EXPECT_THAT(Guess({dir.Write("c.csv", text + "3,\"x, y.jpg\"\n")}),
              AllOf(HasSubstr("a list's paths come first; put them there"), Not(HasSubstr("awk"))));
}

TEST(GuessSpecTest, RecordsWithCommonNamesAreUnderstood) {
  TestDir dir;
  WriteRecord(dir, "a-0.tfrecord",
              ExampleBuilder().Bytes("img_raw", "…").Int64("label", 1).Serialize());
  EXPECT_THAT(Guess({(dir.path() / "a-*.tfrecord").string()}),
              AllOf(HasSubstr("a-*.tfrecord"), HasSubstr("image: {key: \"img_raw\""),
                    HasSubstr("label: {key: \"label\"")));
}

TEST(GuessSpecTest, QuotedColumnsAreReadAsAStreamReadsThem) {
  TestDir dir;
  EXPECT_THAT(
      Guess({dir.Write("a.csv", "\"animal\",\"path\"\n\"dog, \"\"big\"\"\",\"x, y.jpg\"\n")}),
      HasSubstr("/x, y.jpg\\u0009dog, \\\"big\\\"\""));
  EXPECT_THAT(Guess({dir.Write("b.csv", "x.jpg,cat\ny.jpg,\"dog\nz.jpg,dog\n")}),
              HasSubstr("b.csv:2: column 2 begins with a quote"));
  EXPECT_THAT(Guess({dir.Write("c.csv", "x.jpg,cat\nz.jpg,dog\ny.jpg,\"dog\n")}),
              HasSubstr("c.csv:3: column 2 begins with a quote"));
}

// A file with a record for each of these examples.
std::string WriteExamples(const TestDir& dir,
                          const std::vector<::bulkhead::tensorflow::Example>& examples) {
  std::string frames;
  for (const auto& example : examples) frames += TfRecordFrame(example.SerializeAsString());
  return dir.Write("a.tfrecord", frames);
}

TEST(GuessSpecTest, SerializedTensorsAreLabelsOrOffered) {
  TestDir dir;
  std::vector<::bulkhead::tensorflow::Example> examples(3);
  for (size_t i = 0; i < examples.size(); ++i) {
    auto& features = *examples[i].mutable_features()->mutable_feature();
    features["image"].mutable_bytes_list()->add_value("\xff\xd8\xff\xe0");
    const std::vector<std::array<float, 4>> boxes(i);  // the first is of shape [0]
    features["objects/bbox"].mutable_bytes_list()->add_value(SerializeBoxes(boxes, true));
    features["y"].mutable_bytes_list()->add_value(SerializeBoxes({{1, 2, 3, 4}}, false));
  }
  EXPECT_THAT(
      Guess({WriteExamples(dir, examples)}),
      AllOf(HasSubstr("  label: {key: \"y\", tensor: {dtype: float32, shape: [1, 4]}}\n"),
            HasSubstr("  # bbox: {key: \"objects/bbox\", tensor: {dtype: float32, shape: [-1, 4], "
                      "max_count: 4}}\n")));
}

TEST(GuessSpecTest, ListsOfByteStringsAreOffered) {
  TestDir dir;
  std::vector<::bulkhead::tensorflow::Example> examples(2);
  for (size_t i = 0; i < examples.size(); ++i) {
    auto& features = *examples[i].mutable_features()->mutable_feature();
    features["image"].mutable_bytes_list()->add_value("\xff\xd8\xff\xe0");
    for (size_t k = 0; k <= i; ++k) features["tags"].mutable_bytes_list()->add_value("cat");
    for (const char* tag : {"a", "b"}) features["pair"].mutable_bytes_list()->add_value(tag);
  }
  EXPECT_THAT(Guess({WriteExamples(dir, examples)}),
              AllOf(HasSubstr("  # tags: {key: \"tags\", bytes: {max_bytes: 6, shape: [-1], "
                              "max_count: 4}}\n"),
                    HasSubstr("  # pair: {key: \"pair\", bytes: {max_bytes: 2, shape: [2]}}\n")));
}

TEST(GuessSpecTest, FourListsOfSidesAreBoxes) {
  TestDir dir;
  ::bulkhead::tensorflow::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["image/encoded"].mutable_bytes_list()->add_value("\xff\xd8\xff\xe0");
  for (const char* side : {"xmin", "ymin", "xmax", "ymax"}) {
    auto& list = *features[std::string("image/object/bbox/") + side].mutable_float_list();
    for (const float value : {0.f, 0.5f, 1.f}) list.add_value(value);
  }
  const std::string alone = WriteRecord(dir, "a.tfrecord", example.SerializeAsString());
  EXPECT_THAT(Guess({alone}),
              AllOf(HasSubstr("  boxes: {boxes: {max_count: 6}}\n"),
                    HasSubstr("  - boxes: {format: xyxy, relative: true}\n"),
                    HasSubstr("  - sanitize_boxes: {}\n"), HasSubstr("outputs: [image, boxes]")));
  for (const int label : {1, 2, 3}) {
    features["image/object/class/label"].mutable_int64_list()->add_value(label);
  }
  const std::string labelled = WriteRecord(dir, "b.tfrecord", example.SerializeAsString());
  EXPECT_THAT(Guess({labelled}),
              AllOf(HasSubstr("\"image/object/class/label\", int64: {shape: [-1], max_count: 6}}"),
                    HasSubstr("  - sanitize_boxes: {with: label}\n"),
                    HasSubstr("outputs: [image, boxes, label]")));
  auto& labels = features["image/object/class/label"];
  labels.Clear();
  for (const float label : {1.5f, 2.f, 3.f}) labels.mutable_float_list()->add_value(label);
  EXPECT_THAT(Guess({WriteRecord(dir, "f.tfrecord", example.SerializeAsString())}),
              AllOf(HasSubstr("\"image/object/class/label\", float: {shape: [3]}}"),
                    HasSubstr("  - sanitize_boxes: {}\n")));
  labels.Clear();
  for (const char* label : {"cat", "dog", "emu"}) labels.mutable_bytes_list()->add_value(label);
  EXPECT_THAT(Guess({WriteRecord(dir, "t.tfrecord", example.SerializeAsString())}),
              AllOf(HasSubstr("outputs: [image, boxes]"),
                    HasSubstr("  # label: {key: \"image/object/class/label\", bytes: {")));
  features.erase("image/object/bbox/ymin");
  const std::string incomplete = WriteRecord(dir, "c.tfrecord", example.SerializeAsString());
  EXPECT_THAT(Guess({incomplete}), Not(HasSubstr("boxes")));
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
  EXPECT_THAT(Guess({file}, options), HasSubstr("there is no 'pixel'; did you mean 'pixels'?"));
}

TEST(GuessSpecTest, LabelsOfRecordsMayBeOfAnyType) {
  TestDir dir;
  // A file with a record for each list of labels.
  const auto guess = [&](const std::vector<std::vector<float>>& records) {
    std::string frames;
    for (const std::vector<float>& labels : records) {
      ::bulkhead::tensorflow::Example example;
      auto& features = *example.mutable_features()->mutable_feature();
      features["image"].mutable_bytes_list()->add_value("\xff\xd8\xff\xe0");
      for (const float label : labels) features["label"].mutable_float_list()->add_value(label);
      frames += TfRecordFrame(example.SerializeAsString());
    }
    return Guess({dir.Write("a.tfrecord", frames)});
  };
  EXPECT_THAT(guess({{0.5F}, {1}}), HasSubstr("\"label\", float: {}}"));
  EXPECT_THAT(guess({{1, 2, 3}, {4, 5, 6}}), HasSubstr("float: {shape: [3]}"));
  EXPECT_THAT(guess({{1, 2, 3}, {}}), HasSubstr("float: {shape: [-1], max_count: 6}"));
  EXPECT_THAT(
      Guess({WriteRecord(dir, "b.tfrecord",
                         ExampleBuilder().Bytes("image", "x").Bytes("class", "cat").Serialize())}),
      HasSubstr("bytes: {max_bytes: 6}"));
}

TEST(GuessSpecTest, AFeatureOfImagesIsFoundWhateverItsName) {
  TestDir dir;
  const std::string jpeg = "\xff\xd8\xff\xe0";
  EXPECT_THAT(
      Guess({WriteRecord(dir, "a.tfrecord",
                         ExampleBuilder().Bytes("scan", jpeg).Bytes("id", "7").Serialize())}),
      HasSubstr("image: {key: \"scan\""));
  EXPECT_THAT(
      Guess({WriteRecord(dir, "b.tfrecord",
                         ExampleBuilder().Bytes("left", jpeg).Bytes("right", jpeg).Serialize())}),
      HasSubstr("cannot tell"));
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
