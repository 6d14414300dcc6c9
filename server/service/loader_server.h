#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/doors/acceptor.h"
#include "server/doors/arena_door.h"
#include "server/service/access/access_rights.h"
#include "server/service/access/tls_files.h"
#include "server/service/calls/health_service.h"
#include "server/service/limits/connection_limits.h"
#include "server/service/limits/open_rate.h"
#include "server/service/limits/peers.h"
#include "server/service/loader_service.h"
#include "server/service/preparation.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// A whole loader service: supervisor, gRPC server, health and reflection. Tests run the class that
// main runs.
//
//   BULKHEAD_ASSIGN_OR_RETURN(auto server, LoaderServer::Start(config));
//   …
//   server->Shutdown(absl::Seconds(25));
class LoaderServer {
 public:
  // Time for a client to finish a handshake.
  static constexpr absl::Duration kHandshake = absl::Seconds(10);
  // What gRPC holds of all requests at most, finished or not. It compares a request with the limit
  // for one only when it has all of it; where it holds more than this, it ends calls, one of each
  // connection in turn.
  static constexpr uint64_t kMostUnfinishedBytes = RequestMemory::kMostBytes + (32 << 20);

  struct Config {
    // "unix:/path" or "127.0.0.1:port"; port 0 chooses one. Only this user can connect to a Unix
    // socket.
    std::string address;
    std::shared_ptr<TlsFiles> tls;  // for TCP; null: without TLS
    AccessRights access;
    std::string worker_program;  // absolute path of bulkhead-worker
    std::string cache_dir;       // must exist
    uint64_t index_bytes = 0;    // limit of indexes in cache_dir; 0: none
    DataRoots roots;
    ObjectFetcher::Config objects;
    DatasetStore::Config datasets;  // Start sets its functions
    ServiceLimits limits;
    Supervisor::Config supervisor;  // Start sets worker_program, and `io` if it is null
    // Openings of one client per second, in the long run; see OpenRate. 0: no limit.
    double openings_per_second = OpenRate::kPerSecond;
    // A connection without a call is closed after this time; clients open another when they need
    // one.
    absl::Duration idle_connection = absl::Minutes(1);
    // For the status; may be null.
    std::function<uint64_t()> log_lines_dropped;
  };

  // Listens before it returns. Errors: ALREADY_EXISTS if a running service has the address;
  // INVALID_ARGUMENT for an invalid address.
  static absl::StatusOr<std::unique_ptr<LoaderServer>> Start(Config config);
  ~LoaderServer();

  // The actual port; 0 for a Unix socket.
  int port() const { return port_; }
  // Where clients connect: the address with the actual port.
  const std::string& address() const { return address_; }

  // From Start until Shutdown begins, while the supervisor responds. Thread-safe.
  bool is_serving() const { return serving_ && supervisor_->SilentFor() == absl::ZeroDuration(); }
  // The answer to GetStatus; absent once Shutdown has ended the supervisor. Thread-safe, also
  // during Shutdown.
  std::optional<v1::GetStatusResponse> Status() ABSL_LOCKS_EXCLUDED(status_mutex_);
  // Runs `work` on a thread of its own, for which Shutdown waits. Errors: those of
  // SessionRegistry::StartThread. Thread-safe.
  absl::Status RunAside(std::function<void()> work) {
    return sessions_.StartThread(std::move(work));
  }
  // See Supervisor::RecyclingCounts; empty if there is no status.
  std::map<v1::RecycleCause, uint64_t> RecyclingCounts() ABSL_LOCKS_EXCLUDED(status_mutex_);

  // Ends every stream with UNAVAILABLE, waits up to `deadline` for calls to end, then cuts them.
  // False if a call still does not end, because its thread hangs in storage: then this object must
  // not be destroyed, and the process must end. Idempotent.
  bool Shutdown(absl::Duration deadline);

 private:
  explicit LoaderServer(Config config);
  // The steps of Start: the parts that work for the service, then what clients reach.
  absl::Status MakeParts();
  absl::Status Serve();

  // Path of its socket; empty on TCP.
  std::string UnixPath() const;
  absl::Status Listen();
  absl::Status ListenOnUnix(const std::string& path);
  absl::Status ListenOnTcp();
  // Gives gRPC a connection that is within the limits. Any other waits for its end, like a refused
  // call, so that its client makes the next one later.
  void TakeTcp(UniqueFd connection);
  // Accepts no more connections, and frees the paths for a successor. Blocks for the loop.
  void CloseDoors();
  // Reads the TLS files again, every second.
  void RefreshTls();
  // Drops datasets that nobody uses, again and again.
  void WatchDatasets();
  // Has connections over TCP watched for what they send.
  void WatchTcp();
  // Best effort: without a door batches travel over gRPC.
  void OpenArenaDoor();

  const Config config_;
  const std::string boot_id_;
  std::shared_ptr<QuarantineStore> quarantine_;
  std::shared_ptr<IoThread> io_;
  StorageWatch storage_{StorageWatch::Config()};
  // Before the supervisor, whose streams use it until they end.
  std::unique_ptr<ObjectFetcher> objects_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<DatasetStore> datasets_;
  std::unique_ptr<IndexStore> indexes_;
  std::unique_ptr<Preparer> preparer_;
  SessionRegistry sessions_{config_.supervisor.idle_stream};
  RequestMemory request_memory_;
  StreamDirectory directory_;
  StreamCounts stream_counts_;
  RepeatedLines refusal_lines_;
  Peers peers_;
  grpc::CallbackGenericService unknown_methods_;  // as gRPC refuses them, but counted
  std::shared_ptr<EventLoop> loop_;               // for the door and the sessions' timers
  std::thread loop_thread_;
  std::unique_ptr<ArenaDoor> door_;
  std::unique_ptr<LoaderService> service_;
  std::unique_ptr<HealthService> health_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;  // gRPC asks them for certificates
  std::unique_ptr<grpc::Server> server_;
  // What is accepted on TCP goes through it to server_; null on a Unix socket.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> tcp_entry_;
  ConnectionLimits tcp_limits_;                       // of the loop's thread, with told_
  RateLimit told_{0.1, 1};                            // that connections were closed
  int refused_ = 0;                                   // connections that wait for their end
  std::vector<std::unique_ptr<Acceptor>> acceptors_;  // of one address each
  std::string address_;
  uint16_t port_ = 0;
  std::atomic<bool> serving_{false};
  // Held while the status is read, and while the supervisor is ended.
  absl::Mutex status_mutex_;
  bool has_status_ ABSL_GUARDED_BY(status_mutex_) = false;
  bool shut_down_ = false;
  bool sessions_ended_ = true;
};

}  // namespace bulkhead
