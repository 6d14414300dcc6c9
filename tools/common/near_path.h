#pragma once

#include <string>

namespace bulkhead::tools {

// What to say of a path that cannot be opened: "did you mean train.yaml?", where its folder has
// something that is called nearly so; else "is the path right, and may you read it?".
std::string NearPath(const std::string& path);

}  // namespace bulkhead::tools
