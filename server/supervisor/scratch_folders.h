#ifndef BULKHEAD_SERVER_SUPERVISOR_SCRATCH_FOLDERS_H_
#define BULKHEAD_SERVER_SUPERVISOR_SCRATCH_FOLDERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {

// Folders on a disk in which workers with code of the user's may write: one for each worker,
// removed behind it.
//
//   FOLDER/NAME.lock   locked as long as the service lives
//   FOLDER/NAME/7      of one worker, which makes it: TMPDIR and HOME lie in it
//
// A thread removes what was given back, and looks at what the folders of living workers hold:
// nothing here but Open blocks for the disk. Open also removes what services left
// that were killed.
class ScratchFolders {
 public:
  // What a worker may hold in its folder: more ends it, at the next look. A single file is held to
  // SandboxOptions::max_file_bytes by the kernel.
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  static constexpr uint64_t kMostFiles = 10'000;

  // `folder` is made if need be; the services of one user may share it. `name` is this service's
  // alone. PERMISSION_DENIED and the like; FAILED_PRECONDITION when it lies in memory.
  static absl::StatusOr<std::unique_ptr<ScratchFolders>> Open(const std::string& folder,
                                                              const std::string& name);
  // Removes everything; waits for the disk for two seconds at most.
  ~ScratchFolders();
  ScratchFolders(const ScratchFolders&) = delete;
  ScratchFolders& operator=(const ScratchFolders&) = delete;

  class State;
  // A worker's, given back with the last copy.
  class Folder {
   public:
    Folder(std::shared_ptr<State> state, std::string path);
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::string& path() const { return path_; }
    // Whose files without a name count, too.
    void SetOwner(pid_t pid) { owner_ = pid; }
    // What the last look found: bytes, and files (folders among them).
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
  // A name for a folder that nobody has. Does not block.
  std::shared_ptr<Folder> Lend();
  // Has the thread look at what the folders hold, unless it has within a second. Does not block.
  void LookSoon();

 private:
  ScratchFolders(std::string folder, const std::string& lock_path, UniqueFd lock);

  const std::string folder_;  // FOLDER/NAME
  const UniqueFd lock_;
  const std::shared_ptr<State> state_;
  uint64_t next_ = 1;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_SCRATCH_FOLDERS_H_
