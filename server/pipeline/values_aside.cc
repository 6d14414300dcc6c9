#include "server/pipeline/values_aside.h"

#include <cstring>

namespace bulkhead {
namespace {

size_t Padded(size_t bytes) { return (bytes + 15) / 16 * 16; }

// What a copy of all that `value` points to takes.
size_t CopiedBytes(const Value& value) {
  return Padded(value.plain_bytes()) + Padded(value.visible_count() * sizeof(float));
}

// Copies what `value` points to, and points it there.
void Move(Value& value, uint8_t* memory) {
  const size_t data_bytes = value.plain_bytes();
  if (value.form == Value::Form::kPixels) {
    const MutableImageView copy =
        ContiguousImage(memory, value.pixels.size(), value.pixels.channels);
    for (int y = 0; y < copy.height; ++y) {
      std::memcpy(copy.row(y), value.pixels.row(y), copy.row_bytes());
    }
    value.pixels = copy;
  } else {
    if (data_bytes > 0) std::memcpy(memory, value.data, data_bytes);
    value.data = reinterpret_cast<const std::byte*>(memory);
  }
  if (value.visible == nullptr) return;
  auto* visible = reinterpret_cast<float*>(memory + Padded(data_bytes));
  std::memcpy(visible, value.visible, value.visible_count() * sizeof(float));
  value.visible = visible;
}

}  // namespace

void ValuesAside::Put(const std::vector<Value>& values, absl::Span<const size_t> features) {
  size_t total_bytes = 0;
  for (const size_t feature : features) {
    total_bytes += CopiedBytes(values[feature]);
  }
  bytes_ = total_bytes;
  uint8_t* memory = memory_.Resize(total_bytes);
  aside_.clear();
  for (const size_t feature : features) {
    Value& value = aside_.emplace_back(values[feature]);
    const size_t bytes = CopiedBytes(value);
    Move(value, memory);
    memory += bytes;
  }
}

void ValuesAside::Restore(std::vector<Value>& values, absl::Span<const size_t> features) const {
  for (size_t i = 0; i < features.size(); ++i) values[features[i]] = aside_[i];
}

}  // namespace bulkhead
