#pragma once

#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The most streams, workers, records and deaths that a dump lists; it counts the others.
inline constexpr int kMostDumped = 64;

// The service's state as lines for its log: budget, streams with their slots, workers with their
// leases and what their threads are doing, the last deaths.
std::vector<std::string> StateDump(const v1::GetStatusResponse& status);

}  // namespace bulkhead
