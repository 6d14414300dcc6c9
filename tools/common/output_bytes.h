#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/types.pb.h"

namespace bulkhead::tools {

// Calls `take` with the bytes of each output of a batch of `samples` that a pipeline of this
// process laid out in `memory`: the bytes that clients give, in their order, offsets of packed rows
// included.
void ForEachOutput(const v1::BatchSchema& schema, const std::byte* memory, uint64_t samples,
                   absl::FunctionRef<void(absl::string_view)> take);

}  // namespace bulkhead::tools
