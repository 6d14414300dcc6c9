#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/durations/duration_buckets.h"
#include "server/supervisor/trace/stream_trace.h"

namespace bulkhead {

// Who waits for whom between a stream's workers and its trainer, and how its batches go out. From
// the first call of Waits on, one of the two waits at any moment, so that both times together are
// the time since then. The side that sends batches writes it; a status reads it. Thread-safe.
class StreamMeter {
 public:
  enum class Waiting {
    kForWorkers,  // the client could take a batch, and none is ready
    kForTrainer,  // the client holds all that it may hold, or leaves a ready batch
  };

  // It is so from now on. Times are those of MonotonicNanos().
  void Waits(Waiting waiting, int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on the workers have, or have not, nothing to do for the stream until bytes of an
  // object store are here.
  void SetFetching(bool fetching, int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // The batch goes to the client; and comes back.
  void CountBatch(const v1::BatchHeader& batch, int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteReturned(uint64_t sequence) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (trace_.on()) trace_.Note(v1::TraceMoment::KIND_BATCH_RETURNED, sequence);
  }

  // From now on all this is noted there. NoteWait notes who waits now.
  void SetTrace(StreamTrace trace) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    trace_ = std::move(trace);
  }
  void NoteWait() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (since_ns_ != 0) NoteWaitLocked();
  }

  // How long the client has waited for workers so far, in seconds.
  double WaitedForWorkers(int64_t now_ns) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return WaitedForWorkersLocked(now_ns);
  }
  // Fills in the waits, samples and gaps.
  void Describe(int64_t now_ns, v1::StreamStatus& status) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  int64_t& Sum(Waiting waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting == Waiting::kForWorkers ? for_workers_ns_ : for_trainer_ns_;
  }

  double WaitedForWorkersLocked(int64_t now_ns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the time up to now.
  void Count(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteWaitLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  StreamTrace trace_ ABSL_GUARDED_BY(mutex_);
  Waiting waiting_ ABSL_GUARDED_BY(mutex_) = Waiting::kForWorkers;
  int64_t since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: not begun
  int64_t for_workers_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t for_trainer_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool fetching_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t for_objects_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // of for_workers_ns_
  int64_t last_batch_ns_ ABSL_GUARDED_BY(mutex_) = 0;   // 0: none yet
  int64_t gaps_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  DurationCounts gaps_ ABSL_GUARDED_BY(mutex_) = {};
  uint64_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t samples_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bulkhead
