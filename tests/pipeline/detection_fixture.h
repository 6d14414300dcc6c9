#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/pipeline/pipeline_fixture.h"

// Pictures with a mask, boxes, points and labels on their way through pipelines.
namespace bulkhead::detection_testing {

inline constexpr int kHeight = 60;
inline constexpr int kWidth = 80;

inline constexpr char kDetection[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "image" value { bytes {} } }
  features { key: "mask" value { bytes {} } }
  features { key: "boxes" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 4 } } }
  features { key: "points" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 2, 2] max_count: 4 } } }
  features { key: "labels" value { int64 { shape: [-1] max_count: 4 } } }
  batch { size: 4 }
)";

inline constexpr char kDecoded[] =
    "stages { decode_image { color: COLOR_GRAY } } "
    "stages { decode_image { input: 'mask' color: COLOR_GRAY } } ";
inline constexpr char kDeclared[] =
    "stages { boxes { format: BOX_FORMAT_XYXY } } "
    "stages { keypoints { input: 'points' } } "
    "stages { mask {} } ";

inline std::string In(const std::string& stage) { return "stages { " + stage + " } "; }

// A picture, a mask that shows the same, boxes, two points a box and labels.
inline FakeRecord Detection(const std::string& image, const std::string& mask,
                            const std::vector<float>& boxes) {
  FakeRecord record;
  const auto count = static_cast<int64_t>(boxes.size() / 4);
  std::vector<float> points;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    const float* box = &boxes[4 * i];
    points.insert(points.end(), {box[0], box[1], (box[0] + box[2]) / 2, (box[1] + box[3]) / 2});
    labels.push_back(100 + i);
  }
  record.features["image"] = {image};
  record.features["mask"] = {mask};
  record.features["boxes"] = {BytesOf<float>(boxes), count};
  record.features["points"] = {BytesOf<float>(points), count};
  record.features["labels"] = {BytesOf<int64_t>(labels), count};
  return record;
}

inline const std::vector<float> kBoxes = {10, 8, 34, 30, 40, 20, 78, 55, 0, 0, 80, 60};

inline FakeRecord PictureRecord(const std::vector<float>& boxes = kBoxes) {
  const std::string file = EncodePng(MakePicture(kHeight, kWidth, 1).view()).value();
  return Detection(file, file, boxes);
}

template <typename T>
std::vector<T> NumbersOf(const std::string& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// All outputs; a mask that no stage gave a size is none.
inline std::string WithOutputs(const std::string& stages) {
  const bool chosen = stages.find("outputs:") != std::string::npos;
  const bool sized = stages.find("mask {") != std::string::npos;
  return stages + (chosen || sized ? "" : " outputs: ['image', 'boxes', 'labels', 'points']");
}

// What `stages` make of one record.
class Made {
 public:
  explicit Made(const std::string& stages, FakeRecord record = PictureRecord(),
                const SampleKey& key = {3, 1, 0}, bool fuse = true)
      : pipeline_(MakeSpec(WithOutputs(stages), kDetection), {std::move(record)}, fuse),
        produced_(pipeline_.Produce(0, key)) {}

  const absl::Status& status() const { return produced_.status; }
  const std::vector<std::string>& outputs() const { return produced_.outputs; }
  std::string Bytes(const std::string& name) const { return pipeline_.Output(produced_, name); }
  std::vector<float> Floats(const std::string& name) const {
    EXPECT_TRUE(status().ok()) << status();
    return NumbersOf<float>(Bytes(name));
  }
  std::vector<int64_t> Whole(const std::string& name) const {
    EXPECT_TRUE(status().ok()) << status();
    return NumbersOf<int64_t>(Bytes(name));
  }
  // Of the first row.
  std::vector<float> Box(int row = 0) const {
    const std::vector<float> all = Floats("boxes");
    return {all.begin() + 4 * row, all.begin() + 4 * row + 4};
  }

 private:
  PipelineUnderTest pipeline_;
  Produced produced_;
};

inline std::string FinalSize(const std::string& stage = "") {
  return stage + In("resize { size: [50, 70] interpolation: INTERPOLATION_NEAREST }");
}

}  // namespace bulkhead::detection_testing
