#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/source/source.h"
#include "server/source/tar/json_value.h"

namespace bulkhead {

// In which form a value lies in a tar.
enum class MemberForm {
  kWhole,  // the whole member: bytes, numbers as text, an array of NumPy
  kJson,   // a value of JSON
};

// Makes features of what members of a tar hold. Immutable, thread-safe.
class MemberValue {
 public:
  // Memory of one thread for one feature; reused from record to record.
  struct Scratch {
    ByteBuffer bytes;
    JsonScratch json;
  };

  // `is_length`: the signature is that of the length of the declared byte string.
  MemberValue(FeatureSignature signature, const v1::Feature& feature, bool is_length);

  // Whether the feature is a byte string.
  bool is_bytes() const { return type_ == v1::Feature::kBytes; }

  // Reads `content`, whose views `value` is, or of `scratch`. Sample errors: MALFORMED_EXAMPLE,
  // WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND.
  absl::Status Read(absl::string_view content, MemberForm form, Scratch& scratch,
                    FeatureValue& value) const;

 private:
  absl::Status ReadBytes(absl::string_view content, MemberForm form, Scratch& scratch,
                         FeatureValue& value) const;
  absl::Status ReadTensor(absl::string_view content, MemberForm form, Scratch& scratch,
                          FeatureValue& value) const;

  FeatureSignature signature_;
  v1::Feature::TypeCase type_;
  bool is_length_;
  uint64_t max_bytes_;
  bool cast_;
};

}  // namespace bulkhead
