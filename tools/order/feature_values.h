#ifndef BULKHEAD_TOOLS_ORDER_FEATURE_VALUES_H_
#define BULKHEAD_TOOLS_ORDER_FEATURE_VALUES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/source/source.h"

namespace bulkhead::tools {

// One numeric feature of a source's records, read one by one: its first element. Not thread-safe.
class FeatureValues {
 public:
  // SPEC_INVALID when `source` has no feature of that name, or it is not a number.
  static absl::StatusOr<FeatureValues> Create(std::unique_ptr<Source> source,
                                              const std::string& name);

  // Not a number where the record has an empty list. Errors: those of Source::Read.
  absl::StatusOr<double> At(uint64_t record);

 private:
  FeatureValues(std::unique_ptr<Source> source, size_t index);

  std::unique_ptr<Source> source_;
  std::unique_ptr<ReadContext> context_;
  Record record_;
  size_t index_;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_ORDER_FEATURE_VALUES_H_
