#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "server/source/file.h"

namespace bulkhead {

// The folders below which data must be, after all links are followed. Immutable, thread-safe.
class Roots {
 public:
  Roots() = default;
  // `roots` empty: every file is allowed. Roots are resolved once, here.
  explicit Roots(const google::protobuf::RepeatedPtrField<std::string>& roots);

  // `path`, with symbolic links resolved, if it is under a root. PATH_NOT_ALLOWED
  // (PERMISSION_DENIED) if it is not; FILE_NOT_FOUND if there is no such file under one. Does not
  // reveal what exists elsewhere. If every file is allowed: `path`, unchecked.
  absl::StatusOr<std::string> Check(const std::string& path, absl::string_view name) const;

  // Opens the file that `path` leads to now. It is under a root even if a link replaces it at the
  // same time. Errors: those of Check and of DataFile::Open.
  absl::StatusOr<DataFile> Open(const std::string& path, absl::string_view name) const;

 private:
  // `path` with symbolic links resolved, and its root.
  struct Place {
    std::string resolved;
    std::string root;
  };
  absl::StatusOr<Place> Find(const std::string& path, absl::string_view name) const;
  // The root that `resolved` is under; null: none.
  const std::string* RootOf(const std::string& resolved) const;
  // Whether the existing part of `path`, which does not exist itself, is under a root.
  bool LeadsInside(std::string path) const;

  bool everything_ = true;
  std::vector<std::string> roots_;  // resolved, with a slash at the end
};

// Opens `relative`, a path without links, below the folder `root`; PATH_NOT_ALLOWED
// (PERMISSION_DENIED) if it has one after all, or leads out. Errors: those of DataFile::Open.
// Without `ask_kernel`, or if openat2 is not available, the place of the open file decides. `root`
// is resolved and ends with a slash.
absl::StatusOr<DataFile> OpenBeneath(const std::string& root, const std::string& relative,
                                     absl::string_view name, bool ask_kernel = true);

}  // namespace bulkhead
