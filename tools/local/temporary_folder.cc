#include "tools/local/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead::tools {

namespace fs = std::filesystem;

absl::Status Unwritable(const std::string& path, int error) {
  return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                   absl::StrCat(path, ": ", std::generic_category().message(error),
                                "; set TMPDIR to a folder that can be written to"),
                   {{"file", path}});
}

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make(const std::string& name) {
  std::error_code no_folder;
  const fs::path temporary = fs::temp_directory_path(no_folder);
  std::string path =
      ((no_folder ? fs::path("/tmp") : temporary) / absl::StrCat(name, "-XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) return Unwritable(path, errno);
  TemporaryFolder folder;
  folder.path_ = std::move(path);
  return folder;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

}  // namespace bulkhead::tools
