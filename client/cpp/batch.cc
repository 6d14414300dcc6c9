#include "bulkhead/batch.h"

#include <iterator>
#include <utility>

#include "client/cpp/internal/base/element_type.h"
#include "client/cpp/internal/batch/batch_data.h"

namespace bulkhead {

const char* ElementTypeName(ElementType type) {
  // A program may have been compiled with a newer header.
  const bool known = static_cast<size_t>(type) < std::size(client_internal::kElementTypes);
  return known ? client_internal::RowOf(type).name : "unknown";
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
