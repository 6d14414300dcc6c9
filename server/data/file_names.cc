#include "server/data/file_names.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace bulkhead {
namespace {

// A backslash escapes a wildcard.
bool HasWildcard(absl::string_view component) {
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\') {
      ++i;
    } else if (absl::string_view("*?[").find(component[i]) != absl::string_view::npos) {
      return true;
    }
  }
  return false;
}

std::vector<absl::string_view> Components(absl::string_view path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

}  // namespace

std::string NameFromPattern(absl::string_view pattern, absl::string_view path) {
  const std::vector<absl::string_view> pieces = Components(pattern);
  // Wildcards match no slash, so path and pattern have the same number of components from there on.
  // Before it they may differ, because a relative pattern omits its starting folder.
  const auto wild = std::find_if(pieces.begin(), pieces.end(), HasWildcard);
  const size_t kept = std::max<size_t>(1, pieces.end() - wild);
  const std::vector<absl::string_view> found = Components(path);
  std::vector<absl::string_view> name(found.end() - std::min(kept, found.size()), found.end());
  std::erase(name, ".");
  return absl::StrJoin(name, "/");
}

void NameAndSort(std::vector<FoundFile>& files) {
  std::set<absl::string_view> names;
  for (const FoundFile& found : files) names.insert(found.file.name());
  const bool collide = names.size() < files.size();
  std::ranges::sort(files, {}, [collide](const FoundFile& found) {
    return std::tuple(collide ? found.pattern : 0, absl::string_view(found.file.name()),
                      absl::string_view(found.file.path()));
  });
  if (!collide) return;
  for (FoundFile& found : files) {
    found.file.set_name(absl::StrCat(found.pattern, ":", found.file.name()));
  }
}

}  // namespace bulkhead
