#ifndef BULKHEAD_SERVER_PIPELINE_VALUES_ASIDE_H_
#define BULKHEAD_SERVER_PIPELINE_VALUES_ASIDE_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "server/image/image.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// Values of a sample that are put aside, with what they are views of, while another sample takes
// the place of the first in all memory that stages work in. Reused from sample to sample; of one
// thread.
class ValuesAside {
 public:
  // Copies those of `values` that `features` names, and all that they point to.
  void Put(const std::vector<Value>& values, absl::Span<const size_t> features);
  // Makes them views of the copies, which stay until the next Put.
  void Restore(std::vector<Value>& values, absl::Span<const size_t> features) const;
  // Of what was put aside last.
  size_t bytes() const { return bytes_; }

 private:
  std::vector<Value> aside_;
  ScratchBuffer memory_;
  size_t bytes_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_VALUES_ASIDE_H_
