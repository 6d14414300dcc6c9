#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/json.h"
#include "tools/trace/timeline.h"

namespace bulkhead::tools {

// How much a time line has, and where its workers' time went.
struct TraceSummary {
  // A stage, or waiting; its part of the time of all threads together.
  struct Share {
    std::string name;
    double share = 0;
    double longest_seconds = 0;
  };
  double seconds = 0;
  uint64_t streams = 0;
  uint64_t workers = 0;
  uint64_t batches = 0;  // handed out
  uint64_t leases = 0;
  uint64_t samples = 0;
  uint64_t dropped = 0;
  std::vector<Share> shares;  // the largest first
};
TraceSummary SummarizeTimeline(const Timeline& timeline);

// For people: several lines, each with a newline.
std::string SummaryText(const TraceSummary& summary);
JsonObject SummaryJson(const TraceSummary& summary);

}  // namespace bulkhead::tools
