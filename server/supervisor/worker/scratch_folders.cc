#include "server/supervisor/worker/scratch_folders.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/os/monotonic_wait.h"
#include "server/os/process/thread.h"

namespace bulkhead {
namespace {

constexpr char kLockSuffix[] = ".lock";
constexpr absl::Duration kFolderLookInterval = absl::Seconds(1);
constexpr absl::Duration kEndPatience = absl::Seconds(2);

// Removes what killed services left, whose lock is free.
void RemoveLeftovers(const std::string& folder) {
  for (const std::string& file : NamesIn(folder)) {
    absl::string_view name = file;
    if (!absl::ConsumeSuffix(&name, kLockSuffix)) continue;
    const std::string lock_path = absl::StrCat(folder, "/", file);
    const auto lock = OpenFile(lock_path, /*writable=*/true);
    if (!lock.ok() || !TryLockFile(lock->get()) || !IsFileAt(lock->get(), lock_path)) continue;
    RemoveTree(absl::StrCat(folder, "/", name));
    RemoveFile(lock_path);
  }
}

}  // namespace

// The thread's state; outlives ScratchFolders if the disk does not answer.
class ScratchFolders::State {
 public:
  State(std::string folder, std::string lock_path)
      : folder_(std::move(folder)), lock_path_(std::move(lock_path)) {}

  void Add(Folder* folder) {
    absl::MutexLock lock(&mutex_);
    live_.insert(folder);
  }
  void GiveBack(Folder* folder) {
    absl::MutexLock lock(&mutex_);
    live_.erase(folder);
    removals_.push_back(folder->path());
  }
  void LookSoon() {
    absl::MutexLock lock(&mutex_);
    const int64_t now_ns = MonotonicNanos();
    if (absl::Nanoseconds(now_ns - looked_ns_) < kFolderLookInterval) return;
    looked_ns_ = now_ns;
    look_ = true;
  }
  // Makes the thread remove everything and end; waits for that.
  void End() {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    const auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_; };
    AwaitFor(mutex_, ended, kEndPatience);
  }

  void Run() {
    while (true) {
      std::vector<std::string> removals;
      bool look = false;
      {
        absl::MutexLock lock(&mutex_);
        const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return ending_ || look_ || !removals_.empty();
        };
        mutex_.Await(absl::Condition(&has_work));
        removals.swap(removals_);
        look = std::exchange(look_, false);
        if (ending_) break;
      }
      for (const std::string& path : removals) RemoveTree(path);
      if (look) Look();
    }
    RemoveTree(folder_);
    RemoveFile(lock_path_);
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

 private:
  void Look() {
    std::vector<std::pair<std::string, pid_t>> folders;
    {
      absl::MutexLock lock(&mutex_);
      for (Folder* const folder : live_) folders.emplace_back(folder->path_, folder->owner_);
    }
    for (const auto& [path, owner] : folders) {
      TreeSize size = SizeOfTree(path, kMostFiles + 1);
      if (owner != 0) size.bytes += NamelessBytes(owner, path);
      absl::MutexLock lock(&mutex_);
      for (Folder* const folder : live_) {
        if (folder->path_ != path) continue;
        folder->bytes_ = size.bytes;
        folder->files_ = size.files;
      }
    }
  }

  const std::string folder_;  // the service's folder
  const std::string lock_path_;
  absl::Mutex mutex_;
  std::set<Folder*> live_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> removals_ ABSL_GUARDED_BY(mutex_);
  bool look_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t looked_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

ScratchFolders::Folder::Folder(std::shared_ptr<State> state, std::string path)
    : state_(std::move(state)), path_(std::move(path)) {
  state_->Add(this);
}

ScratchFolders::Folder::~Folder() { state_->GiveBack(this); }

absl::StatusOr<std::unique_ptr<ScratchFolders>> ScratchFolders::Open(const std::string& folder,
                                                                     const std::string& name) {
  BULKHEAD_RETURN_IF_ERROR(MakeDirectories(folder));
  BULKHEAD_RETURN_IF_ERROR(CheckPrivateFolder(folder));
  if (IsInMemory(folder)) {
    return absl::FailedPreconditionError(absl::StrCat(folder, " is in memory, not on a disk"));
  }
  RemoveLeftovers(folder);
  const std::string own = absl::StrCat(folder, "/", name);
  const std::string lock_path = own + kLockSuffix;
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd lock, CreateUnnamedFile(folder));
  // Locked before it is named, so that no other service takes it for a leftover.
  if (!TryLockFile(lock.get())) return absl::InternalError("a new lock file is already locked");
  BULKHEAD_RETURN_IF_ERROR(NameFile(lock.get(), lock_path));
  BULKHEAD_RETURN_IF_ERROR(MakeNewDirectory(own));
  std::unique_ptr<ScratchFolders> folders(new ScratchFolders(own, lock_path, std::move(lock)));
  BULKHEAD_RETURN_IF_ERROR(StartDetachedThread([state = folders->state_] { state->Run(); }));
  return folders;
}

ScratchFolders::ScratchFolders(std::string folder, const std::string& lock_path, UniqueFd lock)
    : folder_(std::move(folder)),
      lock_(std::move(lock)),
      state_(std::make_shared<State>(folder_, lock_path)) {}

ScratchFolders::~ScratchFolders() { state_->End(); }

void ScratchFolders::LookSoon() { state_->LookSoon(); }

std::shared_ptr<ScratchFolders::Folder> ScratchFolders::Lend() {
  return std::make_shared<Folder>(state_, absl::StrCat(folder_, "/", next_++));
}

}  // namespace bulkhead
