#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace bulkhead {

// Limits the damage of storage that does not answer. A thread in such a call cannot be woken, so
// others check how long it has been there, and the number of threads in such calls is limited.
//
// A thread that others wait for is watched while it has a Scope. The functions of filesystem.h that
// take a path make a StorageCall each; on threads without a Scope it has no effect.
//
//   opening thread: Scope ─▶ StatFile(path) ─▶ StorageCall ─▶ kernel
//   timer: Caller::Stalled ─▶ STORAGE_STALLED, with the path
//
// Thread-safe.
class StorageWatch {
 public:
  struct Config {
    uint32_t most_calls = 16;                     // of all watched threads together
    absl::Duration patience = absl::Seconds(30);  // for one call, and to wait for its turn
  };

  explicit StorageWatch(Config config) : config_(config) {}

  // What one thread is doing.
  class Caller {
   public:
    // UNAVAILABLE (STORAGE_STALLED), with the path, if the thread's current call takes too long.
    // The thread is then lost until the storage answers.
    absl::Status Stalled() const ABSL_LOCKS_EXCLUDED(mutex_);

   private:
    friend class StorageWatch;
    friend class StorageCall;
    mutable absl::Mutex mutex_;
    std::string path_ ABSL_GUARDED_BY(mutex_);  // empty: in no call
    int64_t since_ns_ ABSL_GUARDED_BY(mutex_) = 0;
    absl::Duration patience_ ABSL_GUARDED_BY(mutex_);
    StorageWatch* watch_ = nullptr;  // used by the thread itself
  };

  // Watches this thread's calls during its lifetime. `watch` must outlive it.
  class Scope {
   public:
    Scope(StorageWatch* watch, std::shared_ptr<Caller> caller);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const std::shared_ptr<Caller> caller_;
  };

 private:
  friend class StorageCall;
  struct Call {
    std::string path;
    int64_t since_ns = 0;
  };

  // Waits for the call's turn. UNAVAILABLE (STORAGE_STALLED) if that does not come in time.
  absl::Status Begin(const std::string& path, std::list<Call>::iterator& call)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void End(std::list<Call>::iterator call) ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  absl::Mutex mutex_;
  std::list<Call> calls_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

// Marks a call of this thread that may block on storage, during its lifetime. No effect on an
// unwatched thread; inside another StorageCall it is part of that.
class StorageCall {
 public:
  explicit StorageCall(const std::string& path);
  ~StorageCall();
  StorageCall(const StorageCall&) = delete;
  StorageCall& operator=(const StorageCall&) = delete;

  // If not OK, the call must not begin.
  const absl::Status& status() const { return status_; }

 private:
  StorageWatch::Caller* caller_ = nullptr;  // null: not watched
  bool begun_ = false;
  std::list<StorageWatch::Call>::iterator call_;
  absl::Status status_;
};

}  // namespace bulkhead
