#ifndef BULKHEAD_SERVER_SERVICE_MEMORY_TRIM_H_
#define BULKHEAD_SERVER_SERVICE_MEMORY_TRIM_H_

#include <cstdint>

#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead {

// Gives memory back to the system that a flood of calls took and left behind: the allocator keeps
// it else, for as long as the process lives. Looks every few seconds, and acts when nothing goes on
// and much is kept. Works on the thread of `loop`, which must run; Start may be called from any.
class MemoryTrim {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(5);
  // What may be kept: as much comes to be needed again.
  static constexpr uint64_t kKeptBytes = uint64_t{4} << 20;

  explicit MemoryTrim(EventLoop* loop) : loop_(loop) {}
  void Start();

 private:
  void Look();

  EventLoop* const loop_;
  uint64_t used_bytes_ = 0;   // when it looked last
  uint64_t stuck_bytes_ = 0;  // what the last trim could not give back
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_MEMORY_TRIM_H_
