#ifndef BULKHEAD_SERVER_SERVICE_ARENA_DOOR_H_
#define BULKHEAD_SERVER_SERVICE_ARENA_DOOR_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"
#include "server/service/arena_client.h"

namespace bulkhead {

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
