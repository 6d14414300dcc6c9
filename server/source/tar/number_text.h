#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/source.h"

namespace bulkhead {

// One number as text, whole: "-3", "1e-3". Sample error WRONG_DTYPE if it is none, or does not fit.
absl::Status ParseNumber(absl::string_view text, int64_t& number);
absl::Status ParseNumber(absl::string_view text, float& number);
absl::Status ParseNumber(absl::string_view text, double& number);

// The numbers of a text with spaces, commas or line ends between them, as int64 or float32, which
// the signature says. Sample errors: WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND.
absl::Status ReadNumberText(absl::string_view text, const FeatureSignature& signature,
                            ByteBuffer& buffer, FeatureValue& value);

}  // namespace bulkhead
