#include "bulkhead/batch.h"

#include <utility>

#include "client/cpp/internal/batch_data.h"

namespace bulkhead {

const char* ElementTypeName(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt8:
      return "int8";
    case ElementType::kUint16:
      return "uint16";
    case ElementType::kInt16:
      return "int16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kBfloat16:
      return "bfloat16";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kBool:
      return "bool";
    case ElementType::kBytes:
      return "bytes";
    case ElementType::kUint32:
      return "uint32";
    case ElementType::kUint64:
      return "uint64";
    case ElementType::kComplex64:
      return "complex64";
    case ElementType::kComplex128:
      return "complex128";
  }
  return "unknown";
}

const char* PackingName(Packing packing) {
  switch (packing) {
    case Packing::kSamples:
      return "samples";
    case Packing::kRows:
      return "rows";
    case Packing::kExtents:
      return "extents";
    case Packing::kOffsets:
      return "offsets";
  }
  return "unknown";
}

Batch::Batch(std::unique_ptr<client_internal::BatchData> data) : data_(std::move(data)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

const std::vector<Tensor>& Batch::tensors() const { return data_->tensors; }

const Tensor* Batch::Find(absl::string_view name) const {
  for (const Tensor& tensor : data_->tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

uint64_t Batch::sequence() const { return data_->header.sequence(); }
uint64_t Batch::epoch() const { return data_->header.epoch(); }
uint64_t Batch::sample_count() const { return data_->header.sample_count(); }
uint64_t Batch::valid_count() const { return data_->header.valid_count(); }
uint64_t Batch::first_position() const { return data_->header.first_position(); }
bool Batch::last_in_epoch() const { return batches_left_in_epoch() == 0; }
uint64_t Batch::batches_left_in_epoch() const { return data_->header.batches_left_in_epoch(); }

std::string Batch::cursor() const { return client_internal::CursorToJson(data_->cursor); }

}  // namespace bulkhead
