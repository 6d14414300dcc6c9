// Outputs whose samples lie packed: what the C++ client gives of them, and what it does not
// believe.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bulkhead/error.h"
#include "client/cpp/internal/batch/layout.h"

namespace bulkhead::client_internal {
namespace {

constexpr uint64_t kSamples = 3;
constexpr int64_t kBound = 4;

void AddTensor(const std::string& name, v1::DType dtype, uint64_t element_bytes,
               const std::vector<int64_t>& shape, v1::Packing packing, v1::BatchSchema& schema) {
  auto& tensor = *schema.add_tensors();
  tensor.set_name(name);
  tensor.set_dtype(dtype);
  tensor.set_element_bytes(element_bytes);
  uint64_t bytes = element_bytes;
  for (const int64_t extent : shape) {
    tensor.add_shape(extent);
    bytes *= static_cast<uint64_t>(extent);
  }
  tensor.set_sample_bytes(bytes);
  tensor.set_packing(packing);
  tensor.set_batch_offset(schema.batch_bytes());
  schema.set_batch_bytes(schema.batch_bytes() + (bytes * kSamples + 63) / 64 * 64);
}

// `rows`: [4, 2] floats packed by rows; `image`: [2, 3, 1] bytes packed by extents, or [1, 2, 3].
v1::BatchSchema PackedSchema(bool channels_first = false) {
  v1::BatchSchema schema;
  schema.set_batch_size(kSamples);
  AddTensor("rows", v1::DTYPE_FLOAT32, 4, {kBound, 2}, v1::PACKING_ROWS, schema);
  AddTensor("rows_count", v1::DTYPE_INT64, 8, {}, v1::PACKING_UNSPECIFIED, schema);
  AddTensor("image", v1::DTYPE_UINT8, 1,
            channels_first ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{2, 3, 1},
            channels_first ? v1::PACKING_EXTENTS_CHANNELS_FIRST : v1::PACKING_EXTENTS, schema);
  AddTensor("image_size", v1::DTYPE_INT64, 8, {2}, v1::PACKING_UNSPECIFIED, schema);
  return schema;
}

class PackedBatch {
 public:
  explicit PackedBatch(bool channels_first = false)
      : schema_(PackedSchema(channels_first)), memory_(schema_.batch_bytes()) {
    Put("rows_count", {1, 0, 2});
    Put("image_size", {1, 2, 1, 2, 1, 2});
  }

  void Put(const std::string& name, const std::vector<int64_t>& numbers) {
    for (const v1::TensorSchema& tensor : schema_.tensors()) {
      if (tensor.name() != name) continue;
      std::memcpy(memory_.data() + tensor.batch_offset(), numbers.data(), numbers.size() * 8);
    }
  }

  absl::StatusOr<std::vector<Tensor>> View(uint64_t samples = kSamples) {
    layout_ = *MakeLayout(schema_);
    offsets_.clear();
    return ViewTensors(layout_, memory_.data(), samples, &offsets_);
  }
  const uint8_t* memory() const { return memory_.data(); }

 private:
  v1::BatchSchema schema_;
  std::vector<uint8_t> memory_;
  BatchLayout layout_;
  std::vector<std::vector<int64_t>> offsets_;
};

TEST(PackingTest, RowsComeAsOneTensorWithOffsets) {
  PackedBatch batch;
  const auto tensors = batch.View();
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 5u);
  const Tensor& rows = (*tensors)[0];
  const Tensor& offsets = (*tensors)[1];
  EXPECT_EQ(rows.packing, Packing::kRows);
  EXPECT_EQ(rows.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(rows.bytes, 3u * 2 * 4);
  EXPECT_EQ(rows.data, batch.memory());
  EXPECT_EQ(std::vector<int64_t>(rows.row_offsets, rows.row_offsets + 4),
            (std::vector<int64_t>{0, 1, 1, 3}));
  EXPECT_EQ(std::string(offsets.name), "rows_offsets");
  EXPECT_EQ(offsets.packing, Packing::kOffsets);
  EXPECT_EQ(offsets.dtype, ElementType::kInt64);
  EXPECT_EQ(offsets.shape, (std::vector<int64_t>{4}));
  EXPECT_EQ(offsets.bytes, 32u);
  EXPECT_EQ(offsets.data, rows.row_offsets);
  const Tensor& counts = (*tensors)[2];
  EXPECT_EQ(counts.packing, Packing::kSamples);
  EXPECT_EQ(counts.shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(counts.row_offsets, nullptr);
}

TEST(PackingTest, ASmallerBatchHasItsOwnRows) {
  PackedBatch batch;
  batch.Put("rows_count", {4, 4, 99});
  const auto tensors = batch.View(2);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].shape, (std::vector<int64_t>{8, 2}));
  EXPECT_EQ((*tensors)[1].shape, (std::vector<int64_t>{3}));
}

TEST(PackingTest, ImagesHaveTheSizeOfTheirBatch) {
  for (const bool channels_first : {false, true}) {
    PackedBatch batch(channels_first);
    const auto tensors = batch.View();
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    const Tensor& image = (*tensors)[3];
    EXPECT_EQ(image.packing, Packing::kExtents);
    EXPECT_EQ(image.shape, channels_first ? (std::vector<int64_t>{3, 1, 1, 2})
                                          : (std::vector<int64_t>{3, 1, 2, 1}));
    EXPECT_EQ(image.bytes, 6u);
  }
}

TEST(PackingTest, WhatLiesOutsideItsTensorIsNotBelieved) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> cases = {
      {"rows_count", {1, kBound + 1, 0}},
      {"rows_count", {-1, 2, 0}},
      {"rows_count", {0, 0, INT64_MAX}},
      {"rows_count", {INT64_MIN, 0, 0}},
      {"image_size", {0, 2}},
      {"image_size", {1, 0}},
      {"image_size", {3, 2}},
      {"image_size", {2, 4}},
      {"image_size", {-1, -6}},
      {"image_size", {INT64_MAX, 1}}};
  for (const auto& [name, numbers] : cases) {
    PackedBatch batch;
    batch.Put(name, numbers);
    EXPECT_EQ(ErrorReason(batch.View().status()), "PROTOCOL_VIOLATION")
        << name << " " << numbers[0] << " " << numbers[1];
  }
}

TEST(PackingTest, WhatSaysHowMustBeThere) {
  using Spoil = std::function<void(v1::BatchSchema&)>;
  const std::vector<std::pair<const char*, Spoil>> cases = {
      {"no count", [](auto& s) { s.mutable_tensors(1)->set_name("other"); }},
      {"count of another type", [](auto& s) { s.mutable_tensors(1)->set_dtype(v1::DTYPE_UINT64); }},
      {"count of another shape", [](auto& s) { s.mutable_tensors(1)->add_shape(1); }},
      {"rows without a dimension",
       [](auto& s) {
         s.mutable_tensors(0)->clear_shape();
         s.mutable_tensors(0)->set_sample_bytes(4);
       }},
      {"no size", [](auto& s) { s.mutable_tensors(3)->set_name("other"); }},
      {"size of another shape",
       [](auto& s) {
         s.mutable_tensors(3)->set_shape(0, 1);
         s.mutable_tensors(3)->set_sample_bytes(8);
       }},
      {"image without channels",
       [](auto& s) { s.mutable_tensors(2)->mutable_shape()->RemoveLast(); }},
      {"unknown packing", [](auto& s) { s.mutable_tensors(0)->set_packing(v1::Packing(77)); }},
      {"name of the offsets taken",
       [](auto& s) { s.mutable_tensors(2)->set_name("rows_offsets"); }},
  };
  EXPECT_TRUE(MakeLayout(PackedSchema()).ok());
  for (const auto& [name, spoil] : cases) {
    v1::BatchSchema schema = PackedSchema();
    spoil(schema);
    EXPECT_EQ(ErrorReason(MakeLayout(schema).status()), "PROTOCOL_VIOLATION") << name;
  }
}

TEST(PackingTest, HasNames) {
  EXPECT_STREQ(PackingName(Packing::kRows), "rows");
  EXPECT_STREQ(PackingName(Packing::kExtents), "extents");
}

}  // namespace
}  // namespace bulkhead::client_internal
