#include "server/pipeline/kept_values.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "server/base/element_type.h"
#include "server/image/boxes/boxes.h"

namespace bulkhead {
namespace {

constexpr size_t kAlignment = 16;

struct KeptValue {
  uint64_t size_bytes = 0;
  uint64_t visible_count = 0;
  int64_t count = 1;
  uint32_t dtype = 0;
  uint8_t form = 0;
  uint8_t is_image = 0;
  uint8_t channels_first = 0;
  uint8_t unused = 0;
  int32_t height = 0;
  int32_t width = 0;
  int32_t channels = 0;
  int32_t stacked = 0;
  int32_t canvas_height = 0;
  int32_t canvas_width = 0;
  uint64_t unused_too = 0;
};
static_assert(sizeof(KeptValue) == 64);

size_t RoundedUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void AppendPadded(const void* data, size_t size, std::string& bytes) {
  bytes.append(static_cast<const char*>(data), size);
  bytes.resize(RoundedUp(bytes.size()));
}

// Takes `size` bytes from `rest`; null when there are not as many.
char* Take(char*& rest, size_t& left, uint64_t size) {
  if (size > left || RoundedUp(size) > left) return nullptr;
  char* const taken = rest;
  rest += RoundedUp(size);
  left -= RoundedUp(size);
  return taken;
}

// The product of extents that are all at least 0; false when it is beyond any value's size.
bool Multiply(uint64_t& product, int64_t extent) {
  if (extent < 0) return false;
  return !__builtin_mul_overflow(product, static_cast<uint64_t>(extent), &product) &&
         product <= std::numeric_limits<uint32_t>::max();
}

// Whether the extents that the signature knows are those of the image.
bool HasExtents(const Value& value, const FeatureSignature& signature) {
  if (signature.is_stack) return value.stacked > 0;
  if (signature.kind != FeatureSignature::Kind::kImage || signature.shape.size() != 3 ||
      value.stacked != 0 || value.channels_first != signature.channels_first) {
    return false;
  }
  const int64_t height = value.image_size.height;
  const int64_t width = value.image_size.width;
  const int64_t extents[2][3] = {{height, width, value.channels}, {value.channels, height, width}};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t wanted = signature.shape[i];
    if (wanted != -1 && wanted != extents[value.channels_first ? 1 : 0][i]) return false;
  }
  return true;
}

// Whether the bytes that a value has are those that its extents say.
bool IsSound(const Value& value, const FeatureSignature& signature) {
  if (value.form == Value::Form::kEncoded) {
    return signature.kind == FeatureSignature::Kind::kEncoded && !value.is_image;
  }
  if (signature.kind == FeatureSignature::Kind::kEncoded || value.dtype != signature.dtype) {
    return false;
  }
  uint64_t bytes = ElementBytes(value.dtype);
  if (bytes == 0) return false;
  if (value.is_image) {
    if (!HasExtents(value, signature) || !Multiply(bytes, value.image_size.height) ||
        !Multiply(bytes, value.image_size.width) || !Multiply(bytes, value.channels) ||
        !Multiply(bytes, value.stacked == 0 ? 1 : value.stacked)) {
      return false;
    }
    return bytes == value.size_bytes && value.channels > 0;
  }
  if (!signature.variable && value.count != 1) return false;
  for (size_t i = 0; i < signature.shape.size(); ++i) {
    const bool counted = i == 0 && signature.variable;
    if (counted && value.count > signature.shape[0]) return false;
    if (!Multiply(bytes, counted ? value.count : signature.shape[i])) return false;
  }
  return bytes == value.size_bytes;
}

}  // namespace

size_t KeptBytes(const Value& value) {
  return sizeof(KeptValue) + RoundedUp(value.plain_bytes()) +
         RoundedUp(value.visible_count() * sizeof(float));
}

void AppendKept(const Value& value, std::string& bytes) {
  const bool pixels = value.form == Value::Form::kPixels;
  KeptValue record;
  record.size_bytes = value.plain_bytes();
  record.visible_count = value.visible_count();
  record.count = value.count;
  record.dtype = static_cast<uint32_t>(value.dtype);
  record.form = static_cast<uint8_t>(value.form);
  record.is_image = value.is_image ? 1 : 0;
  record.channels_first = value.channels_first ? 1 : 0;
  record.height = value.image_size.height;
  record.width = value.image_size.width;
  record.channels = value.channels;
  record.stacked = value.stacked;
  record.canvas_height = value.canvas.height;
  record.canvas_width = value.canvas.width;
  AppendPadded(&record, sizeof(record), bytes);
  if (pixels) {
    for (int y = 0; y < value.pixels.height; ++y) {
      bytes.append(reinterpret_cast<const char*>(value.pixels.row(y)), value.pixels.row_bytes());
    }
    bytes.resize(RoundedUp(bytes.size()));
  } else {
    AppendPadded(value.data, value.size_bytes, bytes);
  }
  AppendPadded(value.visible, record.visible_count * sizeof(float), bytes);
}

bool ReadKept(std::string& bytes, absl::Span<const FeatureSignature> signatures,
              std::vector<Value>& values) {
  values.clear();
  char* rest = bytes.data();
  size_t left = bytes.size();
  for (const FeatureSignature& signature : signatures) {
    const char* const head = Take(rest, left, sizeof(KeptValue));
    if (head == nullptr) return false;
    KeptValue record;
    std::memcpy(&record, head, sizeof(record));
    char* const data = Take(rest, left, record.size_bytes);
    if (data == nullptr || record.visible_count > left / sizeof(float)) return false;
    char* const visible = Take(rest, left, record.visible_count * sizeof(float));
    if (visible == nullptr || record.form > static_cast<uint8_t>(Value::Form::kElements)) {
      return false;
    }
    Value& value = values.emplace_back();
    value.form = static_cast<Value::Form>(record.form);
    value.dtype = static_cast<v1::DType>(record.dtype);
    value.is_image = record.is_image != 0;
    value.image_size = {record.height, record.width};
    value.channels = record.channels;
    value.channels_first = record.channels_first != 0;
    value.stacked = record.stacked;
    value.count = record.count;
    value.canvas = {record.canvas_height, record.canvas_width};
    value.data = reinterpret_cast<const std::byte*>(data);
    value.size_bytes = record.size_bytes;
    if (!IsSound(value, signature)) return false;
    if (record.visible_count > 0) {
      if (record.visible_count != record.size_bytes / kBoxBytes) return false;
      value.visible = reinterpret_cast<float*>(visible);
    }
    if (value.form != Value::Form::kPixels) continue;
    const bool plain = value.is_image && !value.channels_first && value.stacked == 0 &&
                       value.dtype == v1::DTYPE_UINT8;
    if (!plain) return false;
    value.SetPixels(
        ContiguousImage(reinterpret_cast<uint8_t*>(data), value.image_size, value.channels));
  }
  return left == 0;
}

}  // namespace bulkhead
