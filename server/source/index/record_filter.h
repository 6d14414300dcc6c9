#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/source.h"

namespace bulkhead {

// Conditions on the scalar features of a record, ready to be applied. Comparisons are exact: no
// int64 is converted to a double. Immutable, thread-safe.
class RecordFilter {
 public:
  // `features`: those of the tested records. SPEC_INVALID if a condition names none of them, or its
  // tests do not fit the feature.
  static absl::StatusOr<RecordFilter> Create(
      const google::protobuf::RepeatedPtrField<v1::Condition>& conditions,
      const std::vector<FeatureSignature>& features);

  bool empty() const { return conditions_.empty(); }
  // Whether a record with these values, in the order of the features, meets every condition. NaN is
  // within no bounds and equals nothing.
  bool Keeps(const std::vector<FeatureValue>& values) const;

 private:
  enum class Kind { kInt64, kFloat, kText };
  struct Test {
    size_t feature = 0;
    Kind kind = Kind::kInt64;
    std::vector<int64_t> in, not_in;  // sorted
    std::set<std::string> text_in, text_not_in;
    bool is_bounded = false;
    bool is_impossible = false;                 // for integers: no int64 lies within the bounds
    int64_t low = INT64_MIN, high = INT64_MAX;  // both included
    float float_low = 0, float_high = 0;
  };

  static void SetBounds(const v1::Condition& condition, Test& test);
  static bool KeepsInteger(const Test& test, int64_t value);
  static bool KeepsFloat(const Test& test, float value);
  static bool KeepsText(const Test& test, absl::string_view value);

  std::vector<Test> conditions_;
};

}  // namespace bulkhead
