#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/supervisor/memory/arena_memory.h"

namespace bulkhead {

// When a consumer was created, from Open.
struct Incarnation {
  uint64_t wall_ns = 0;
  std::string machine_boot;  // empty: unknown
  uint64_t since_boot_ns = 0;

  // Compares times since boot within one boot of one machine, because these are never set back;
  // else wall-clock times. Time namespaces shift times since boot: consumers in different ones may
  // be ordered wrongly.
  bool IsOlderThan(const Incarnation& other) const;
};

// Which consumer holds which stream. There is one stream for each (name, rank). A consumer that
// connects again, or a newer one, takes the stream over from the connection that held it; an older
// one is refused.
//
//   Enter ─▶ the connection's request is checked ─▶ Claim ─▶ it holds the stream ─▶ Release
//
// A connection that has entered does not affect the holder: if it is refused before Claim, the
// holder keeps the stream. If several have entered, the newest one gets the stream in the end, in
// whatever order they claim it. Thread-safe.
class StreamDirectory {
 public:
  // Ends a connection with a status and returns what it leaves to its successor (null: nothing).
  // Called without the directory's lock. Must do nothing once the connection is gone.
  using Evict = std::function<std::shared_ptr<Legacy>(const absl::Status&)>;

  // A connection of consumer `incarnation` begins to open the stream. Returns its number, later
  // ones being higher. ABORTED (SUPERSEDED) when a newer consumer holds the stream.
  absl::StatusOr<uint64_t> Enter(const std::string& name, uint32_t rank,
                                 const Incarnation& incarnation) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether some connection holds the stream.
  bool IsHeld(const std::string& name, uint32_t rank) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Claims the stream for the connection that Enter gave the number `connection`. Evicts the
  // holder: a consumer of an older incarnation with ABORTED (SUPERSEDED), so that it does not come
  // back; an earlier connection of the same consumer with CANCELLED. Errors: ABORTED (SUPERSEDED)
  // when a newer consumer holds the stream by now, CANCELLED when a later connection of this
  // consumer does. `legacy`: what the evicted holder left.
  absl::Status Claim(const std::string& name, uint32_t rank, const Incarnation& incarnation,
                     uint64_t connection, Evict evict, std::shared_ptr<Legacy>& legacy)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection has ended; does nothing when another one has taken over.
  void Release(const std::string& name, uint32_t rank, uint64_t connection)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Holder {
    Incarnation incarnation;
    uint64_t connection = 0;
    Evict evict;
  };

  mutable absl::Mutex mutex_;
  std::map<std::pair<std::string, uint32_t>, Holder> holders_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_connection_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace bulkhead
