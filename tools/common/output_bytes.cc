#include "tools/common/output_bytes.h"

#include <cstring>
#include <string>
#include <vector>

#include "server/spec/batch_layout.h"

namespace bulkhead::tools {
namespace {

class Outputs {
 public:
  Outputs(const v1::BatchSchema& schema, const std::byte* memory)
      : schema_(schema), memory_(memory) {}

  // Number `index` of the int64 output `name`.
  int64_t NumberOf(const std::string& name, uint64_t index) const {
    int64_t number = 0;
    for (const v1::TensorSchema& tensor : schema_.tensors()) {
      if (tensor.name() != name) continue;
      std::memcpy(&number, memory_ + tensor.batch_offset() + index * sizeof(number),
                  sizeof(number));
    }
    return number;
  }

  // Where the rows of each sample begin, and where the last ones end.
  std::vector<int64_t> OffsetsOf(const v1::TensorSchema& tensor, uint64_t samples) const {
    std::vector<int64_t> offsets = {0};
    for (uint64_t i = 0; i < samples; ++i) {
      offsets.push_back(offsets.back() + NumberOf(CountName(tensor.name()), i));
    }
    return offsets;
  }

  // Bytes of a sample of an image whose height and width are the batch's own.
  uint64_t ImageBytes(const v1::TensorSchema& tensor) const {
    const int first = tensor.packing() == v1::PACKING_EXTENTS ? 0 : 1;
    uint64_t bytes = tensor.element_bytes();
    for (int i = 0; i < tensor.shape_size(); ++i) {
      const bool own = i == first || i == first + 1;
      bytes *= static_cast<uint64_t>(
          own ? NumberOf(SizeName(tensor.name()), static_cast<uint64_t>(i - first))
              : tensor.shape(i));
    }
    return bytes;
  }

 private:
  const v1::BatchSchema& schema_;
  const std::byte* const memory_;
};

absl::string_view BytesAt(const void* data, uint64_t size) {
  return {static_cast<const char*>(data), size};
}

}  // namespace

void ForEachOutput(const v1::BatchSchema& schema, const std::byte* memory, uint64_t samples,
                   absl::FunctionRef<void(absl::string_view)> take) {
  const Outputs outputs(schema, memory);
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    const std::byte* const data = memory + tensor.batch_offset();
    if (tensor.packing() == v1::PACKING_UNSPECIFIED || tensor.has_normalization()) {
      take(BytesAt(data, tensor.sample_bytes() * samples));
    } else if (tensor.packing() == v1::PACKING_ROWS) {
      const std::vector<int64_t> offsets = outputs.OffsetsOf(tensor, samples);
      const auto bound = static_cast<uint64_t>(tensor.shape(0));
      const uint64_t row_bytes = bound == 0 ? 0 : tensor.sample_bytes() / bound;
      take(BytesAt(data, static_cast<uint64_t>(offsets.back()) * row_bytes));
      take(BytesAt(offsets.data(), offsets.size() * sizeof(int64_t)));
    } else {
      take(BytesAt(data, outputs.ImageBytes(tensor) * samples));
    }
  }
}

}  // namespace bulkhead::tools
