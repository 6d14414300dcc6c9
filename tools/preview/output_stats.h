#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bulkhead/batch.h"
#include "tools/common/json.h"
#include "tools/common/tensor_stats.h"

namespace bulkhead::tools {

// The values of every output of several batches: least, largest, mean.
class OutputStats {
 public:
  // Of one output whose values are known already.
  static OutputStats Of(const std::string& name, const std::string& type, const TensorStats& stats);

  // The first `samples` of a batch, which has the outputs of those before it.
  void Add(const Batch& batch, uint64_t samples);

  // "image float32 [3,224,224]  min -2.1  max 2.6  mean 0.03"; empty for an output that there is
  // not.
  std::string Describe(const std::string& name) const;
  // A line for each output, in their order.
  std::string DescribeAll() const;
  std::vector<JsonObject> Json() const;

 private:
  struct Output {
    std::string name;
    std::string type;
    TensorStats stats;
  };
  static std::string Line(const Output& output);

  std::vector<Output> outputs_;
};

}  // namespace bulkhead::tools
