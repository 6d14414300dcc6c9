#ifndef BULKHEAD_TOOLS_STATUS_STATUS_TEXT_H_
#define BULKHEAD_TOOLS_STATUS_STATUS_TEXT_H_

#include <string>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::tools {

// A service's status for people: containment, workers with the stage that holds most, streams,
// planned replacements and deaths, the newest first. Ends with a newline.
std::string StatusText(const v1::GetStatusResponse& status);

// One line for a service among others, without a newline.
std::string ServiceLine(const std::string& target, const v1::GetStatusResponse& status);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_STATUS_STATUS_TEXT_H_
