#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/doors/arena_client.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"
#include "server/os/sockets/unix_address.h"

namespace bulkhead {

// Suffix of its path, after that of the service's own socket.
inline constexpr absl::string_view kArenaDoorSuffix = ".arena";

// The socket through which clients on this host receive arenas (proto/bulkhead/v1/arena.proto).
// Admits only this user and root. Lives on `loop`, whose thread must run; FindClient is
// thread-safe.
class ArenaDoor {
 public:
  // Further connections are closed at once.
  static constexpr size_t kMaxClients = 512;

  // Listens at `path`. Errors: those of ListenSeqPacket.
  static absl::StatusOr<std::unique_ptr<ArenaDoor>> Open(std::shared_ptr<EventLoop> loop,
                                                         const std::string& path,
                                                         std::string boot_id);
  // Hangs up on all clients. Call it on the loop's thread, or after that has ended.
  ~ArenaDoor();

  // Takes no more connections and frees the path for a successor; keeps existing ones. On the
  // loop's thread.
  void Close();

  // The connection that was given `token`; null if there is none any more.
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
  const SocketFile file_;
  const std::string boot_id_;
  EventLoop::TimerId listen_timer_ = 0;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<ArenaClient>> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
