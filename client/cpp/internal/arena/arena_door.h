#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/internal/arena/arena_mapping.h"
#include "client/cpp/internal/base/fork_closed_fd.h"

namespace bulkhead::client_internal {

// A connection to a service's arena door (proto/bulkhead/v1/arena.proto). It stands for this
// process: while it lasts, the slots that were handed to it belong to it alone.
//
//   Connect ─token─▶ Open … TakeArena ─▶ (Hold ─▶ Release)* ─▶ Retire … TakeArena (the next stream)
//
// Shared by the streams of one loader, one after the other, and by every batch that lies in a slot;
// it hangs up when the last of them is gone, so that no batch is written over. Forked children do
// not have it. Sending never blocks: what the socket does not take is kept and tried again by the
// next call. Thread-safe.
class ArenaDoor {
 public:
  // Connects to the socket at `path` and waits for the greeting. FAILED_PRECONDITION
  // (TRANSPORT_UNAVAILABLE) when that does not come within `patience`, or from a user that
  // CheckSocketUser refuses; LOADER_CLOSED when `cancelled`.
  static absl::StatusOr<std::shared_ptr<ArenaDoor>> Connect(const std::string& path,
                                                            absl::Duration patience,
                                                            const std::function<bool()>& cancelled,
                                                            const std::string& socket_user = "");

  const std::string& path() const { return path_; }
  const std::string& token() const { return token_; }
  // Whether the service has not hung up, as far as one can see by now.
  bool alive() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether something waits to be sent.
  bool pending() ABSL_LOCKS_EXCLUDED(mutex_);

  // Maps the arena that was granted as `arena_id`; the grants of streams that never got so far are
  // passed over. Blocks at most a moment: a grant is sent before the stream hears of it. Errors as
  // ArenaMapping::Map's, and TRANSPORT_UNAVAILABLE when no such grant came.
  absl::StatusOr<std::shared_ptr<const ArenaMapping>> TakeArena(uint64_t arena_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The slot is ours from now on; false when it was before.
  bool Hold(uint64_t arena_id, uint32_t slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(uint64_t arena_id, uint32_t slot) ABSL_LOCKS_EXCLUDED(mutex_);
  // The arena's stream is over; of its slots only those that are held stay ours.
  void Retire(uint64_t arena_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tries to send what was kept.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit ArenaDoor(std::string path);

  absl::Status Dial(absl::Duration patience, const std::function<bool()>& cancelled,
                    const std::string& socket_user);
  void Send() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const pid_t owner_;
  ForkClosedFd socket_;
  std::string token_;

  absl::Mutex receive_mutex_;  // TakeArena's packets belong to one caller
  absl::Mutex mutex_;
  bool hung_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, std::set<uint32_t>> held_ ABSL_GUARDED_BY(mutex_);  // slots by arena
  std::deque<std::string> outgoing_ ABSL_GUARDED_BY(mutex_);  // packets, the oldest first
};

// A slot of an arena that this process holds; destroying it gives the slot back. Keeps mapping and
// door. Does nothing in a forked child.
class HeldSlot {
 public:
  HeldSlot(std::shared_ptr<const ArenaMapping> arena, std::shared_ptr<ArenaDoor> door,
           uint32_t index)
      : arena_(std::move(arena)), door_(std::move(door)), index_(index) {}
  ~HeldSlot() { door_->Release(arena_->id(), index_); }
  HeldSlot(const HeldSlot&) = delete;
  HeldSlot& operator=(const HeldSlot&) = delete;

  uint8_t* data() const { return arena_->slot(index_); }

 private:
  const std::shared_ptr<const ArenaMapping> arena_;
  const std::shared_ptr<ArenaDoor> door_;
  const uint32_t index_;
};

}  // namespace bulkhead::client_internal
