// What `normalize: {at: trainer}` leaves to the C++ client.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "client/cpp/internal/batch/layout.h"
#include "server/base/cast.h"

namespace bulkhead::client_internal::normalization_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr uint64_t kSamples = 2;

// One tensor, `image`: [2, 2, 3] of uint8.
v1::BatchSchema Schema(v1::DType dtype, bool channels_first) {
  v1::BatchSchema schema;
  schema.set_batch_size(kSamples);
  schema.set_batch_bytes(64);
  v1::TensorSchema& tensor = *schema.add_tensors();
  tensor.set_name("image");
  tensor.set_dtype(v1::DTYPE_UINT8);
  tensor.set_element_bytes(1);
  for (const int64_t extent : {2, 2, 3}) tensor.add_shape(extent);
  tensor.set_sample_bytes(12);
  tensor.set_packing(v1::PACKING_NORMALIZED_BY_CLIENT);
  v1::Normalization& rest = *tensor.mutable_normalization();
  for (const float mean : {1.5f, 100.0f, 200.0f}) rest.add_mean(mean);
  rest.add_std(3);
  rest.set_dtype(dtype);
  rest.set_channels_first(channels_first);
  return schema;
}

// 0, 7, 14 …, and what the workers make of them.
struct Images {
  std::vector<uint8_t> memory = std::vector<uint8_t>(64);
  std::vector<float> expected;

  explicit Images(bool channels_first) {
    for (size_t i = 0; i < 24; ++i) memory[i] = static_cast<uint8_t>(i * 7);
    const float means[] = {1.5f, 100, 200};
    for (size_t i = 0; i < 24; ++i) {
      const size_t image = i / 12, channel = channels_first ? i % 12 / 4 : i % 3;
      const size_t pixel = channels_first ? i % 4 : i % 12 / 3;
      const auto value = static_cast<float>(memory[image * 12 + pixel * 3 + channel]);
      expected.push_back((value - means[channel]) / 3);
    }
  }
};

TEST(NormalizationTest, TheHelperGivesWhatWorkersGive) {
  for (const bool channels_first : {false, true}) {
    const Images images(channels_first);
    for (const v1::DType dtype : {v1::DTYPE_FLOAT32, v1::DTYPE_FLOAT16, v1::DTYPE_BFLOAT16}) {
      const auto layout = MakeLayout(Schema(dtype, channels_first));
      ASSERT_TRUE(layout.ok()) << layout.status();
      const Tensor sent = (*ViewTensors(*layout, images.memory.data(), kSamples, nullptr))[0];
      EXPECT_EQ(sent.dtype, ElementType::kUint8);
      EXPECT_THAT(sent.shape, ElementsAre(2, 2, 2, 3));
      EXPECT_EQ(sent.bytes, 24u);
      ASSERT_NE(sent.normalization, nullptr);
      std::vector<uint8_t> out(NormalizedBytes(sent)), expected(out.size());
      const Tensor given = Normalized(sent, out.data());
      EXPECT_EQ(given.bytes, 24 * given.element_bytes);
      EXPECT_EQ(given.data, out.data());
      EXPECT_EQ(given.normalization, nullptr);
      EXPECT_THAT(given.shape, channels_first ? ElementsAre(2, 3, 2, 2) : ElementsAre(2, 2, 2, 3));
      CastElements(v1::DTYPE_FLOAT32, images.expected.data(), dtype, expected.data(), 24);
      EXPECT_THAT(out, ElementsAreArray(expected)) << dtype << channels_first;
    }
  }
}

// All bytes, with constants for which a half is subnormal, exact, half-way or infinite.
TEST(NormalizationTest, NarrowFloatsAreRoundedAsInWorkers) {
  std::vector<uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0);
  for (const float divide : {1.0f, 3.0f, 0.003f, 1e9f, -0.12499999f, 16384.0f, 1e-39f}) {
    for (const v1::DType dtype : {v1::DTYPE_FLOAT16, v1::DTYPE_BFLOAT16}) {
      const bool half = dtype == v1::DTYPE_FLOAT16;
      const Normalization rest{
          true, {divide}, {0.25f}, half ? ElementType::kFloat16 : ElementType::kBfloat16, false};
      Tensor sent{"x", ElementType::kUint8, 1, {1, 256}, bytes.data(), 256};
      sent.normalization = &rest;
      std::vector<float> floats;
      for (const uint8_t x : bytes) floats.push_back(static_cast<float>(x) / divide - 0.25f);
      std::vector<uint16_t> expected(256);
      CastElements(v1::DTYPE_FLOAT32, floats.data(), dtype, expected.data(), 256);
      std::vector<uint16_t> out(256);
      Normalized(sent, out.data());
      const Normalization by_channel{
          true, std::vector<float>(256, divide), {0.25f}, rest.dtype, false};
      EXPECT_THAT(out, ElementsAreArray(expected)) << divide << " " << dtype;
      sent.normalization = &by_channel;
      Normalized(sent, out.data());
      EXPECT_THAT(out, ElementsAreArray(expected)) << divide << " " << dtype;
    }
  }
}

TEST(NormalizationTest, OtherTensorsAreGivenAsTheyAre) {
  const int64_t numbers[] = {1, 2};
  const Tensor sent{"label", ElementType::kInt64, 8, {2}, numbers, 16};
  EXPECT_EQ(NormalizedBytes(sent), 16u);
  EXPECT_EQ(Normalized(sent, nullptr).data, numbers);
}

TEST(NormalizationTest, WhatTheClientDoesNotKnowIsRefused) {
  const auto refused = [](const auto& spoil) {
    v1::BatchSchema schema = Schema(v1::DTYPE_FLOAT32, true);
    spoil(*schema.mutable_tensors(0));
    return std::string(MakeLayout(schema).status().message());
  };
  const std::string words = "normalized in a way that this client does not know; update it";
  EXPECT_EQ(refused([](auto&) {}), "");
  EXPECT_THAT(refused([](auto& tensor) { tensor.clear_normalization(); }), HasSubstr(words));
  EXPECT_THAT(refused([](auto& tensor) { tensor.set_dtype(v1::DTYPE_INT8); }), HasSubstr(words));
  EXPECT_THAT(
      refused([](auto& tensor) { tensor.mutable_normalization()->set_dtype(v1::DTYPE_INT8); }),
      HasSubstr(words));
  EXPECT_THAT(refused([](auto& tensor) { tensor.mutable_normalization()->add_std(1); }),
              HasSubstr(words));
}

}  // namespace
}  // namespace bulkhead::client_internal::normalization_test
