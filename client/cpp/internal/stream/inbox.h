#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/types.pb.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/batch/batch_data.h"
#include "client/cpp/internal/batch/held_batches.h"
#include "client/cpp/internal/stream/stream_config.h"

namespace bulkhead::client_internal {

// Holds what arrived on a stream until a caller takes it, and counts what callers still hold.
//
//   reader thread:  Tell … Open ─▶ (Begin ─▶ Put)* ─▶ End          Fail: the first error stays
//   callers:        WaitOpened  ─▶ Next …                          Close: ends every wait
//   batch dropped:  Release ─▶ its credit goes back, unless it lay in a slot
//
// Thread-safe.
class Inbox {
 public:
  // How much may have arrived without being released.
  struct Limits {
    uint64_t batches = 0;
    uint64_t bytes = 0;        // one batch is always allowed
    uint64_t batch_bytes = 0;  // of a whole batch
    bool slots = false;        // each batch lies in a slot: only their number is limited
  };

  // `config` must outlive the inbox. `give_back(n)` returns the credits of all batches up to n. It
  // is called in order and under the inbox's lock, so it must not call the inbox.
  Inbox(const StreamConfig& config, std::function<void(uint64_t through_sequence)> give_back);

  // The next functions are for the reader thread. `seen` is equal for two reports when the service
  // made no progress between them.
  void Tell(LoaderProgress progress, std::string seen) ABSL_LOCKS_EXCLUDED(mutex_);
  void Open(const Limits& limits, const v1::Cursor& cursor) ABSL_LOCKS_EXCLUDED(mutex_);
  // INTERNAL (PROTOCOL_VIOLATION) when no other batch may begin to arrive.
  absl::Status MayBegin() const ABSL_LOCKS_EXCLUDED(mutex_);
  // A batch begins to arrive; `sequence` as on the wire.
  void Begin(uint64_t sequence, uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // INTERNAL (PROTOCOL_VIOLATION) when more came than there is credit for.
  absl::Status CheckCredits() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The batch came whole; `mark` is the first sequence number, on the wire, that did not.
  void Put(std::unique_ptr<BatchData> batch, uint64_t mark) ABSL_LOCKS_EXCLUDED(mutex_);
  // What the workers are doing; holds until the next batch arrives.
  void SetActivity(const std::string& activity) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on batches are made without the records that `cursor` lists as quarantined.
  void SetQuarantined(const v1::Cursor& cursor) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The stream is over with `status`, unless it failed before.
  void End(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops the batches that nobody took: the next stream brings them again. Returns them.
  std::deque<std::unique_ptr<BatchData>> ForgetUnread() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for Open. DEADLINE_EXCEEDED when the service made no progress for `silence`.
  absl::Status WaitOpened(absl::Duration silence,
                          const std::function<void(const LoaderProgress&)>& on_progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `left` is what is left of the time that the caller `asked` for.
  absl::StatusOr<std::optional<Batch>> Next(absl::Duration left, absl::Duration asked)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The batch was destroyed; `sequence` as on the wire.
  void Release(uint64_t sequence) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waiting callers get LOADER_CLOSED. Returns the batches that nobody took.
  std::deque<std::unique_ptr<BatchData>> Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether it was closed or has failed: from then on this side ends the call.
  bool given_up() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Since it was made.
  absl::Duration age() const { return since_start_.elapsed(); }
  // Its age when the service last made progress with opening the stream; 0 if it made none.
  absl::Duration preparing_time() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How it failed or ended; OK while it did not, or ended as it should.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What the workers were doing at the last heartbeat, if no batch has come since.
  std::string activity() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The state after all batches that arrived whole, and the number of the first one that did not.
  v1::Cursor resume_cursor() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t next_sequence() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets ready_batches and held_slots.
  void AddTo(LoaderStats* stats) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The result of Next, if it is known by now.
  std::optional<absl::StatusOr<std::optional<Batch>>> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether nothing can come because the program holds all that may be out.
  bool Exhausted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string ExhaustedText() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DeadlineExceeded(absl::Duration asked) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StreamConfig& config_;
  const std::function<void(uint64_t)> give_back_;
  const Stopwatch since_start_;

  mutable absl::Mutex mutex_;
  Signal changed_;  // of what a caller may wait for
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // status_ says how
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<LoaderProgress> progress_ ABSL_GUARDED_BY(mutex_);  // the newest, not yet told
  std::string progress_seen_ ABSL_GUARDED_BY(mutex_);
  absl::Duration preparing_time_ ABSL_GUARDED_BY(mutex_);
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<BatchData>> ready_ ABSL_GUARDED_BY(mutex_);
  // For each of them, how a stream goes on with it: resume_cursor_ and next_sequence_.
  std::deque<std::pair<v1::Cursor, uint64_t>> before_ ABSL_GUARDED_BY(mutex_);
  v1::Cursor resume_cursor_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_);
  bool arriving_ ABSL_GUARDED_BY(mutex_) = false;  // a batch is in held_, not yet in ready_
  std::string activity_ ABSL_GUARDED_BY(mutex_);
  HeldBatches held_ ABSL_GUARDED_BY(mutex_);  // begun ones included
};

}  // namespace bulkhead::client_internal
