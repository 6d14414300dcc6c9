#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {

// Folders on a disk in which workers with user code may write, one per worker, removed after it
// ends.
//
//   FOLDER/NAME.lock   locked while the service lives
//   FOLDER/NAME/7      made by one worker; contains its TMPDIR and HOME
//
// A thread removes folders that were given back, and measures those of living workers. Only Open
// and the destructor block on the disk. Open also removes what killed services left.
class ScratchFolders {
 public:
  // Limits of a worker's folder; a worker found above one is ended. The kernel limits single files
  // to SandboxOptions::max_file_bytes.
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  static constexpr uint64_t kMostFiles = 10'000;

  // Makes `folder` if it does not exist; services of one user may share it. `name` is this
  // service's alone. PERMISSION_DENIED and the like; FAILED_PRECONDITION if it lies in memory.
  static absl::StatusOr<std::unique_ptr<ScratchFolders>> Open(const std::string& folder,
                                                              const std::string& name);
  // Removes everything; waits at most two seconds for the disk.
  ~ScratchFolders();
  ScratchFolders(const ScratchFolders&) = delete;
  ScratchFolders& operator=(const ScratchFolders&) = delete;

  class State;
  // One worker's folder, given back with its last copy.
  class Folder {
   public:
    Folder(std::shared_ptr<State> state, std::string path);
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::string& path() const { return path_; }
    // The process whose unnamed files count, too.
    void SetOwner(pid_t pid) { owner_ = pid; }
    // What the last look found, in bytes and in files (including folders).
    uint64_t bytes() const { return bytes_; }
    uint64_t files() const { return files_; }

   private:
    friend class State;
    const std::shared_ptr<State> state_;
    const std::string path_;
    std::atomic<pid_t> owner_{0};
    std::atomic<uint64_t> bytes_{0};
    std::atomic<uint64_t> files_{0};
  };
  // Returns an unused folder name. Does not block.
  std::shared_ptr<Folder> Lend();
  // Makes the thread measure the folders, at most once a second. Does not block.
  void LookSoon();

 private:
  ScratchFolders(std::string folder, const std::string& lock_path, UniqueFd lock);

  const std::string folder_;  // FOLDER/NAME
  const UniqueFd lock_;
  const std::shared_ptr<State> state_;
  uint64_t next_ = 1;
};

}  // namespace bulkhead
