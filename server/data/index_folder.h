#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/base/index_header.h"
#include "server/os/files/fd_parcel.h"

namespace bulkhead {

// The indexes and selections in the cache folder. Forged files are not read. Files in use stay open
// even if the folder is removed. When the total is too large, the least recently used files are
// removed. Thread-safe; blocks for the disk, except NoteDamaged. Several services may share the
// folder.
class IndexFolder {
 public:
  struct Config {
    std::string path;
    uint64_t most_bytes = 0;  // of all files not in use; 0: no limit
    uint64_t most_open = 0;   // descriptors kept open
  };

  explicit IndexFolder(Config config) : config_(std::move(config)) {}

  const std::string& path() const { return config_.path; }

  // The header of the file at `path`. Absent if the file is missing, cut, another user's, or known
  // to be damaged.
  std::optional<IndexHeader> Find(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  // An unnamed file, to be published. Makes the folder again if it is gone.
  absl::StatusOr<UniqueFd> Create() const;
  // Names the file `path`, and replaces a file of that name.
  absl::Status Publish(int fd, const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the file at `path` was found to be damaged, and not replaced since.
  bool IsDamaged(const std::string& path) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Never uses the file at `path` again, although its header looks valid.
  void NoteDamaged(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  // Opens files for as long as the result is held: all of them, in this order, or none. A data set
  // may have more files than this process may open; its workers then open them by path.
  // INDEX_DAMAGED if a file has vanished.
  absl::StatusOr<std::vector<SharedFd>> Open(const std::vector<std::string*>& paths)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes the least recently used files until the rest is small enough; keeps `needed` and open
  // files.
  void Collect(const std::set<std::string>& needed) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool IsOpen(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether `more` files may be kept open; forgets closed ones.
  bool MayOpen(size_t more) ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<const UniqueFd>> open_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> damaged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
