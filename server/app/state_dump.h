#ifndef BULKHEAD_SERVER_APP_STATE_DUMP_H_
#define BULKHEAD_SERVER_APP_STATE_DUMP_H_

#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// Streams, workers, records and workers' deaths that a dump lists; of the others it says how many
// there are.
inline constexpr int kMostDumped = 64;

// What the service is doing, as lines for its log: budget, streams with their slots, workers with
// their leases and what their threads are at, the last deaths.
std::vector<std::string> StateDump(const v1::GetStatusResponse& status);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_STATE_DUMP_H_
