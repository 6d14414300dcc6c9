#pragma once

#include <string>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// The paths of a source's indexes and selections, in the order in which their descriptors are sent
// to a worker.
std::vector<std::string*> IndexPaths(internal::v1::ResolvedSource& source);

}  // namespace bulkhead
