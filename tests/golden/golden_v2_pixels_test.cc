// Colours and mixed batches against torchvision's transforms v2 (make_golden_v2.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/golden/golden_pipeline.h"

namespace bulkhead::golden_v2_pixels_test {
namespace {

constexpr uint64_t kRows = 4;

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

class GoldenV2PixelsTest : public GoldenPipelineTest {
 protected:
  GoldenV2PixelsTest() : GoldenPipelineTest("v2.golden") {}

  // One batch of the recorded rows, images of 6 x 8 and labels 0 … 3, behind `batch_stage`: its
  // images and its labels. `stage` stands before.
  struct Batch {
    std::string images;
    std::string labels;
  };
  Batch Mixed(const std::string& stage, const std::string& batch_stage, uint64_t position) const {
    std::vector<FakeRecord> records;
    const GoldenArray& rows = Get("batch");
    for (uint64_t i = 0; i < kRows; ++i) {
      const ImageView row = {reinterpret_cast<const uint8_t*>(rows.bytes.data()) + i * 6 * 8, 6, 8,
                             1, 8};
      records.push_back(MakeRecord(EncodePng(row).value(), static_cast<int64_t>(i)));
    }
    PipelineUnderTest pipeline(
        MakeSpec(In("decode_image { channels: 1 }") + In("center_crop { size: [6, 8] }") + stage +
                 In("one_hot { classes: 4 }") + " outputs: ['image', 'label'] batch_stages { " +
                 batch_stage + " }"),
        std::move(records));
    const size_t image_bytes = pipeline.schema().tensors(0).sample_bytes();
    const size_t label_bytes = pipeline.schema().tensors(1).sample_bytes();
    Batch batch = {std::string(kRows * image_bytes, 0), std::string(kRows * label_bytes, 0)};
    const SampleKey first = {3, 1, position};
    auto* images = reinterpret_cast<std::byte*>(batch.images.data());
    auto* labels = reinterpret_cast<std::byte*>(batch.labels.data());
    for (uint64_t i = 0; i < kRows; ++i) {
      const std::vector<std::byte*> sample = {images + i * image_bytes, labels + i * label_bytes};
      EXPECT_TRUE(
          pipeline.pipeline().Produce(i, {3, 1, position + i}, pipeline.context(), sample).ok());
    }
    const std::vector<std::byte*> tensors = {images, labels};
    EXPECT_TRUE(pipeline.pipeline().FinishBatch(kRows, first, pipeline.context(), tensors).ok());
    return batch;
  }
};

TEST_F(GoldenV2PixelsTest, ColorJitterIsExact) {
  int compared = 0;
  for (const std::string change : {"brightness", "contrast", "saturation", "hue"}) {
    for (const std::string& factor : NamesOf(change + " ")) {
      ++compared;
      const GoldenArray& golden = Get(change + " " + factor);
      ExpectMade("colours",
                 In(absl::StrCat("color_jitter { ", change, ": [", factor, ", ", factor, "] }")) +
                     Whole(golden),
                 golden);
    }
  }
  EXPECT_EQ(compared, 10);
}

// Contrast before or behind the other two, and every order of the channels.
TEST_F(GoldenV2PixelsTest, PhotometricDistortIsExact) {
  ASSERT_EQ(Get("distorted").shape[0], 12);
  ExpectOutcomes("colours",
                 Whole(Get("colours")) +
                     In("random_photometric_distort { brightness: [0.875, 0.875] "
                        "contrast: [1.25, 1.25] saturation: [0.75, 0.75] hue: [0.0625, 0.0625] "
                        "probability: 1 }"),
                 "distorted");
}

TEST_F(GoldenV2PixelsTest, MixupIsExactOnFloatsAndTheNearestByteOnBytes) {
  const GoldenArray& images = Get("mixup images");
  const GoldenArray& labels = Get("mixup labels");
  const size_t image_bytes = images.bytes.size() / images.shape[0];
  const size_t label_bytes = labels.bytes.size() / labels.shape[0];
  for (int64_t i = 0; i < images.shape[0]; ++i) {
    const auto position = static_cast<uint64_t>(i) * kRows;
    const std::string stage = "mixup { alpha: 0.7 }";
    const Batch floats = Mixed(In("cast { dtype: DTYPE_FLOAT32 }"), stage, position);
    // What make_golden_v2.py must have been given.
    const double share = Floats(floats.labels)[0];
    EXPECT_TRUE(floats.labels == labels.bytes.substr(i * label_bytes, label_bytes))
        << "drawn: " << share * 16384;
    const std::string golden = images.bytes.substr(i * image_bytes, image_bytes);
    EXPECT_TRUE(floats.images == golden);
    const std::string bytes = Mixed("", stage, position).images;
    ASSERT_EQ(bytes.size() * sizeof(float), golden.size());
    for (size_t k = 0; k < bytes.size(); ++k) {
      EXPECT_NEAR(static_cast<uint8_t>(bytes[k]), Floats(golden)[k], 0.5001);
    }
  }
}

// Beta(1000, 1000) draws shares near 0.5, where the rectangle has one size: its place is left to
// chance.
TEST_F(GoldenV2PixelsTest, CutmixIsExact) {
  const GoldenArray& golden = Get("cutmix");
  constexpr size_t kPixels = 6 * 8;
  constexpr size_t kNumbers = kPixels + 4;
  const std::vector<float> numbers = Floats(golden.bytes);
  std::map<std::vector<float>, std::vector<float>> labels_by_images;
  for (int64_t i = 0; i < golden.shape[0]; ++i) {
    std::vector<float> images;
    std::vector<float> labels;
    for (uint64_t row = 0; row < kRows; ++row) {
      const auto begin = numbers.begin() + (i * kRows + row) * kNumbers;
      images.insert(images.end(), begin, begin + kPixels);
      labels.insert(labels.end(), begin + kPixels, begin + kNumbers);
    }
    labels_by_images[images] = labels;
  }
  ASSERT_EQ(labels_by_images.size(), 48u);
  std::set<std::vector<float>> seen;
  for (uint64_t i = 0; i < 20 * labels_by_images.size(); ++i) {
    const Batch batch = Mixed("", "cutmix { alpha: 1000 }", i * kRows);
    std::vector<float> images;
    for (const char byte : batch.images) images.push_back(static_cast<uint8_t>(byte));
    const auto found = labels_by_images.find(images);
    ASSERT_TRUE(found != labels_by_images.end()) << i;
    seen.insert(images);
    const std::vector<float> labels = Floats(batch.labels);
    for (size_t k = 0; k < labels.size(); ++k) EXPECT_NEAR(labels[k], found->second[k], 1e-6);
  }
  EXPECT_EQ(seen.size(), labels_by_images.size());
}

}  // namespace
}  // namespace bulkhead::golden_v2_pixels_test
