#include "tools/common/output_bytes.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;

v1::TensorSchema& Add(v1::BatchSchema& schema, const std::string& name, v1::DType dtype,
                      uint64_t element_bytes, const std::vector<int64_t>& shape,
                      v1::Packing packing = v1::PACKING_UNSPECIFIED) {
  v1::TensorSchema& tensor = *schema.add_tensors();
  tensor.set_name(name);
  tensor.set_dtype(dtype);
  tensor.set_element_bytes(element_bytes);
  uint64_t bytes = element_bytes;
  for (const int64_t extent : shape) {
    tensor.add_shape(extent);
    bytes *= static_cast<uint64_t>(extent);
  }
  tensor.set_sample_bytes(bytes);
  tensor.set_batch_offset(schema.batch_bytes());
  tensor.set_packing(packing);
  schema.set_batch_bytes(schema.batch_bytes() + 64);
  return tensor;
}

std::string Numbers(const std::vector<int64_t>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(int64_t));
}

std::vector<std::string> OutputsOf(const v1::BatchSchema& schema, const std::string& memory,
                                   uint64_t samples) {
  std::vector<std::string> outputs;
  ForEachOutput(schema, reinterpret_cast<const std::byte*>(memory.data()), samples,
                [&](absl::string_view bytes) { outputs.emplace_back(bytes); });
  return outputs;
}

TEST(OutputBytesTest, WhatTheClientNormalizesIsTakenAsItTravels) {
  v1::BatchSchema schema;
  Add(schema, "image", v1::DTYPE_UINT8, 1, {1, 2, 3}, v1::PACKING_NORMALIZED_BY_CLIENT)
      .mutable_normalization();
  EXPECT_THAT(OutputsOf(schema, "abcdefghijkl", 2), ElementsAre("abcdefghijkl"));
}

TEST(OutputBytesTest, PackedRowsEndWithTheLastOneAndBringOffsets) {
  v1::BatchSchema schema;
  Add(schema, "rows", v1::DTYPE_UINT8, 1, {4, 2}, v1::PACKING_ROWS);
  Add(schema, "rows_count", v1::DTYPE_INT64, 8, {});
  std::string memory(schema.batch_bytes(), 'x');
  memory.replace(0, 10, "aabbccdd\0\0", 10);
  memory.replace(64, 24, Numbers({1, 0, 3}));
  EXPECT_THAT(OutputsOf(schema, memory, 3),
              ElementsAre("aabbccdd", Numbers({0, 1, 1, 4}), Numbers({1, 0, 3})));
  EXPECT_THAT(OutputsOf(schema, memory, 2), ElementsAre("aa", Numbers({0, 1, 1}), Numbers({1, 0})));
}

TEST(OutputBytesTest, ImagesHaveTheSizeOfTheirBatch) {
  for (const bool channels_first : {false, true}) {
    v1::BatchSchema schema;
    Add(schema, "image", v1::DTYPE_UINT8, 1,
        channels_first ? std::vector<int64_t>{3, 2, 4} : std::vector<int64_t>{2, 4, 3},
        channels_first ? v1::PACKING_EXTENTS_CHANNELS_FIRST : v1::PACKING_EXTENTS);
    Add(schema, "image_size", v1::DTYPE_INT64, 8, {2});
    std::string memory(schema.batch_bytes(), 'x');
    memory.replace(0, 12, "abcdefghijkl");
    memory.replace(64, 32, Numbers({1, 2, 1, 2}));
    EXPECT_THAT(OutputsOf(schema, memory, 2), ElementsAre("abcdefghijkl", Numbers({1, 2, 1, 2})));
  }
}

}  // namespace
}  // namespace bulkhead::tools
