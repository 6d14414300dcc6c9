#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/source.h"

namespace bulkhead {

// The value of a declared feature in a record that lacks it. Immutable, thread-safe.
class MissingValue {
 public:
  MissingValue() = default;
  // `is_length`: the signature is that of the lengths of the declared byte strings. SPEC_INVALID if
  // a default does not fit the shape.
  static absl::StatusOr<MissingValue> Create(const FeatureSignature& signature,
                                             const v1::Feature& feature, bool is_length);

  // Whether a record may lack the feature.
  bool is_allowed() const { return is_allowed_; }
  // A view of this.
  FeatureValue Get() const;
  // What in a spec allows it: "a `default`"; empty: nothing.
  absl::string_view advice() const { return advice_; }

 private:
  static absl::StatusOr<MissingValue> OfNumbers(const FeatureSignature& signature,
                                                const v1::Feature& feature);

  bool is_allowed_ = false;
  std::string bytes_;
  int64_t count_ = 1;
  absl::string_view advice_ = "a `default`";
};

}  // namespace bulkhead
