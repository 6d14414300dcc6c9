#ifndef BULKHEAD_TOOLS_BENCH_LEAK_REPORT_H_
#define BULKHEAD_TOOLS_BENCH_LEAK_REPORT_H_

#include <string>

#include "tools/bench/leak.h"
#include "tools/common/json.h"

namespace bulkhead::tools {

// The result of `bench leak`. Names are stable: scripts read them.
JsonObject LeakJson(const LeakReport& report, const LeakOptions& options);

// The same for people, with the memory curves of both runs; ends with a newline.
std::string LeakText(const LeakReport& report, const LeakOptions& options);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_BENCH_LEAK_REPORT_H_
