#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "server/base/error.h"
#include "tensorflow/example.pb.h"
#include "tests/support/test_dir.h"
#include "tools/synth/dataset.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

SynthOptions Options(const fs::path& out, SynthSchema schema, uint64_t count) {
  SynthOptions options;
  options.out = out.string();
  options.schema = schema;
  options.count = count;
  options.size = {32, 32, 48, 48};
  options.classes = 3;
  return options;
}

void Synthesize(const SynthOptions& options) {
  const absl::Status status = WriteDataset(options, [](uint64_t, uint64_t) {});
  ASSERT_TRUE(status.ok()) << status;
}

// Frames are length, its CRC, data, its CRC; the checksums are source's business.
std::vector<tensorflow::Example> ReadExamples(const fs::path& path) {
  const std::string bytes = ReadFile(path);
  std::vector<tensorflow::Example> examples;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, &bytes[at], sizeof(length));
    EXPECT_TRUE(examples.emplace_back().ParseFromString(bytes.substr(at + 12, length)));
    at += 12 + length + 4;
  }
  return examples;
}

tensorflow::Tensor TensorOf(const tensorflow::Example& example, const std::string& name) {
  tensorflow::Tensor tensor;
  EXPECT_TRUE(tensor.ParseFromString(example.features().feature().at(name).bytes_list().value(0)));
  return tensor;
}

std::map<std::string, std::string> Contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[fs::relative(entry.path(), folder).string()] = ReadFile(entry.path());
    }
  }
  return files;
}

TEST(SynthDatasetTest, SameSeedGivesSameBytesWithAnyNumberOfThreads) {
  TestDir dir;
  SynthOptions one = Options(dir.path() / "one", SynthSchema::kPhotos, 20);
  SynthOptions three = Options(dir.path() / "three", SynthSchema::kPhotos, 20);
  SynthOptions other = Options(dir.path() / "other", SynthSchema::kPhotos, 20);
  three.threads = 3;
  other.seed = 2;
  Synthesize(one);
  Synthesize(three);
  Synthesize(other);
  EXPECT_EQ(Contents(one.out), Contents(three.out));
  EXPECT_NE(Contents(one.out), Contents(other.out));
}

TEST(SynthDatasetTest, FolderListAndRecordsHoldTheSamePhotos) {
  TestDir dir;
  Synthesize(Options(dir.path(), SynthSchema::kPhotos, 20));
  const std::vector<tensorflow::Example> examples =
      ReadExamples(dir.path() / "records-000.tfrecord");
  ASSERT_EQ(examples.size(), 20u);
  std::ifstream list(dir.path() / "list.txt");
  size_t lines = 0;
  for (std::string path; std::getline(list, path, '\t'); ++lines) {
    std::string label;
    std::getline(list, label);
    ASSERT_LT(lines, examples.size());
    const auto& features = examples[lines].features().feature();
    EXPECT_EQ(ReadFile(dir.path() / path), features.at("image").bytes_list().value(0));
    EXPECT_EQ(label, std::to_string(features.at("label").int64_list().value(0)));
    EXPECT_THAT(path, HasSubstr("class-00" + label + "/"));
    const tensorflow::Tensor boxes = TensorOf(examples[lines], "boxes");
    ASSERT_EQ(boxes.tensor_shape().dim_size(), 2);
    EXPECT_EQ(boxes.tensor_shape().dim(1).size(), 4);
    EXPECT_EQ(boxes.tensor_content().size(), boxes.tensor_shape().dim(0).size() * 16u);
  }
  EXPECT_EQ(lines, 20u);
}

TEST(SynthDatasetTest, FacesComeInPositiveAndNegativeFiles) {
  TestDir dir;
  Synthesize(Options(dir.path(), SynthSchema::kFace, 8));
  const auto positive = ReadExamples(dir.path() / "pos-000.tfrecord");
  const auto negative = ReadExamples(dir.path() / "neg-000.tfrecord");
  ASSERT_EQ(positive.size(), 4u);
  ASSERT_EQ(negative.size(), 4u);
  for (const auto& example : positive) {
    EXPECT_EQ(example.features().feature().at("label").int64_list().value(0), 1);
    EXPECT_GT(TensorOf(example, "bbox").tensor_shape().dim(0).size(), 0);
  }
  std::vector<int> ranks;
  for (const auto& example : negative) {
    EXPECT_EQ(example.features().feature().at("label").int64_list().value(0), 0);
    EXPECT_EQ(TensorOf(example, "bbox").tensor_shape().dim(0).size(), 0);
    ranks.push_back(TensorOf(example, "bbox").tensor_shape().dim_size());
  }
  EXPECT_THAT(ranks, testing::UnorderedElementsAre(1, 1, 2, 2));
}

TEST(SynthDatasetTest, RangeCountsThroughFiveFiles) {
  TestDir dir;
  Synthesize(Options(dir.path(), SynthSchema::kRange, 1));
  int64_t expected = 0;
  for (int file = 0; file < 5; ++file) {
    for (const auto& example :
         ReadExamples(dir.path() / ("part-" + std::to_string(file) + ".tfrecord"))) {
      ASSERT_EQ(example.features().feature().at("var").int64_list().value(0), expected++);
    }
  }
  EXPECT_EQ(expected, 10000);
}

TEST(SynthDatasetTest, RefusesAFolderThatHoldsSomething) {
  TestDir dir;
  const std::string precious = dir.Write("precious.txt", "mine");
  SynthOptions options = Options(dir.path(), SynthSchema::kRange, 1);
  const absl::Status status = WriteDataset(options, [](uint64_t, uint64_t) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--force"));
  EXPECT_EQ(Contents(dir.path()).size(), 1u);
  options.force = true;
  Synthesize(options);
  EXPECT_EQ(ReadFile(precious), "mine");
}

TEST(SynthDatasetTest, ForceReplacesAnEarlierSetOfAnySchemaAndNothingElse) {
  TestDir dir;
  const fs::path out = dir.path() / "out";
  Synthesize(Options(out, SynthSchema::kPhotos, 260));  // two shards
  SynthOptions five = Options(out, SynthSchema::kPhotos, 5);
  five.classes = 1;
  five.force = true;
  Synthesize(five);
  SynthOptions fresh = five;
  fresh.out = (dir.path() / "fresh").string();
  Synthesize(fresh);
  EXPECT_EQ(Contents(out), Contents(fresh.out));
  EXPECT_FALSE(fs::exists(out / "folder/class-001"));

  for (const char* mine :
       {"out/folder/class-000/mine.jpg", "out/notes.txt", "out/pos-1.tfrecord"}) {
    dir.Write(mine, "mine");
  }
  SynthOptions faces = Options(out, SynthSchema::kFace, 2);
  faces.force = true;
  Synthesize(faces);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : Contents(out)) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("folder/class-000/mine.jpg", "notes.txt",
                                                   "pos-1.tfrecord", "pos-000.tfrecord",
                                                   "neg-000.tfrecord", "face.yaml"));
}

}  // namespace
}  // namespace bulkhead::tools
