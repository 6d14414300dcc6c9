#pragma once

#include <string>

#include "tools/common/json.h"
#include "tools/measure/leak.h"

namespace bulkhead::tools {

// The result of `bench leak`. Names are stable: scripts read them.
JsonObject LeakJson(const LeakReport& report, const LeakOptions& options);

// The same for people, with the memory curves of both runs; ends with a newline.
std::string LeakText(const LeakReport& report, const LeakOptions& options);

}  // namespace bulkhead::tools
