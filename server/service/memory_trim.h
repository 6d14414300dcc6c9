#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead {

// Returns memory that many calls have left behind to the system; the allocator would keep it for
// the life of the process. Checks every few seconds, and acts when the service is idle and the
// allocator keeps much. Runs on the thread of `loop`, which must run; Start is thread-safe.
class MemoryTrim {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(5);
  // Memory left with the allocator, because as much will be needed again.
  static constexpr uint64_t kKeptBytes = uint64_t{4} << 20;

  explicit MemoryTrim(EventLoop* loop) : loop_(loop) {}
  void Start();

 private:
  void Look();

  EventLoop* const loop_;
  uint64_t used_bytes_ = 0;   // at the last look
  uint64_t stuck_bytes_ = 0;  // not returned by the last trim
};

}  // namespace bulkhead
