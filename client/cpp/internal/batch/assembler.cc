#include "client/cpp/internal/batch/assembler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {

Assembler::Assembler(std::shared_ptr<BatchContext> context, bool unordered, uint32_t world_size,
                     bool assigned)
    : context_(std::move(context)),
      window_(context_->cursor, unordered, world_size, context_->layout.batch_size, assigned) {}

absl::StatusOr<std::unique_ptr<BatchData>> Assembler::Add(const PartView& part) {
  const BatchLayout& layout = context_->layout;
  if (part.has_header) {
    BULKHEAD_RETURN_IF_ERROR(Begin(part));
  } else if (batch_ == nullptr) {
    return ProtocolError("a batch began without its header");
  }
  if (part.offset > layout.batch_bytes || part.data_bytes > layout.batch_bytes - part.offset) {
    return ProtocolError(absl::StrCat("a part of ", part.data_bytes, " bytes at ", part.offset,
                                      " lies outside its batch of ", layout.batch_bytes, " bytes"));
  }
  if (part.data_bytes > payload_bytes_ - received_bytes_) {
    return ProtocolError(absl::StrCat("a batch has more than the ", payload_bytes_,
                                      " bytes that its header announced"));
  }
  BULKHEAD_RETURN_IF_ERROR(NoteFilled(part.offset, part.offset + part.data_bytes));
  SliceReader data = part.data;
  if (!data.CopyTo(batch_->memory.get() + part.offset, part.data_bytes)) {
    return ProtocolError("malformed BatchPart");
  }
  received_bytes_ += part.data_bytes;
  if (received_bytes_ < payload_bytes_) return std::unique_ptr<BatchData>();
  BULKHEAD_RETURN_IF_ERROR(CheckComplete());
  BULKHEAD_RETURN_IF_ERROR(Finish(batch_->memory.get(), batch_.get()));
  return std::move(batch_);
}

absl::StatusOr<std::unique_ptr<BatchData>> Assembler::Adopt(const v1::BatchHeader& header,
                                                            std::unique_ptr<HeldSlot> slot) {
  if (batch_ != nullptr) {
    return ProtocolError("a batch came before the one before it was complete");
  }
  auto batch = std::make_unique<BatchData>();
  batch->context = context_;
  batch->header = header;
  batch->slot = std::move(slot);
  BULKHEAD_RETURN_IF_ERROR(CheckHeader(header));
  BULKHEAD_RETURN_IF_ERROR(Finish(batch->slot->data(), batch.get()));
  return batch;
}

absl::Status Assembler::Finish(uint8_t* memory, BatchData* batch) {
  BULKHEAD_ASSIGN_OR_RETURN(
      batch->tensors,
      ViewTensors(context_->layout, memory, batch->header.sample_count(), &batch->row_offsets));
  window_.Add(batch->header);
  AddCode(batch->header.code(), &context_->cursor);
  batch->cursor = context_->cursor;
  window_.Describe(&batch->cursor);
  return absl::OkStatus();
}

absl::Status Assembler::Begin(const PartView& part) {
  if (batch_ != nullptr)
    return ProtocolError("a batch began before the one before it was complete");
  auto batch = std::make_unique<BatchData>();
  if (!batch->header.ParseFromString(part.header)) return ProtocolError("malformed BatchHeader");
  BULKHEAD_RETURN_IF_ERROR(CheckHeader(batch->header));
  batch->context = context_;
  batch->memory = context_->pool.Take();
  if (batch->memory == nullptr) {
    return MakeClientError(absl::StatusCode::kResourceExhausted, "RESOURCE_EXHAUSTED",
                           absl::StrCat("no memory for a batch of ", context_->layout.batch_bytes,
                                        " bytes; lower batch.size or the credits"));
  }
  batch_ = std::move(batch);
  sequence_ = batch_->header.sequence();
  payload_bytes_ = batch_->header.payload_bytes();
  received_bytes_ = 0;
  filled_until_ = context_->layout.offsets;
  return absl::OkStatus();
}

absl::Status Assembler::CheckHeader(const v1::BatchHeader& header) const {
  const BatchLayout& layout = context_->layout;
  BULKHEAD_RETURN_IF_ERROR(window_.Check(header));
  if (header.sample_count() == 0 || header.sample_count() > layout.batch_size ||
      header.valid_count() > header.sample_count()) {
    return ProtocolError(absl::StrCat("batch ", header.sequence(), " has ", header.valid_count(),
                                      " valid of ", header.sample_count(),
                                      " samples, batches hold ", layout.batch_size));
  }
  if (header.payload_bytes() > layout.batch_bytes) {
    return ProtocolError(absl::StrCat("batch ", header.sequence(), " announces ",
                                      header.payload_bytes(), " bytes, batches have ",
                                      layout.batch_bytes));
  }
  if (header.quarantine_digest() != context_->quarantine_digest) {
    return ProtocolError(absl::StrCat("batch ", header.sequence(),
                                      " was made with other records in quarantine than the ",
                                      context_->cursor.quarantined_size(), " that it reported"));
  }
  return absl::OkStatus();
}

std::pair<uint64_t, uint64_t> Assembler::FilledRange(size_t i) const {
  const BatchLayout& layout = context_->layout;
  if (layout.offsets[i] == BatchLayout::kNoMemory) return {0, 0};
  const uint64_t bytes = layout.tensors[i].sample_bytes * batch_->header.sample_count();
  return {layout.offsets[i], layout.offsets[i] + bytes};
}

absl::Status Assembler::NoteFilled(uint64_t begin, uint64_t end) {
  for (size_t i = 0; i < filled_until_.size(); ++i) {
    const auto [tensor_begin, tensor_end] = FilledRange(i);
    const uint64_t from = std::max(begin, tensor_begin);
    const uint64_t until = std::min(end, tensor_end);
    if (from >= until) continue;
    if (from != filled_until_[i]) {
      return ProtocolError(absl::StrCat("parts of batch ", batch_->header.sequence(),
                                        " leave a gap or overlap in '",
                                        context_->layout.tensors[i].name, "'"));
    }
    filled_until_[i] = until;
  }
  return absl::OkStatus();
}

absl::Status Assembler::CheckComplete() const {
  for (size_t i = 0; i < filled_until_.size(); ++i) {
    const auto [tensor_begin, tensor_end] = FilledRange(i);
    if (tensor_begin < tensor_end && filled_until_[i] != tensor_end) {
      return ProtocolError(absl::StrCat("batch ", batch_->header.sequence(),
                                        " ended without all of '", context_->layout.tensors[i].name,
                                        "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace bulkhead::client_internal
