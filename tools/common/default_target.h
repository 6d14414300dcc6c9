#ifndef BULKHEAD_TOOLS_COMMON_DEFAULT_TARGET_H_
#define BULKHEAD_TOOLS_COMMON_DEFAULT_TARGET_H_

#include <string>

namespace bulkhead::tools {

// Where a service of this user listens that was started without --listen
// (server/app/server_config.cc).
std::string DefaultTarget();

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_DEFAULT_TARGET_H_
