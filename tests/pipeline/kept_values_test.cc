#include "server/pipeline/kept_values.h"

#include <gtest/gtest.h>

#include <cstring>

#include "server/base/random.h"

namespace bulkhead {
namespace {

struct Sample {
  std::vector<uint8_t> pixels = std::vector<uint8_t>(6 * 40, 0);
  std::vector<float> boxes = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> visible = {1, 0.5};
  std::vector<Value> values;
  std::vector<FeatureSignature> signatures;

  Sample() {
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i);
    Value image;
    // Six rows of ten pixels of three channels, with ten bytes between the rows.
    image.SetPixels({pixels.data(), 6, 10, 3, 40});
    Value rows;
    rows.form = Value::Form::kElements;
    rows.dtype = v1::DTYPE_FLOAT32;
    rows.data = reinterpret_cast<const std::byte*>(boxes.data());
    rows.size_bytes = boxes.size() * sizeof(float);
    rows.count = 2;
    rows.canvas = {60, 100};
    rows.visible = visible.data();
    values = {image, rows};
    FeatureSignature of_image;
    of_image.kind = FeatureSignature::Kind::kImage;
    of_image.dtype = v1::DTYPE_UINT8;
    of_image.shape = {-1, -1, 3};
    FeatureSignature of_rows;
    of_rows.dtype = v1::DTYPE_FLOAT32;
    of_rows.shape = {16, 4};
    of_rows.variable = true;
    signatures = {of_image, of_rows};
  }

  std::string Bytes() const {
    std::string bytes;
    size_t expected = 0;
    for (const Value& value : values) {
      AppendKept(value, bytes);
      expected += KeptBytes(value);
      EXPECT_EQ(bytes.size(), expected);
    }
    return bytes;
  }
};

TEST(KeptValuesTest, ComeBackAsTheyWere) {
  const Sample sample;
  std::string bytes = sample.Bytes();
  std::vector<Value> values;
  ASSERT_TRUE(ReadKept(bytes, sample.signatures, values));
  ASSERT_EQ(values.size(), 2u);
  ASSERT_EQ(values[0].form, Value::Form::kPixels);
  ASSERT_EQ(values[0].image_size, (ImageSize{6, 10}));
  for (int y = 0; y < 6; ++y) {
    EXPECT_EQ(std::memcmp(values[0].pixels.row(y), sample.pixels.data() + 40 * y, 30), 0);
  }
  EXPECT_EQ(values[1].count, 2);
  EXPECT_EQ(values[1].canvas, (ImageSize{60, 100}));
  ASSERT_EQ(values[1].size_bytes, 32u);
  EXPECT_EQ(std::memcmp(values[1].data, sample.boxes.data(), 32), 0);
  ASSERT_NE(values[1].visible, nullptr);
  EXPECT_EQ(values[1].visible[1], 0.5f);
}

TEST(KeptValuesTest, AreRefusedWhereTheyAreNotWhatTheFeaturesCanBe) {
  const Sample sample;
  std::string bytes = sample.Bytes();
  std::vector<Value> values;
  const auto refused = [&](size_t feature, const auto& change) {
    std::vector<FeatureSignature> others = sample.signatures;
    change(others[feature]);
    return !ReadKept(bytes, others, values);
  };
  EXPECT_TRUE(refused(0, [](FeatureSignature& f) { f.shape = {7, -1, 3}; }));
  EXPECT_TRUE(refused(0, [](FeatureSignature& f) { f.shape = {-1, -1, 1}; }));
  EXPECT_TRUE(refused(0, [](FeatureSignature& f) { f.dtype = v1::DTYPE_FLOAT32; }));
  EXPECT_TRUE(refused(0, [](FeatureSignature& f) { f.channels_first = true; }));
  EXPECT_TRUE(refused(0, [](FeatureSignature& f) { f.kind = FeatureSignature::Kind::kTensor; }));
  EXPECT_TRUE(refused(1, [](FeatureSignature& f) { f.shape = {1, 4}; }));
  EXPECT_TRUE(refused(1, [](FeatureSignature& f) { f.shape = {16, 5}; }));
  EXPECT_TRUE(refused(1, [](FeatureSignature& f) { f.kind = FeatureSignature::Kind::kEncoded; }));
  EXPECT_FALSE(refused(0, [](FeatureSignature& f) { f.shape = {6, 10, 3}; }));
  EXPECT_TRUE(refused(1, [](FeatureSignature& f) {
    f.variable = false;
    f.shape = {2, 4};
  })) << "two rows of a feature that has none to count";
  std::vector<FeatureSignature> fewer = {sample.signatures[0]};
  EXPECT_FALSE(ReadKept(bytes, fewer, values)) << "something is left over";
  std::string shorter = bytes.substr(0, bytes.size() - 1);
  EXPECT_FALSE(ReadKept(shorter, sample.signatures, values));
}

// Whatever stands there, what is read back lies within the bytes (this is for sanitizers).
TEST(KeptValuesTest, MayBeAnyBytes) {
  const Sample sample;
  const std::string good = sample.Bytes();
  SampleRandom random(1, 0, 0, 0);
  uint64_t read = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = good;
    for (uint64_t k = 0; k <= random.NextBelow(3); ++k) {
      bytes[random.NextBelow(bytes.size())] = static_cast<char>(random.NextBelow(256));
    }
    std::vector<Value> values;
    if (!ReadKept(bytes, sample.signatures, values)) continue;
    ++read;
    const char* const end = bytes.data() + bytes.size();
    const MutableImageView& pixels = values[0].pixels;
    ASSERT_LE(reinterpret_cast<char*>(pixels.row(pixels.height - 1) + pixels.row_bytes()), end);
    ASSERT_LE(reinterpret_cast<const char*>(values[1].data + values[1].size_bytes), end);
    if (values[1].visible != nullptr) {
      ASSERT_LE(reinterpret_cast<char*>(values[1].visible + values[1].size_bytes / 16), end);
    }
  }
  EXPECT_GT(read, 1000u);
}

}  // namespace
}  // namespace bulkhead
