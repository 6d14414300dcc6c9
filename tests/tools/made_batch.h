#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bulkhead/batch.h"
#include "client/cpp/internal/batch/batch_data.h"

namespace bulkhead::tools {

// Makes a batch of tensors, which it must outlive.
class BatchMaker {
 public:
  explicit BatchMaker(uint64_t samples) : samples_(samples) {}

  // `shape`: with the samples first.
  template <typename T>
  BatchMaker& Add(const std::string& name, ElementType type, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
    std::vector<uint8_t>& data = data_.emplace_back(values.size() * sizeof(T));
    std::memcpy(data.data(), values.data(), data.size());
    tensors_.push_back(
        {names_.emplace_back(name), type, sizeof(T), std::move(shape), data.data(), data.size()});
    return *this;
  }
  // Packs the tensor that was added last by rows.
  BatchMaker& Packed(std::vector<int64_t> offsets) {
    tensors_.back().packing = Packing::kRows;
    tensors_.back().row_offsets = offsets_.emplace_back(std::move(offsets)).data();
    return *this;
  }

  Batch Make() const {
    auto data = std::make_unique<client_internal::BatchData>();
    data->tensors = tensors_;
    data->header.set_sample_count(static_cast<uint32_t>(samples_));
    data->header.set_valid_count(static_cast<uint32_t>(samples_));
    return Batch(std::move(data));
  }

 private:
  const uint64_t samples_;
  std::deque<std::string> names_;
  std::deque<std::vector<uint8_t>> data_;
  std::deque<std::vector<int64_t>> offsets_;
  std::vector<Tensor> tensors_;
};

}  // namespace bulkhead::tools
