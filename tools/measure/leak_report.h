#ifndef BULKHEAD_TOOLS_MEASURE_LEAK_REPORT_H_
#define BULKHEAD_TOOLS_MEASURE_LEAK_REPORT_H_

#include <string>

#include "tools/common/json.h"
#include "tools/measure/leak.h"

namespace bulkhead::tools {

// The result of `bench leak`. Names are stable: scripts read them.
JsonObject LeakJson(const LeakReport& report, const LeakOptions& options);

// The same for people, with the memory curves of both runs; ends with a newline.
std::string LeakText(const LeakReport& report, const LeakOptions& options);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_MEASURE_LEAK_REPORT_H_
