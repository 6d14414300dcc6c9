#ifndef BULKHEAD_SERVER_SERVICE_ARENA_DOOR_H_
#define BULKHEAD_SERVER_SERVICE_ARENA_DOOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/arena.pb.h"
#include "server/os/event_loop.h"
#include "server/os/fd.h"
#include "server/supervisor/stream.h"

namespace bulkhead {

// A client's process as the arena door sees it: the slots that it holds, in the arenas that it was
// given. A slot stays held until the client releases it or hangs up, whatever becomes of streams.
//
//   arena:  Grant ─▶ live ─Retire, ArenaRetire─▶ retired ─ its last slot comes back ─▶ gone
//
// Thread-safe.
class ArenaClient {
 public:
  // Told how many batches came back; on any thread, without a lock held.
  using OnReleased = std::function<void(uint32_t slots)>;

  ArenaClient(UniqueFd fd, std::string token) : fd_(std::move(fd)), token_(std::move(token)) {}

  const std::string& token() const { return token_; }
  int fd() const { return fd_.get(); }

  // Passes an arena to the client; returns its id. Errors: UNAVAILABLE when the client is gone or
  // does not read; RESOURCE_EXHAUSTED while it still holds slots of two retired arenas.
  absl::StatusOr<uint64_t> Grant(const Arena& arena, OnReleased on_released)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The slot is the client's from now on. False, and the hold is dropped, when the arena is retired
  // or the client gone.
  bool HandOut(uint64_t arena_id, uint32_t slot, std::shared_ptr<const SlotHold> hold)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The arena's stream ended: nothing more is handed out.
  void Retire(uint64_t arena_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Carries out what the client said.
  void OnMessage(const v1::ArenaClientMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection ended: everything comes back.
  void OnHangUp() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct GrantedArena {
    std::map<uint32_t, std::shared_ptr<const SlotHold>> held;  // by slot
    OnReleased on_released;
    bool retired = false;
  };
  using Holds = std::vector<std::shared_ptr<const SlotHold>>;

  // Forgets a retired arena without slots.
  void DropIfOver(uint64_t arena_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd fd_;
  const std::string token_;
  absl::Mutex mutex_;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, GrantedArena> arenas_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_arena_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

// What stands behind the path of the service's own socket.
inline constexpr absl::string_view kArenaDoorSuffix = ".arena";

// The socket through which clients on this host get at their arenas
// (proto/bulkhead/v1/arena.proto). Only this user and root may come in. Works on `loop`, whose
// thread must run; FindClient may be called from any.
class ArenaDoor {
 public:
  // At most this many connections; more are closed at once.
  static constexpr size_t kMaxClients = 512;

  // Listens at `path`. Errors as ListenSeqPacket's.
  static absl::StatusOr<std::unique_ptr<ArenaDoor>> Open(std::shared_ptr<EventLoop> loop,
                                                         const std::string& path,
                                                         std::string boot_id);
  // On the loop's thread, or when it has ended. Closes; all clients are gone to it.
  ~ArenaDoor();

  // On the loop's thread: nobody else comes in, and the path is free for a successor. Who is in
  // stays.
  void Close();

  // The connection that was greeted with `token`; null when it has hung up, or never was.
  std::shared_ptr<ArenaClient> FindClient(const std::string& token) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ArenaDoor(std::shared_ptr<EventLoop> loop, UniqueFd listener, std::string path,
            std::string boot_id);

  void Listen();
  void Accept();
  void Welcome(UniqueFd fd);
  void Read(const std::shared_ptr<ArenaClient>& client);
  void HangUp(const std::shared_ptr<ArenaClient>& client);

  const std::shared_ptr<EventLoop> loop_;
  UniqueFd listener_;
  const std::string path_;
  const std::string boot_id_;
  EventLoop::TimerId listen_timer_ = 0;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<ArenaClient>> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_ARENA_DOOR_H_
