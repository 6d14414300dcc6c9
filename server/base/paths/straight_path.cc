#include "server/base/paths/straight_path.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace bulkhead {

std::string StraightPath(absl::string_view path,
                         absl::FunctionRef<std::string(const std::string&)> place) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  if (std::find(parts.begin(), parts.end(), "..") == parts.end()) return std::string(path);
  std::string straight;
  for (const absl::string_view part : parts) {
    if (part == ".") continue;
    if (part != "..") {
      absl::StrAppend(&straight, "/", part);
    } else if (!straight.empty()) {
      if (std::string found = place(straight); !found.empty()) straight = std::move(found);
      straight.resize(straight.rfind('/'));
    }
  }
  return straight.empty() ? "/" : straight;
}

}  // namespace bulkhead
