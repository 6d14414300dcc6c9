#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// One tf.Feature of a record, as found on the wire: which of its lists is set, and where its values
// lie. A view of the record's bytes.
struct FeatureList {
  enum class Kind { kNone, kBytes, kFloat, kInt64 };

  Kind kind = Kind::kNone;
  uint64_t count = 0;  // values
  // The values' bytes, in order. kBytes: one value each. kFloat: 4 bytes a value. kInt64: varints.
  absl::InlinedVector<absl::string_view, 1> chunks;
};

// Reads the tf.Feature message(s) in `messages`; several count as one after the other, as protobuf
// merges them. Where several lists are set the last one counts. False when the bytes are malformed.
bool ReadFeatureList(const absl::InlinedVector<absl::string_view, 1>& messages, FeatureList& list);

// "a bytes list", for messages.
absl::string_view KindName(FeatureList::Kind kind);

// The kind of list that holds a declared feature of this type.
FeatureList::Kind KindOfType(v1::Feature::TypeCase type);

// WRONG_DTYPE if `list` is not of the `expected` kind.
absl::Status CheckKind(const FeatureList& list, FeatureList::Kind expected);

// Write the values to `out`, little-endian, and return its new end. Numbers: of a float or int64
// list, 4 or 8 bytes each. Strings: each padded with zeros to `width` bytes, which none exceeds.
// Lengths: of byte strings, 8 bytes each.
char* WriteNumbers(const FeatureList& list, char* out);
char* WriteStrings(const FeatureList& list, uint64_t width, char* out);
char* WriteLengths(const FeatureList& list, char* out);

}  // namespace bulkhead
