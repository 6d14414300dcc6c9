#ifndef BULKHEAD_SERVER_SOURCE_ROOTS_H_
#define BULKHEAD_SERVER_SOURCE_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "server/source/file.h"

namespace bulkhead {

// The folders under which data must lie, once all links are followed. Immutable, thread-safe.
class Roots {
 public:
  Roots() = default;
  // `roots` empty: every file is allowed. Roots are resolved once, here.
  explicit Roots(const google::protobuf::RepeatedPtrField<std::string>& roots);

  // `path`, with symbolic links resolved, if it lies under a root. PATH_NOT_ALLOWED
  // (PERMISSION_DENIED) when it does not; FILE_NOT_FOUND when there is no such file under one. Does
  // not tell what there is elsewhere. Where every file is allowed: `path`, unchecked.
  absl::StatusOr<std::string> Check(const std::string& path, absl::string_view name) const;

  // Opens the file that `path` leads to now: it lies under a root even if a link is put in
  // its place meanwhile. Errors: those of Check and of DataFile::Open.
  absl::StatusOr<DataFile> Open(const std::string& path, absl::string_view name) const;

 private:
  // `path` with symbolic links resolved, and the root that it lies under.
  struct Place {
    std::string resolved;
    std::string root;
  };
  absl::StatusOr<Place> Find(const std::string& path, absl::string_view name) const;
  // The root that `resolved` lies under; null: none.
  const std::string* RootOf(const std::string& resolved) const;
  // Whether what there is of `path`, which itself is not there, lies under a root.
  bool LeadsInside(std::string path) const;

  bool everything_ = true;
  std::vector<std::string> roots_;  // resolved, with a slash at the end
};

// Opens `relative`, a path without links, below the folder `root`; PATH_NOT_ALLOWED
// (PERMISSION_DENIED) where it has one after all, or leads out. Errors as DataFile::Open's. Without
// `ask_kernel`, or where openat2 is not available, the file is judged by where it lies once it is
// open. `root` is resolved and ends with a slash.
absl::StatusOr<DataFile> OpenBeneath(const std::string& root, const std::string& relative,
                                     absl::string_view name, bool ask_kernel = true);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_ROOTS_H_
