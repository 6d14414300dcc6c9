// pack_rows and multi_scale through whole pipelines: how a batch lies behind them.
#include <algorithm>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/image/codecs/encode.h"
#include "server/image/resize/float_resize.h"
#include "server/image/resize/resize.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kPackedRows = 5;
constexpr ImageSize kSize = {12, 20};
constexpr SampleKey kPackedKey{3, 1, 40};

constexpr char kMany[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "image" value { bytes {} } }
  features { key: "mask" value { bytes {} } }
  features { key: "boxes" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 4 } } }
  features { key: "shares" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 4 } } }
  features { key: "points" value { tensor { dtype: DTYPE_FLOAT32 shape: [3, 2] } } }
  features { key: "ids" value { int64 { shape: [-1] max_count: 4 } } }
  batch { size: 5 }
)";

// Sample i has this many boxes.
uint64_t BoxesOf(uint64_t i) { return (3 * i + 1) % 5; }  // 1 4 2 0 3

std::vector<float> BoxOf(uint64_t sample, uint64_t row) {
  const float x = static_cast<float>(sample) + 0.5f;
  const float y = static_cast<float>(row) + 1.25f;
  return {x, y, x + 7, y + 5};
}

FakeRecord RecordOf(uint64_t i) {
  FakeRecord record;
  std::vector<float> boxes;
  std::vector<int64_t> ids;
  const auto count = static_cast<int64_t>(BoxesOf(i));
  for (uint64_t row = 0; row < BoxesOf(i); ++row) {
    const std::vector<float> box = BoxOf(i, row);
    boxes.insert(boxes.end(), box.begin(), box.end());
    ids.push_back(static_cast<int64_t>(10 * i + row));
  }
  record.features["image"] = {
      EncodePng(MakePicture(kSize.height, kSize.width, 3, i + 1).view()).value()};
  record.features["mask"] = {
      EncodePng(MakePicture(kSize.height, kSize.width, 1, i + 9).view()).value()};
  record.features["boxes"] = {BytesOf<float>(boxes), count};
  record.features["shares"] = {BytesOf<float>(boxes), count};
  record.features["points"] = {BytesOf<float>({1, 2, 3, 4, 5, 6})};
  record.features["ids"] = {BytesOf<int64_t>(ids), count};
  return record;
}

// A batch where it lies, with canaries behind each tensor.
class PackedBatch {
 public:
  explicit PackedBatch(const std::string& stages) : pipeline_(MakeSpec(stages, kMany), Records()) {
    for (const v1::TensorSchema& tensor : pipeline_.schema().tensors()) {
      memory_.emplace_back(tensor.sample_bytes() * kPackedRows + 64, '\xA5');
    }
  }

  absl::Status Make(uint64_t rows = kPackedRows, const SampleKey& first = kPackedKey) {
    std::vector<std::byte*> bases;
    for (std::string& bytes : memory_) bases.push_back(reinterpret_cast<std::byte*>(bytes.data()));
    for (uint64_t i = 0; i < rows; ++i) {
      std::vector<std::byte*> destinations = bases;
      for (size_t t = 0; t < destinations.size(); ++t) destinations[t] += i * SampleBytes(t);
      const absl::Status made = pipeline_.pipeline().Produce(
          i, {first.seed, first.epoch, first.position + i}, pipeline_.context(), destinations);
      EXPECT_TRUE(made.ok()) << made;
    }
    before_ = memory_;
    if (spoil_) spoil_(*this);
    const absl::Status status =
        pipeline_.pipeline().FinishBatch(rows, first, pipeline_.context(), bases);
    for (size_t t = 0; t < memory_.size(); ++t) {
      // Neither rows that the batch has not nor what lies behind the tensor.
      const size_t end = rows * SampleBytes(t);
      EXPECT_EQ(memory_[t].substr(end), before_[t].substr(end)) << t;
    }
    return status;
  }

  // All numbers of an output, of `rows` samples.
  template <typename T>
  std::vector<T> All(absl::string_view name, uint64_t rows = kPackedRows,
                     bool before = false) const {
    const size_t number = NumberOf(name);
    std::vector<T> numbers(rows * SampleBytes(number) / sizeof(T));
    const std::string& from = before ? before_[number] : memory_[number];
    std::memcpy(numbers.data(), from.data(), numbers.size() * sizeof(T));
    return numbers;
  }
  void Put(absl::string_view name, uint64_t index, int64_t number) {
    std::memcpy(memory_[NumberOf(name)].data() + index * sizeof(number), &number, sizeof(number));
  }
  void SpoilWith(std::function<void(PackedBatch&)> spoil) { spoil_ = std::move(spoil); }
  bool IsUntouched(absl::string_view name) const {
    return memory_[NumberOf(name)] == before_[NumberOf(name)];
  }

 private:
  static std::vector<FakeRecord> Records() {
    std::vector<FakeRecord> records;
    for (uint64_t i = 0; i < kPackedRows; ++i) records.push_back(RecordOf(i));
    return records;
  }
  size_t SampleBytes(size_t t) const {
    return pipeline_.schema().tensors(static_cast<int>(t)).sample_bytes();
  }
  size_t NumberOf(absl::string_view name) const {
    for (int i = 0; i < pipeline_.schema().tensors_size(); ++i) {
      if (pipeline_.schema().tensors(i).name() == name) return static_cast<size_t>(i);
    }
    ADD_FAILURE() << "no output " << name;
    return 0;
  }

  PipelineUnderTest pipeline_;
  std::vector<std::string> memory_;
  std::vector<std::string> before_;
  std::function<void(PackedBatch&)> spoil_;
};

std::string Packing(const std::string& options = "") {
  return absl::StrCat("outputs: ['boxes', 'ids'] batch_stages { pack_rows { ", options, " } }");
}

// The boxes of the first samples one behind the other, and zeros up to what the batch has room for.
std::vector<float> PackedBoxes(uint64_t samples) {
  std::vector<float> packed;
  for (uint64_t i = 0; i < samples; ++i) {
    for (uint64_t row = 0; row < BoxesOf(i); ++row) {
      const std::vector<float> box = BoxOf(i, row);
      packed.insert(packed.end(), box.begin(), box.end());
    }
  }
  packed.resize(samples * 16);
  return packed;
}

TEST(PackRowsTest, PutsFilledRowsOneBehindTheOther) {
  PackedBatch batch(Packing());
  ASSERT_TRUE(batch.Make().ok());
  EXPECT_EQ(batch.All<float>("boxes"), PackedBoxes(kPackedRows));
  EXPECT_THAT(batch.All<int64_t>("ids"),
              ElementsAre(0, 10, 11, 12, 13, 20, 21, 40, 41, 42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.All<int64_t>("boxes_count"), ElementsAre(1, 4, 2, 0, 3));
  EXPECT_TRUE(batch.IsUntouched("ids_count"));
}

TEST(PackRowsTest, PacksWhatIsNamedOnly) {
  PackedBatch batch(Packing("inputs: 'ids'"));
  ASSERT_TRUE(batch.Make().ok());
  EXPECT_TRUE(batch.IsUntouched("boxes"));
  EXPECT_FALSE(batch.IsUntouched("ids"));
}

TEST(PackRowsTest, ASmallerBatchIsPackedByItself) {
  for (uint64_t rows = 1; rows < kPackedRows; ++rows) {
    PackedBatch batch(Packing());
    ASSERT_TRUE(batch.Make(rows).ok());
    EXPECT_EQ(batch.All<float>("boxes", rows), PackedBoxes(rows)) << rows;
  }
}

// A function of batches may have written there: what it left is no part of a batch.
TEST(PackRowsTest, WhatLiesBehindTheCountIsZeroed) {
  PackedBatch batch(Packing());
  batch.SpoilWith([](PackedBatch& made) {
    made.Put("ids", 2, 77);  // sample 0 has one row
    made.Put("boxes_count", 4, 1);
  });
  ASSERT_TRUE(batch.Make().ok());
  const std::vector<int64_t> ids = batch.All<int64_t>("ids");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 77), 0);
  std::vector<float> boxes = PackedBoxes(kPackedRows);
  std::fill(boxes.begin() + 4 * 8, boxes.end(), 0.0f);
  EXPECT_EQ(batch.All<float>("boxes"), boxes);
}

TEST(PackRowsTest, CountsThatAreNoneAreRefused) {
  for (const int64_t count : {int64_t{5}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    PackedBatch batch(Packing());
    batch.SpoilWith([&](PackedBatch& made) { made.Put("ids_count", 2, count); });
    const absl::Status status = batch.Make();
    EXPECT_EQ(GetErrorInfo(status)->reason, "INTERNAL");
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("batch_stages[0] pack_rows: `ids_count` is ", count,
                                       " in row 2 of the batch, but a sample has 0 to 4 rows")));
  }
}

// `more`: stages on the image of 12 x 20.
std::string Scaling(const std::string& sizes, const std::string& more = "",
                    const std::string& outputs = "'image', 'mask', 'boxes', 'shares', 'points'") {
  return absl::StrCat(
      "stages { decode_image {} } stages { decode_image { input: 'mask' color: COLOR_GRAY } } "
      "stages { boxes { format: BOX_FORMAT_XYXY } } stages { boxes { input: 'shares' format: "
      "BOX_FORMAT_XYXY relative: true } } stages { keypoints { input: 'points' } } "
      "stages { mask {} } stages { resize { size: [12, 20] } } ",
      more, " outputs: [", outputs, "] batch_stages { multi_scale { sizes: [", sizes, "] } }");
}

TEST(MultiScaleTest, ScalesImagesAndLaysThemWithoutGaps) {
  PackedBatch batch(Scaling("10"));
  ASSERT_TRUE(batch.Make().ok());
  const ImageSize small = {6, 10};
  const auto before = batch.All<uint8_t>("image", kPackedRows, true);
  const auto after = batch.All<uint8_t>("image");
  const size_t small_bytes = 6 * 10 * 3;
  for (uint64_t i = 0; i < kPackedRows; ++i) {
    std::vector<uint8_t> source(before.begin() + static_cast<ptrdiff_t>(i * 720),
                                before.begin() + static_cast<ptrdiff_t>((i + 1) * 720));
    std::vector<uint8_t> expected(small_bytes);
    ASSERT_TRUE(ResizeImage(ContiguousImage(source.data(), kSize, 3), ResizeMethod::kLinear,
                            ContiguousImage(expected.data(), small, 3))
                    .ok());
    const std::vector<uint8_t> got(after.begin() + static_cast<ptrdiff_t>(i * small_bytes),
                                   after.begin() + static_cast<ptrdiff_t>((i + 1) * small_bytes));
    EXPECT_EQ(got, expected) << i;
  }
  EXPECT_THAT(std::vector<uint8_t>(after.begin() + kPackedRows * small_bytes, after.end()),
              Each(0));
  EXPECT_THAT(batch.All<int64_t>("image_size"), ElementsAre(6, 10, 6, 10, 6, 10, 6, 10, 6, 10));
}

TEST(MultiScaleTest, TakesBoxesPointsAndMasksAlong) {
  PackedBatch batch(Scaling("10"));
  ASSERT_TRUE(batch.Make().ok());
  std::vector<float> boxes = batch.All<float>("boxes", kPackedRows, true);
  for (float& number : boxes) number /= 2;
  EXPECT_EQ(batch.All<float>("boxes"), boxes);
  EXPECT_TRUE(batch.IsUntouched("shares"));
  std::vector<float> points = batch.All<float>("points", kPackedRows, true);
  for (float& number : points) number /= 2;
  EXPECT_EQ(batch.All<float>("points"), points);
  const auto before = batch.All<uint8_t>("mask", kPackedRows, true);
  const auto after = batch.All<uint8_t>("mask");
  for (size_t i = 0; i < kPackedRows; ++i) {
    for (size_t y = 0; y < 6; ++y) {
      for (size_t x = 0; x < 10; ++x) {
        ASSERT_EQ(after[(i * 6 + y) * 10 + x], before[(i * 12 + 2 * y) * 20 + 2 * x]) << i;
      }
    }
  }
  EXPECT_THAT(std::vector<uint8_t>(after.begin() + kPackedRows * 60, after.end()), Each(0));
  EXPECT_EQ(batch.All<int64_t>("mask_size"), batch.All<int64_t>("image_size"));
}

TEST(MultiScaleTest, EitherLayoutAndTypeGivesTheSamePixels) {
  const std::string channels_first = "stages { layout { to: IMAGE_LAYOUT_NCHW } }";
  const std::string floats = "stages { normalize { divide: 1 } }";
  PackedBatch plain(Scaling("13", "", "'image'"));
  PackedBatch planes(Scaling("13", channels_first, "'image'"));
  PackedBatch numbers(Scaling("13", floats, "'image'"));
  PackedBatch number_planes(Scaling("13", floats + channels_first, "'image'"));
  for (PackedBatch* batch : {&plain, &planes, &numbers, &number_planes}) {
    ASSERT_TRUE(batch->Make().ok());
    EXPECT_THAT(batch->All<int64_t>("image_size", 1), ElementsAre(8, 13));  // 12 x 13 / 20 = 7.8
  }
  const auto bytes = plain.All<uint8_t>("image");
  const auto byte_planes = planes.All<uint8_t>("image");
  const auto values = numbers.All<float>("image");
  const auto value_planes = number_planes.All<float>("image");
  constexpr size_t kPixels = 8 * 13;
  for (size_t i = 0; i < kPackedRows; ++i) {
    for (size_t pixel = 0; pixel < kPixels; ++pixel) {
      for (size_t c = 0; c < 3; ++c) {
        const size_t last = (i * kPixels + pixel) * 3 + c;
        const size_t first = (i * 3 + c) * kPixels + pixel;
        ASSERT_EQ(bytes[last], byte_planes[first]);
        ASSERT_EQ(values[last], value_planes[first]);
        ASSERT_NEAR(values[last], bytes[last], 1.0) << "bytes are rounded";
      }
    }
  }
  for (size_t i = kPackedRows * kPixels * 3; i < values.size(); ++i) {
    ASSERT_EQ(values[i], 0);
    ASSERT_EQ(value_planes[i], 0);
  }
}

TEST(MultiScaleTest, TheOwnSizeMovesNothing) {
  PackedBatch batch(Scaling("20"));
  ASSERT_TRUE(batch.Make().ok());
  for (const char* name : {"image", "mask", "boxes", "points"}) {
    EXPECT_TRUE(batch.IsUntouched(name)) << name;
  }
  EXPECT_THAT(batch.All<int64_t>("image_size", 1), ElementsAre(12, 20));
}

TEST(MultiScaleTest, DrawsOneSizeForTheWholeBatch) {
  std::vector<int> drawn(3);
  for (uint64_t position = 0; position < 60; ++position) {
    PackedBatch batch(Scaling("5, 10, 20", "", "'image'"));
    ASSERT_TRUE(batch.Make(1, {3, 1, position}).ok());
    const int64_t width = batch.All<int64_t>("image_size", 1)[1];
    SampleRandom random(3, 1, position, StableHash("batch_stages/0"));
    const uint64_t which = random.NextBelow(3);
    EXPECT_EQ(width, (std::vector<int64_t>{5, 10, 20})[which]);
    ++drawn[which];
  }
  EXPECT_GT(*std::min_element(drawn.begin(), drawn.end()), 8);
}

TEST(MultiScaleTest, ASideHasAtLeastOnePixel) {
  PackedBatch batch(Scaling("1"));
  ASSERT_TRUE(batch.Make(3).ok());
  EXPECT_THAT(batch.All<int64_t>("image_size", 1), ElementsAre(1, 1));
}

TEST(MultiScaleTest, PackRowsComesBehindIt) {
  PackedBatch batch(Scaling("10") + " batch_stages { pack_rows { inputs: 'boxes' } }");
  ASSERT_TRUE(batch.Make().ok());
  std::vector<float> boxes = PackedBoxes(kPackedRows);
  for (float& number : boxes) number /= 2;
  EXPECT_EQ(batch.All<float>("boxes"), boxes);
}

}  // namespace
}  // namespace bulkhead
