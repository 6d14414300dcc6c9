#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/fleet/assembly.h"
#include "client/cpp/internal/fleet/keepers.h"
#include "client/cpp/internal/stream/healing_stream.h"
#include "client/cpp/internal/stream/loader_stream.h"
#include "client/cpp/internal/stream/told_events.h"

namespace bulkhead::client_internal {

// One stream that several replicas of a service make. Asks each for a part of the batches, and
// hands them out in order.
//
//   reader of each replica's stream ──OnBatch──▶ Assembly, by number ──Next, in order──▶ trainer
//                                                Striping: who is asked for what
//   Keepers: open the replicas' streams, again when they were lost; watch which replicas there are
//
// A replica that is lost, or that cannot serve, is left out while others can; its batches are made
// by those. It comes back by itself. All replicas that make batches have the same quarantine set,
// the union of theirs: when it grows, batches that were not handed out are made again, and the
// other replicas' streams are opened again.
//
// With the mutex held no stream is called, but for Ask and for questions. Thread-safe. Its twin is
// client/python/bulkhead/_fleet/fleet_stream.py.
class FleetStream final : public LoaderStream {
 public:
  // Waits until replicas are ready; those that are late join later. Errors: those of the replicas,
  // when none can serve, and CURSOR_MISMATCH when they differ. `config` as for one service.
  static absl::StatusOr<std::unique_ptr<FleetStream>> Open(
      HealingStream::Config config, Replicas replicas, absl::Duration patience,
      const std::function<void(const LoaderProgress&)>& on_progress);
  ~FleetStream() override;

  absl::StatusOr<std::optional<Batch>> Next(absl::Duration deadline) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Close() override ABSL_LOCKS_EXCLUDED(mutex_);

  const StreamInfo& info() const override { return info_; }
  Transport transport() const override { return Transport::kGrpc; }
  std::string transport_reason() const override;
  // Of the first replica that makes batches.
  std::string boot_id() const override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t reconnects() const override ABSL_LOCKS_EXCLUDED(mutex_);
  LoaderStats stats() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  FleetStream(HealingStream::Config config, Replicas replicas, absl::Duration patience);

  // What the keepers call of their work.
  friend class Keepers;
  // How to open the member's stream.
  StreamConfig ConfigFor(Member* member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The member's stream is open. An error keeps it out; CANCELLED: it is to be opened again at
  // once.
  absl::Status Admit(const std::shared_ptr<Member>& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The member is no longer one of the replicas.
  void Dismiss(Member* member, const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There are more or fewer replicas.
  void NoteCount() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An attempt to open the member has failed.
  void NoteAway(Member* member, absl::Status error) ABSL_LOCKS_EXCLUDED(mutex_);
  // A replica gets on with preparing.
  void NoteProgress(const LoaderProgress& progress) ABSL_LOCKS_EXCLUDED(mutex_);
  // A warning for the program's log; it is told without the mutex.
  void Say(const std::string& text) ABSL_LOCKS_EXCLUDED(said_mutex_);
  void Tell() ABSL_LOCKS_EXCLUDED(mutex_, said_mutex_);

  absl::Status WaitOpened(absl::Duration patience,
                          const std::function<void(const LoaderProgress&)>& on_progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The result of Next, if it is known by now.
  std::optional<absl::StatusOr<std::optional<Batch>>> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What the replicas' readers call; nothing happens when the attempt is over.
  void OnBatch(Member* member, uint64_t attempt, std::unique_ptr<BatchData> batch)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLeftOut(Member* member, uint64_t attempt, const std::string& record)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd(Member* member, uint64_t attempt, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Assembly::Members Here() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives up when no replica is left for too long.
  void Judge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The member leaves out records that the others do not: from now on all do.
  void AdoptQuarantine(const Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HealingStream::Config config_;
  StreamInfo info_;  // set by Open
  ToldEvents told_;

  mutable absl::Mutex mutex_;
  Signal came_;
  Assembly assembly_ ABSL_GUARDED_BY(mutex_);
  std::optional<LoaderProgress> news_ ABSL_GUARDED_BY(mutex_);
  Stopwatch moved_ ABSL_GUARDED_BY(mutex_);  // since something got on with opening
  std::optional<Stopwatch> lost_since_ ABSL_GUARDED_BY(mutex_);  // since when no replica is here
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  LoaderStats stats_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex said_mutex_;
  std::deque<std::string> said_ ABSL_GUARDED_BY(said_mutex_);
  Keepers keepers_;  // the last member: its threads use the others
};

}  // namespace bulkhead::client_internal
