#ifndef BULKHEAD_TOOLS_LOCAL_TEMPORARY_FOLDER_H_
#define BULKHEAD_TOOLS_LOCAL_TEMPORARY_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bulkhead::tools {

// A new folder for this user alone, in TMPDIR or /tmp, that goes with its object.
class TemporaryFolder {
 public:
  // `name` begins its name. Error: FILE_UNREADABLE when none can be made.
  static absl::StatusOr<TemporaryFolder> Make(const std::string& name);
  TemporaryFolder() = default;  // none
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// FILE_UNREADABLE for a file or folder that cannot be made there, with the system's error number.
absl::Status Unwritable(const std::string& path, int error);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_LOCAL_TEMPORARY_FOLDER_H_
