#pragma once

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// Normalize for the order of one source: fills in defaults, adds mistakes to `problems`.
void NormalizeOrder(v1::Order& order, SpecProblems& problems);

}  // namespace bulkhead
