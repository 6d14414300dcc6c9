#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "server/spec/signature.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// Values of some features as bytes, for a cache stage: one record for each, in the features' order.
//
//   record: header of 64 bytes | the value, contiguous | remaining shares of boxes, float32 each
//
// Each part begins at a multiple of 16 bytes. In this machine's byte order.
void AppendKept(const Value& value, std::string& bytes);

// The number of bytes that AppendKept adds.
size_t KeptBytes(const Value& value);

// Reads such records, one for each of `signatures`, as views into `bytes`, which must not change
// while the values are used. False if these features cannot have such values; then the values are
// undefined. Whatever `bytes` contains, nothing outside is read, then or later.
bool ReadKept(std::string& bytes, absl::Span<const FeatureSignature> signatures,
              std::vector<Value>& values);

}  // namespace bulkhead
