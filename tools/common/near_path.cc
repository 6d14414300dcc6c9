#include "tools/common/near_path.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/base/nearest_name.h"
#include "server/os/files/filesystem.h"

namespace bulkhead::tools {

std::string NearPath(const std::string& path) {
  const std::filesystem::path typed(path);
  const std::filesystem::path folder = typed.parent_path();
  const std::string name = typed.filename().string();
  std::error_code error;
  const bool exists = std::filesystem::exists(typed, error);
  const std::string near =
      exists || error ? "" : NearestName(name, NamesIn(folder.empty() ? "." : folder.string()));
  return near.empty() ? "is the path right, and may you read it?"
                      : absl::StrCat("did you mean ", (folder / near).string(), "?");
}

}  // namespace bulkhead::tools
