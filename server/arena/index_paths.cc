#include "server/arena/index_paths.h"

namespace bulkhead {

std::vector<std::string*> IndexPaths(internal::v1::ResolvedSource& source) {
  std::vector<std::string*> paths;
  for (internal::v1::ResolvedFile& file : *source.mutable_files()) {
    if (!file.index_path().empty()) paths.push_back(file.mutable_index_path());
    if (!file.selection_path().empty()) paths.push_back(file.mutable_selection_path());
  }
  for (internal::v1::ResolvedSource& mixed : *source.mutable_mixed()) {
    const std::vector<std::string*> more = IndexPaths(mixed);
    paths.insert(paths.end(), more.begin(), more.end());
  }
  return paths;
}

}  // namespace bulkhead
