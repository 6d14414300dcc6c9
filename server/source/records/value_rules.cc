#include "server/source/records/value_rules.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {

uint64_t RowElements(const FeatureSignature& signature) {
  uint64_t elements = 1;
  for (size_t i = signature.variable ? 1 : 0; i < signature.shape.size(); ++i) {
    elements *= static_cast<uint64_t>(signature.shape[i]);
  }
  return elements;
}

absl::StatusOr<uint64_t> CountRows(uint64_t values, uint64_t row_values,
                                   const FeatureSignature& signature) {
  if (signature.variable ? values % row_values != 0 : values != row_values) {
    return SampleError(reason::kWrongShape,
                       absl::StrCat("the record holds ", values, " values, the spec's shape needs ",
                                    signature.variable ? "a multiple of " : "", row_values));
  }
  if (!signature.variable) return 1;
  BULKHEAD_RETURN_IF_ERROR(CheckRowBound(values / row_values, signature));
  return values / row_values;
}

absl::Status CheckRowBound(uint64_t rows, const FeatureSignature& signature) {
  if (rows <= static_cast<uint64_t>(signature.shape[0])) return absl::OkStatus();
  return SampleError(reason::kOverBound,
                     absl::StrCat("the record holds ", rows, " rows, max_count is ",
                                  signature.shape[0], "; raise max_count to take it"));
}

absl::Status CheckStringBound(uint64_t size, uint64_t max_bytes) {
  if (max_bytes == 0 || size <= max_bytes) return absl::OkStatus();
  return SampleError(reason::kOverBound,
                     absl::StrCat("the string has ", size, " bytes, max_bytes is ", max_bytes));
}

}  // namespace bulkhead
