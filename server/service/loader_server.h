#ifndef BULKHEAD_SERVER_SERVICE_LOADER_SERVER_H_
#define BULKHEAD_SERVER_SERVICE_LOADER_SERVER_H_

#include <grpcpp/server.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/arena_door.h"
#include "server/service/loader_service.h"
#include "server/service/memory_trim.h"
#include "server/service/preparation.h"
#include "server/service/unix_acceptor.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// A whole loader service: supervisor, gRPC server, health and reflection. The test runs the very
// class that main runs.
//
//   BULKHEAD_ASSIGN_OR_RETURN(auto server, LoaderServer::Start(config));
//   …
//   server->Shutdown(absl::Seconds(25));
class LoaderServer {
 public:
  struct Config {
    // "unix:/path" or "127.0.0.1:port"; port 0 chooses one. A Unix socket is made private to the
    // user.
    std::string address;
    std::string worker_program;  // absolute path of bulkhead-worker
    std::string cache_dir;       // exists
    uint64_t index_bytes = 0;    // of it, that indexes may take; 0: no bound
    DataRoots roots;
    ServiceLimits limits;
    Supervisor::Config supervisor;  // worker_program is filled in, and `io` where it is null
    // For the status; may be null.
    std::function<uint64_t()> log_lines_dropped;
  };

  // Listens before it returns. Errors: ALREADY_EXISTS when the address is taken by a living
  // service; INVALID_ARGUMENT for an address that is none.
  static absl::StatusOr<std::unique_ptr<LoaderServer>> Start(Config config);
  ~LoaderServer();

  // The port chosen, or 0 for a Unix socket.
  int port() const { return port_; }
  // Where clients connect: the address, with the port chosen.
  const std::string& address() const { return address_; }

  // From Start until Shutdown begins, while the supervisor answers. Any thread.
  bool is_serving() const { return serving_ && supervisor_->SilentFor() == absl::ZeroDuration(); }
  // What GetStatus answers; absent once Shutdown has ended the supervisor. Any thread, during
  // Shutdown as well.
  std::optional<v1::GetStatusResponse> Status() ABSL_LOCKS_EXCLUDED(status_mutex_);
  // Supervisor::RecyclingCounts; none where there is no status.
  std::map<v1::RecycleCause, uint64_t> RecyclingCounts() ABSL_LOCKS_EXCLUDED(status_mutex_);

  // Ends every stream with UNAVAILABLE, waits up to `deadline` for calls to end, then cuts them.
  // False when a call did not end all the same (its thread hangs in storage): this object must then
  // not be destroyed, the process can only end. Idempotent.
  bool Shutdown(absl::Duration deadline);

 private:
  explicit LoaderServer(Config config);

  // Of its socket; empty where it listens on TCP.
  std::string UnixPath() const;
  absl::Status Listen();
  absl::Status ListenOnUnix(const std::string& path);
  // Blocks for the loop: no connection is taken any more, and the paths are free for a successor.
  void CloseDoors();
  // Best effort: without a door batches travel over gRPC.
  void OpenArenaDoor();

  const Config config_;
  std::shared_ptr<QuarantineStore> quarantine_;
  std::shared_ptr<IoThread> io_;
  StorageWatch storage_{StorageWatch::Config()};
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<IndexStore> indexes_;
  std::unique_ptr<Preparer> preparer_;
  SessionRegistry sessions_;
  StreamDirectory directory_;
  std::string boot_id_;
  std::shared_ptr<EventLoop> loop_;  // of the door and of the sessions' timers
  std::unique_ptr<MemoryTrim> memory_trim_;
  std::thread loop_thread_;
  std::unique_ptr<ArenaDoor> door_;
  std::unique_ptr<LoaderService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<UnixAcceptor> acceptor_;  // null on TCP, where server_ listens itself
  std::string address_;
  int port_ = 0;
  std::atomic<bool> serving_{false};
  // Held by those who ask for the status, and to end the supervisor.
  absl::Mutex status_mutex_;
  bool has_status_ ABSL_GUARDED_BY(status_mutex_) = false;
  bool shut_down_ = false;
  bool sessions_ended_ = true;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LOADER_SERVER_H_
