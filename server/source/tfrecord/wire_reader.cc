#include "server/source/tfrecord/wire_reader.h"

#include "server/base/little_endian.h"

namespace bulkhead {
namespace {

constexpr uint32_t kStartGroup = 3;
constexpr uint32_t kEndGroup = 4;
// Groups within groups; protobuf's own limit is of the same order.
constexpr int kMaxGroupDepth = 64;

}  // namespace

bool TakeVarint(absl::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int i = 0; i < 10; ++i) {
    if (static_cast<size_t>(i) >= bytes.size()) return false;
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);  // the tenth byte's excess is dropped
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool WireReader::Fail() {
  failed_ = true;
  bytes_ = absl::string_view();
  return false;
}

bool WireReader::ReadTag() {
  uint64_t tag = 0;
  if (!TakeVarint(bytes_, tag) || tag > UINT32_MAX || (tag >> 3) == 0) return Fail();
  number_ = static_cast<uint32_t>(tag >> 3);
  type_ = static_cast<uint32_t>(tag & 7);
  return true;
}

bool WireReader::ReadValue() {
  size_t size = 0;
  switch (type_) {
    case kVarint: {
      const absl::string_view from = bytes_;
      if (!TakeVarint(bytes_, value_)) return Fail();
      content_ = from.substr(0, from.size() - bytes_.size());
      return true;
    }
    case kFixed64:
      size = 8;
      break;
    case kFixed32:
      size = 4;
      break;
    case kBytes: {
      uint64_t length = 0;
      if (!TakeVarint(bytes_, length) || length > bytes_.size()) return Fail();
      size = static_cast<size_t>(length);
      break;
    }
    default:
      return Fail();
  }
  if (bytes_.size() < size) return Fail();
  content_ = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  if (type_ == kFixed64) value_ = LoadLittle<uint64_t>(content_.data());
  if (type_ == kFixed32) value_ = LoadLittle<uint32_t>(content_.data());
  return true;
}

bool WireReader::SkipGroup() {
  uint32_t open[kMaxGroupDepth] = {number_};
  for (int depth = 1; depth > 0;) {
    if (bytes_.empty() || !ReadTag()) return Fail();
    if (type_ == kStartGroup) {
      if (depth == kMaxGroupDepth) return Fail();
      open[depth++] = number_;
    } else if (type_ == kEndGroup) {
      if (open[--depth] != number_) return Fail();
    } else if (!ReadValue()) {
      return false;
    }
  }
  return true;
}

bool WireReader::Next() {
  while (!bytes_.empty()) {
    if (!ReadTag()) return false;
    if (type_ != kStartGroup) return ReadValue();
    if (!SkipGroup()) return false;
  }
  return false;
}

}  // namespace bulkhead
