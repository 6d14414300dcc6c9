#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/measure/memory_watch.h"

namespace bulkhead::tools {

// What a chart in a terminal shows of one run.
struct MemoryChart {
  int width = 72;   // columns of the plot
  int height = 12;  // rows
  uint64_t quota_bytes = 0;
};

// The memory of worker ('#', the highest in each column), trainer ('t') and supervisor ('s') over
// time, with the quota as a line of '='. `title` stands above. Lines end with a newline.
std::string DrawMemory(const MemoryChart& chart, const std::string& title,
                       const std::vector<MemoryWatch::Look>& looks);

}  // namespace bulkhead::tools
