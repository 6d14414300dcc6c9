#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "server/data/fetch_folders.h"
#include "server/data/fetch_requests.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd_parcel.h"
#include "server/os/process/child_process.h"
#include "server/os/sockets/packet_socket.h"

namespace bulkhead {

// The process bulkhead-fetch, which is started again when it ends and then gets all requests again.
// It is spawned by a thread of this object, and dies with that thread. Thread-safe.
class FetchChild {
 public:
  // The quota of the process in a service, and what it takes as a rule.
  static constexpr uint64_t kQuotaBytes = uint64_t{128} << 20;
  static constexpr uint64_t kUsualBytes = uint64_t{20} << 20;

  struct Config {
    std::string program;  // bulkhead-fetch, absolute
    // The folder below which objects are kept, as blocks/KEY and spare-NAME/KEY; made when needed.
    // A spare folder is locked by its service, and removed by another one if that was killed.
    std::string folder;
    uint64_t cache_bytes = 0;            // limit of blocks/
    uint64_t quota_bytes = kQuotaBytes;  // of the process; 0: none
    internal::v1::Sandbox sandbox;
    int output_fd = -1;  // as in SpawnSpec
  };
  using Answered = FetchRequests::Answered;

  static absl::StatusOr<std::unique_ptr<FetchChild>> Create(const Config& config);
  // Kills it. Callbacks that were not called yet never are.
  ~FetchChild();

  const FetchFolders& folders() const { return folders_; }
  uint64_t restarts() const { return restarts_; }
  internal::v1::FetchCounts counts() const ABSL_LOCKS_EXCLUDED(counts_mutex_);

  // Sends the message that `fill` makes of the request's number, which is the result, with `fd` if
  // it is not null.
  uint64_t Ask(const std::function<void(uint64_t id, internal::v1::ToFetch& message)>& fill,
               Answered answered, SharedFd fd = nullptr);
  void Release(uint64_t id);
  void CloseObjects(const std::vector<std::string>& keys);

 private:
  // What a process is to get.
  struct Queued {
    std::string bytes;
    SharedFd fd;
  };

  FetchChild(const Config& config, std::unique_ptr<EventLoop> loop);

  void Spawn();
  absl::Status TrySpawn();
  void LookForFolders();
  void Send(const internal::v1::ToFetch& message, const SharedFd& fd = nullptr);
  // False if the process has yet to read others.
  bool TrySend(const Queued& next) const;
  void SendQueued();
  void Receive();
  void OnMessage(const internal::v1::FromFetch& message);
  void NoteCounts(const internal::v1::FetchCounts& counts) ABSL_LOCKS_EXCLUDED(counts_mutex_);
  void OnExit();
  // There is no process now.
  void OnEnd(const std::string& how);
  void Close();

  const Config config_;
  const std::unique_ptr<EventLoop> loop_;
  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint64_t> restarts_{0};
  // The following belong to the loop's thread.
  FetchFolders folders_;
  FetchRequests requests_;
  std::optional<ChildProcess> child_;
  std::optional<PacketSocket> socket_;
  std::deque<Queued> queue_;  // for a process that does not read
  absl::Status unusable_;
  int deaths_ = 0;  // since an answer that was new
  mutable absl::Mutex counts_mutex_;
  // Of this process, if it has told any, and of those before it.
  std::optional<internal::v1::FetchCounts> counts_ ABSL_GUARDED_BY(counts_mutex_);
  internal::v1::FetchCounts past_ ABSL_GUARDED_BY(counts_mutex_);
  std::thread thread_;
};

}  // namespace bulkhead
