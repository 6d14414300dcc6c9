#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/image/boxes/mosaic.h"
#include "tests/pipeline/pipeline_fixture.h"

// A stream of small pictures with everything that a mosaic moves, and what a mosaic of them is,
// made by hand.
namespace bulkhead::mosaic_testing {

inline constexpr int kCanvasHeight = 32;
inline constexpr int kCanvasWidth = 40;
inline constexpr uint64_t kSeed = 11;
inline constexpr uint64_t kEpoch = 2;
inline constexpr uint64_t kCount = 9;

inline constexpr char kDetection[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "id" value { int64 {} } }
  features { key: "other" value { bytes {} } }
  features { key: "image" value { bytes {} } }
  features { key: "mask" value { bytes {} } }
  features { key: "boxes" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 3 } } }
  features { key: "points" value { tensor { dtype: DTYPE_FLOAT32 shape: [2, 2] } } }
  features { key: "labels" value { int64 { shape: [-1] max_count: 3 } } }
  batch { size: 4 }
)";
inline constexpr char kBefore[] = R"(
  stages { decode_image { color: COLOR_GRAY } }
  stages { decode_image { input: 'mask' color: COLOR_GRAY } }
  stages { decode_image { input: 'other' } }
  stages { resize { input: 'other' size: 4 interpolation: INTERPOLATION_NEAREST } }
  stages { boxes { format: BOX_FORMAT_XYXY } }
  stages { keypoints { input: 'points' } }
  stages { mask { fill: 114 } }
  stages { random_horizontal_flip {} }
)";
inline constexpr char kMosaicKey[] = "stages/8";

inline std::string Mosaic(const std::string& options = "") {
  return "stages { mosaic { size: [32, 40] with: 'labels' " + options + " } } ";
}

inline ImageSize SizeOfRecord(uint64_t i) {
  return {6 + static_cast<int>(5 * i), 40 - static_cast<int>(3 * i)};
}

// Record i: a picture of its own size, a mask that shows the same, i mod 4 boxes, two points.
inline FakeRecord RecordNumber(uint64_t i) {
  const ImageSize size = SizeOfRecord(i);
  const std::string file =
      EncodePng(MakePicture(size.height, size.width, 1, 50 + i).view()).value();
  FakeRecord record;
  record.features["id"] = {BytesOf<int64_t>({static_cast<int64_t>(i)})};
  record.features["other"] = {EncodePng(MakePicture(4, 4, 3, 90 + i).view()).value()};
  record.features["image"] = {file};
  record.features["mask"] = {file};
  std::vector<float> boxes;
  std::vector<int64_t> labels;
  for (uint64_t b = 0; b < i % 4; ++b) {
    const auto at = static_cast<float>(b);
    boxes.insert(boxes.end(), {at, 2 * at, at + 3, static_cast<float>(size.height)});
    labels.push_back(static_cast<int64_t>(10 * i + b));
  }
  record.features["boxes"] = {BytesOf<float>(boxes), static_cast<int64_t>(labels.size())};
  record.features["points"] = {BytesOf<float>({1, 2, 4, 5})};
  record.features["labels"] = {BytesOf<int64_t>(labels), static_cast<int64_t>(labels.size())};
  return record;
}

// Another one than the position's own number.
class ThirdRecordOrder : public SampleOrder {
 public:
  explicit ThirdRecordOrder(uint64_t count = kCount) : count_(count) {}
  uint64_t RecordAt(uint64_t, uint64_t position) const override { return (position + 3) % count_; }

 private:
  uint64_t count_;
};
inline uint64_t PositionOf(uint64_t record) { return (record + kCount - 3) % kCount; }

template <typename T>
std::vector<T> NumbersOf(const std::string& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// A stream over those records.
class Stream {
 public:
  explicit Stream(const std::string& stages, bool fuse = true,
                  v1::ErrorAction action = v1::ERROR_ACTION_FAIL,
                  const std::function<void(std::vector<FakeRecord>&)>& change = {},
                  uint64_t count = kCount)
      : pipeline_(MakeSpec(stages, kDetection), Records(change, count), fuse) {
    stream_.binding.set_seed(kSeed);
    stream_.binding.set_samples_per_epoch(count);
    stream_.binding.set_error_action(action);
    *stream_.binding.mutable_schema() = pipeline_.schema();
    stream_.order = std::make_shared<ThirdRecordOrder>(count);
    slot_.assign(pipeline_.schema().batch_bytes(), '\xA5');
  }

  absl::Status Produce(uint64_t position) {
    internal::v1::Lease lease;
    lease.set_epoch(kEpoch);
    lease.set_first_position(position);
    lease.set_count(1);
    stream_.binding.mutable_schema()->set_batch_size(1);  // no sample of the batch follows
    substituted.clear();
    return ProduceLease(pipeline_.pipeline(), stream_, lease, pipeline_.context(),
                        reinterpret_cast<std::byte*>(slot_.data()), substituted, failed_position);
  }
  std::string Output(absl::string_view name) const {
    for (const v1::TensorSchema& tensor : pipeline_.schema().tensors()) {
      if (tensor.name() == name) return slot_.substr(tensor.batch_offset(), tensor.sample_bytes());
    }
    ADD_FAILURE() << "no output " << name;
    return "";
  }
  int64_t Whole(absl::string_view name) const { return NumbersOf<int64_t>(Output(name))[0]; }

  PipelineContext& context() { return pipeline_.context(); }
  const Pipeline& pipeline() const { return pipeline_.pipeline(); }
  StreamView& view() { return stream_; }

  std::vector<SubstitutedSample> substituted;
  uint64_t failed_position = 999;

 private:
  static std::vector<FakeRecord> Records(
      const std::function<void(std::vector<FakeRecord>&)>& change, uint64_t count) {
    std::vector<FakeRecord> records;
    for (uint64_t i = 0; i < count; ++i) records.push_back(RecordNumber(i % kCount));
    if (change) change(records);
    return records;
  }

  PipelineUnderTest pipeline_;
  StreamView stream_;
  std::string slot_;
};

// What the draws of the sample at `position` are.
struct Draws {
  bool mosaic;
  uint64_t positions[kMosaicTiles];
  int y;
  int x;
};
inline Draws DrawsOf(uint64_t position, double probability = 1, double low = 0.25,
                     double high = 0.75) {
  SampleRandom random(kSeed, kEpoch, position, StableHash(kMosaicKey));
  Draws draws;
  draws.mosaic = random.NextUnit() < probability;
  draws.positions[0] = position;
  for (int i = 1; i < kMosaicTiles; ++i) draws.positions[i] = random.NextBelow(kCount);
  draws.y = static_cast<int>(random.NextUniform(low, high) * kCanvasHeight);
  draws.x = static_cast<int>(random.NextUniform(low, high) * kCanvasWidth);
  return draws;
}

// A sample as it is before its mosaic: flipped by a draw of its own position.
struct Sample {
  Image image;
  bool flipped;
  uint64_t record;
};
inline Sample Before(uint64_t record, uint64_t position) {
  const ImageSize size = SizeOfRecord(record);
  Sample sample = {MakePicture(size.height, size.width, 1, 50 + record), false, record};
  SampleRandom random(kSeed, kEpoch, position, StableHash("stages/7"));
  sample.flipped = random.NextUnit() < 0.5;
  if (!sample.flipped) return sample;
  const MutableImageView pixels = sample.image.mutable_view();
  for (int y = 0; y < size.height; ++y) std::reverse(pixels.row(y), pixels.row(y) + size.width);
  return sample;
}

// What comes out, made by hand.
struct Expected {
  Image image;
  std::vector<float> boxes;
  std::vector<float> points;
  std::vector<int64_t> labels;

  Expected() { image.Reshape({kCanvasHeight, kCanvasWidth}, 1); }
  std::string Pixels() const {
    return std::string(reinterpret_cast<const char*>(image.view().data),
                       kCanvasHeight * kCanvasWidth);
  }

  void Add(const Sample& sample, const MosaicTile& tile) {
    const ImageView pixels = sample.image.view();
    DrawTile(pixels, tile, {114}, image.mutable_view());
    const FakeRecord record = RecordNumber(sample.record);
    const Rect covered = tile.Covered(pixels.size());
    const auto x_of = [&](float x) {
      return static_cast<float>((sample.flipped ? pixels.width - x : x) + tile.left);
    };
    const auto within = [](float value, int low, int high) {
      return std::min(std::max(value, static_cast<float>(low)), static_cast<float>(high));
    };
    const std::vector<float> own = NumbersOf<float>(record.features.at("boxes").bytes);
    for (size_t i = 0; i < own.size(); i += 4) {
      const float a = x_of(own[i]);
      const float b = x_of(own[i + 2]);
      boxes.push_back(within(std::min(a, b), covered.left, covered.right()));
      boxes.push_back(
          within(own[i + 1] + static_cast<float>(tile.top), covered.top, covered.bottom()));
      boxes.push_back(within(std::max(a, b), covered.left, covered.right()));
      boxes.push_back(
          within(own[i + 3] + static_cast<float>(tile.top), covered.top, covered.bottom()));
    }
    for (const auto& [x, y] : {std::pair(1.0f, 2.0f), std::pair(4.0f, 5.0f)}) {
      points.push_back(x_of(x));
      points.push_back(y + static_cast<float>(tile.top));
    }
    for (const int64_t label : NumbersOf<int64_t>(record.features.at("labels").bytes)) {
      labels.push_back(label);
    }
  }
};

inline Expected ExpectedOf(const Draws& draws) {
  Expected expected;
  const ThirdRecordOrder order;
  const ImageSize canvas = {kCanvasHeight, kCanvasWidth};
  for (int i = 0; i < (draws.mosaic ? kMosaicTiles : 1); ++i) {
    const uint64_t from = draws.positions[i];
    const uint64_t record = order.RecordAt(kEpoch, from);
    const ImageSize size = SizeOfRecord(record);
    expected.Add(Before(record, from), draws.mosaic ? TileAt(i, draws.y, draws.x, size, canvas)
                                                    : TileAlone(size, canvas));
  }
  return expected;
}

inline void ExpectSame(const Stream& stream, const Expected& expected) {
  ASSERT_TRUE(stream.Output("image") == expected.Pixels());
  ASSERT_TRUE(stream.Output("mask") == expected.Pixels());
  ASSERT_EQ(stream.Whole("boxes_count"), static_cast<int64_t>(expected.labels.size()));
  ASSERT_EQ(stream.Whole("labels_count"), static_cast<int64_t>(expected.labels.size()));
  std::vector<float> boxes = expected.boxes;
  boxes.resize(12 * 4);
  EXPECT_EQ(NumbersOf<float>(stream.Output("boxes")), boxes);
  std::vector<int64_t> labels = expected.labels;
  labels.resize(12);
  EXPECT_EQ(NumbersOf<int64_t>(stream.Output("labels")), labels);
  std::vector<float> points = expected.points;
  EXPECT_EQ(stream.Whole("points_count"), static_cast<int64_t>(points.size() / 2));
  points.resize(16);
  EXPECT_EQ(NumbersOf<float>(stream.Output("points")), points);
}

}  // namespace bulkhead::mosaic_testing
