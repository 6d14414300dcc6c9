#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/os/process/thread.h"
#include "server/service/limits/client_pace.h"

namespace bulkhead {

// Bounds the memory of all requests together, however many come at a time: a parsed message takes
// many times its bytes, and many times that while it is processed. So requests are parsed and
// processed one after the other, while the others wait as bytes. What a request holds after that
// counts until its call is answered. No client can take all of it, nor all of the time.
// Thread-safe.
class RequestMemory {
 public:
  // Limit for all requests: the bytes of those that wait, and the memory of those that were
  // processed.
  static constexpr uint64_t kMostBytes = uint64_t{96} << 20;
  static constexpr uint64_t kMostBytesOfOne = kMostBytes / 2;
  // CPU time that the requests of one client may take at once, and its share of a core in the long
  // run.
  static constexpr absl::Duration kBurstOfOne = absl::Seconds(1);
  static constexpr double kShareOfOne = 0.05;

  // A request's share of that memory, given back on destruction. Movable. Its turn ends on the
  // thread that entered.
  class Place {
   public:
    Place() = default;
    ~Place() { Leave(); }
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;

    // Ends this request's turn: from now on it holds `bytes`. Errors: those of Enter.
    absl::Status Understood(uint64_t bytes);

   private:
    friend class RequestMemory;
    Place(RequestMemory* memory, std::string client, uint64_t bytes)
        : memory_(memory), client_(std::move(client)), bytes_(bytes), cpu_ns_(ThreadCpuNanos()) {}
    void Leave();
    void EndTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_->mutex_);

    RequestMemory* memory_ = nullptr;  // null: moved from
    std::string client_;
    uint64_t bytes_ = 0;
    int64_t cpu_ns_ = 0;  // of its thread, when the turn began
    bool has_turn_ = true;
  };

  // Waits for the turn of a request of `client`, of `bytes`. A turn takes a second or two at most,
  // usually less than a millisecond. Errors: RESOURCE_EXHAUSTED (TOO_MANY_CALLS) when it would
  // exceed kMostBytes, or its client's share; CANCELLED once the service drains, and if the client
  // is `gone` when its turn comes.
  absl::StatusOr<Place> Enter(const std::string& client, uint64_t bytes,
                              const std::function<bool()>& gone) ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of requests that wait for their turn.
  int waiting() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return waiting_;
  }
  // Ends all waiting, with CANCELLED.
  void StartDraining() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }

 private:
  absl::Status Take(const std::string& client, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(const std::string& client, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until `client` may have the turn and nobody else has it, or the service drains.
  void AwaitTurn(const std::string& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ClientPace pace_{kBurstOfOne / kShareOfOne};
  absl::Mutex mutex_;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> of_clients_ ABSL_GUARDED_BY(mutex_);  // of those that have any
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool turn_taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bulkhead
