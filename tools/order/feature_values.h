#ifndef BULKHEAD_TOOLS_ORDER_FEATURE_VALUES_H_
#define BULKHEAD_TOOLS_ORDER_FEATURE_VALUES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/source/source.h"

namespace bulkhead::tools {

// One numeric feature of the records of one source or several, which count through all of them,
// read one by one: its first element. Not thread-safe.
class FeatureValues {
 public:
  // SPEC_INVALID when one of `sources` has no feature of that name, or it is not a number.
  static absl::StatusOr<FeatureValues> Create(std::vector<std::unique_ptr<Source>> sources,
                                              const std::string& name);

  // Not a number where the record has an empty list. Errors: those of Source::Read.
  absl::StatusOr<double> At(uint64_t record);

 private:
  struct Part {
    std::unique_ptr<Source> source;
    std::unique_ptr<ReadContext> context;
    size_t index = 0;  // of the feature
  };
  explicit FeatureValues(std::vector<Part> parts) : parts_(std::move(parts)) {}

  std::vector<Part> parts_;
  Record record_;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_ORDER_FEATURE_VALUES_H_
