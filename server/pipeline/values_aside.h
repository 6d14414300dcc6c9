#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "server/image/image.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// Copies of a sample's values and the memory that they view, kept while another sample uses the
// stages' memory. Reused from sample to sample; used by one thread.
class ValuesAside {
 public:
  // Copies the `values` of `features`, and the memory that they point to.
  void Put(const std::vector<Value>& values, absl::Span<const size_t> features);
  // Sets the values to views of the copies, which stay until the next Put.
  void Restore(std::vector<Value>& values, absl::Span<const size_t> features) const;
  // The size of the copies of the last Put.
  size_t bytes() const { return bytes_; }

 private:
  std::vector<Value> aside_;
  ScratchBuffer memory_;
  size_t bytes_ = 0;
};

}  // namespace bulkhead
