#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace bulkhead {

// Reads the fields of one protobuf message from untrusted bytes, without copying any
// (https://protobuf.dev/programming-guides/encoding). Value type, cheap; not thread-safe.
//
//   for (WireReader reader(bytes); reader.Next();) {
//     if (reader.Is(1, WireReader::kBytes)) use(reader.bytes());
//   }
//   if (reader.failed()) …  // the bytes are not a message
class WireReader {
 public:
  enum Type : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  explicit WireReader(absl::string_view bytes) : bytes_(bytes) {}

  // Goes to the next field; false at the end, and at the first byte that cannot be read.
  bool Next();
  bool failed() const { return failed_; }

  // Whether the field has this number and wire type. A known number of another type is an unknown
  // field, as for protobuf.
  bool Is(uint32_t number, Type type) const { return number_ == number && type_ == type; }
  bool IsNumber(uint32_t number) const { return number_ == number; }
  uint32_t type() const { return type_; }

  // The bits of a varint or fixed number.
  uint64_t number_value() const { return value_; }
  // A byte string's content; of a number, its encoded bytes.
  absl::string_view bytes() const { return content_; }

 private:
  bool Fail();
  bool SkipGroup();
  bool ReadTag();
  bool ReadValue();

  absl::string_view bytes_;
  absl::string_view content_;
  uint64_t value_ = 0;
  uint32_t number_ = 0;
  uint32_t type_ = 0;
  bool failed_ = false;
};

// Takes a varint off the front of `bytes`; false when it is cut short or longer than ten bytes.
bool TakeVarint(absl::string_view& bytes, uint64_t& value);

}  // namespace bulkhead
