#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/arena.pb.h"
#include "server/arena/arena.h"
#include "server/arena/slot_hold.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// A client's process as seen by the arena door: the slots that it holds in the arenas it was given.
// A slot stays held until the client releases it or hangs up, whatever happens to its stream.
//
//   arena:  Grant ─▶ live ─Retire, ArenaRetire─▶ retired ─ its last slot comes back ─▶ gone
//
// Thread-safe.
class ArenaClient {
 public:
  // The largest packet that clients accept, in bytes.
  static constexpr size_t kLargestPacket = 4096;

  // Receives the number of returned batches; called on any thread, without a lock held.
  using OnReleased = std::function<void(uint32_t slots)>;

  ArenaClient(UniqueFd fd, std::string token) : fd_(std::move(fd)), token_(std::move(token)) {}
  // The service ends: the client keeps what it holds.
  ~ArenaClient();

  const std::string& token() const { return token_; }
  int fd() const { return fd_.get(); }

  // Passes an arena to the client; returns its id. Errors: UNAVAILABLE if the client is gone or
  // does not read; RESOURCE_EXHAUSTED while it holds slots of two retired arenas.
  absl::StatusOr<uint64_t> Grant(const Arena& arena, OnReleased on_released)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the slot to the client. False, and the hold is dropped, if the arena is retired or the
  // client gone.
  bool HandOut(uint64_t arena_id, uint32_t slot, std::shared_ptr<const SlotHold> hold)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends a packet; false if the client does not read or is gone.
  bool Announce(const v1::ArenaServerMessage& message) const;
  // The arena's stream has ended: hands out no more of its slots.
  void Retire(uint64_t arena_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Handles a message from the client.
  void OnMessage(const v1::ArenaClientMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection has ended: takes back every slot. The client may still live and read them.
  void OnHangUp() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct GrantedArena {
    std::map<uint32_t, std::shared_ptr<const SlotHold>> held;  // by slot
    OnReleased on_released;
    bool retired = false;
  };
  static void NoteLeft(const std::map<uint64_t, GrantedArena>& arenas);
  using Holds = std::vector<std::shared_ptr<const SlotHold>>;

  // Drops a retired arena that has no slots.
  void DropIfOver(uint64_t arena_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd fd_;
  const std::string token_;
  absl::Mutex mutex_;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, GrantedArena> arenas_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_arena_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace bulkhead
