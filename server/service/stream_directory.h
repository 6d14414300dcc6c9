#ifndef BULKHEAD_SERVER_SERVICE_STREAM_DIRECTORY_H_
#define BULKHEAD_SERVER_SERVICE_STREAM_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/supervisor/arena_memory.h"

namespace bulkhead {

// When a consumer was made, as Open says it.
struct Incarnation {
  uint64_t wall_ns = 0;
  std::string machine_boot;  // empty: unknown
  uint64_t since_boot_ns = 0;

  // Of one boot of one machine by the time since, which nobody sets back; of two by the wall clock.
  // Time namespaces shift the former: two consumers in different ones come in the wrong order.
  bool IsOlderThan(const Incarnation& other) const;
};

// Which consumer holds which stream: one for each (name, rank). A consumer that connects again, or
// a newer one, takes the stream over from the connection that held it; an older one is refused.
// Thread-safe.
class StreamDirectory {
 public:
  // Ends a connection with a status, and says what it leaves to its successor (null: nothing);
  // called without the directory's lock. Must do nothing once the connection is gone.
  using Evict = std::function<std::shared_ptr<Legacy>(const absl::Status&)>;

  // Claims the stream for a connection of consumer `incarnation`. Evicts who held it: a consumer of
  // an older incarnation with ABORTED (SUPERSEDED), which tells it not to come back; the same one's
  // earlier connection with CANCELLED. ABORTED (SUPERSEDED) when a newer consumer holds it.
  // `claim_id` is for Release; `legacy` is what was left by the one that was evicted.
  absl::Status Claim(const std::string& name, uint32_t rank, const Incarnation& incarnation,
                     Evict evict, uint64_t& claim_id, std::shared_ptr<Legacy>& legacy)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection has ended; does nothing when another one has taken over.
  void Release(const std::string& name, uint32_t rank, uint64_t claim_id)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Holder {
    Incarnation incarnation;
    uint64_t claim_id = 0;
    Evict evict;
  };

  absl::Mutex mutex_;
  std::map<std::pair<std::string, uint32_t>, Holder> holders_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_claim_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_STREAM_DIRECTORY_H_
