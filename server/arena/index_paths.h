#ifndef BULKHEAD_SERVER_ARENA_INDEX_PATHS_H_
#define BULKHEAD_SERVER_ARENA_INDEX_PATHS_H_

#include <string>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// The paths of all indexes and selections of a source, in the order in which their descriptors are
// handed to a worker.
std::vector<std::string*> IndexPaths(internal::v1::ResolvedSource& source);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_ARENA_INDEX_PATHS_H_
