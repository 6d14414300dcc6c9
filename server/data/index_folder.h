#ifndef BULKHEAD_SERVER_DATA_INDEX_FOLDER_H_
#define BULKHEAD_SERVER_DATA_INDEX_FOLDER_H_

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

// The files of the cache folder that hold indexes and selections. What others forged is not read,
// what is in use stays open whatever becomes of the folder, and what nobody has used for the
// longest time is removed when all of them are too large. Thread-safe; blocks for the disk, but for
// NoteDamaged. Several services may share the folder.
class IndexFolder {
 public:
  struct Config {
    std::string path;
    uint64_t most_bytes = 0;  // of all files together, but for those in use; 0: no bound
    uint64_t most_open = 0;   // descriptors that may be kept
  };

  explicit IndexFolder(Config config) : config_(std::move(config)) {}

  const std::string& path() const { return config_.path; }

  // The header of the file at `path`. Absent when there is none that is good: it is another user's,
  // or cut, or was found to be damaged.
  std::optional<IndexHeader> Find(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  // A file without a name, to be published. Makes the folder again when it is gone.
  absl::StatusOr<UniqueFd> Create() const;
  // Gives it its name, and takes the place of what had that before.
  absl::Status Publish(int fd, const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  // The file at `path` is not to be used again: its header looks good, or nobody would have.
  void NoteDamaged(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  // Opens files for as long as somebody holds what this returns. All of them, in their order, or
  // none: a data set may have more than this process may have open; its workers then open them by
  // their paths. INDEX_DAMAGED when one has just gone.
  absl::StatusOr<std::vector<SharedFd>> Open(const std::vector<std::string*>& paths)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes files, those first that nobody has used for the longest time, until the others are not
  // too large. `needed` and what is open stays.
  void Collect(const std::set<std::string>& needed) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool IsOpen(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether so many more may be kept open; forgets those that are not any more.
  bool MayOpen(size_t more) ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<const UniqueFd>> open_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> damaged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_DATA_INDEX_FOLDER_H_
