#ifndef BULKHEAD_TOOLS_COMMON_NEAR_PATH_H_
#define BULKHEAD_TOOLS_COMMON_NEAR_PATH_H_

#include <string>

namespace bulkhead::tools {

// What to say of a path that cannot be opened: "did you mean train.yaml?", where its folder has
// something that is called nearly so; else "is the path right, and may you read it?".
std::string NearPath(const std::string& path);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_NEAR_PATH_H_
