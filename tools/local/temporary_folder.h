#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead::tools {

// A new folder for this user alone that goes with its object. That of a process that was killed
// goes when another one makes its own: each is locked by its owner, as long as that lives.
class TemporaryFolder {
 public:
  // Its name begins with "bulkhead-tool-NAME-". It lies in `parent`; empty: in TMPDIR or /tmp.
  // Error: FILE_UNREADABLE when none can be made.
  static absl::StatusOr<TemporaryFolder> Make(const std::string& name, std::string parent = "");
  TemporaryFolder() = default;  // none
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd lock_;
};

// FILE_UNREADABLE for a file or folder that cannot be made there, with the system's error number.
absl::Status Unwritable(const std::string& path, int error);

}  // namespace bulkhead::tools
