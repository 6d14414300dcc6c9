#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/source.h"
#include "server/source/tfrecord/feature_list.h"
#include "server/spec/signature.h"

namespace bulkhead {

// What the steps of a feature list must be.
struct StepTarget {
  const FeatureSignature& signature;
  FeatureList::Kind kind = FeatureList::Kind::kNone;
  uint64_t step_values = 1;  // of one step
  uint64_t max_bytes = 0;    // of a byte string
  bool is_length = false;    // of the byte strings, not they themselves
};

// Reads the tf.FeatureList message(s) in `messages`, one tf.Feature a step, into `buffer`; several
// messages count as one after the other, as protobuf merges them. The bound of steps is checked
// before memory is asked for. `value` is a view of `buffer`; `steps` becomes the number of steps.
// `list` is memory. Sample errors: MALFORMED_EXAMPLE, WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND.
absl::Status ReadSteps(const absl::InlinedVector<absl::string_view, 1>& messages,
                       const StepTarget& target, FeatureList& list, ByteBuffer& buffer,
                       FeatureValue& value, uint64_t& steps);

// The only byte string of step `step` < `steps`, of which there must be exactly so many. A view of
// the messages. The same sample errors.
absl::StatusOr<absl::string_view> ReadStepString(
    const absl::InlinedVector<absl::string_view, 1>& messages, uint64_t steps, uint64_t step,
    FeatureList& list);

}  // namespace bulkhead
