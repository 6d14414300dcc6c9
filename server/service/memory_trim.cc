#include "server/service/memory_trim.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "server/base/byte_size.h"
#include "server/os/memory/process_memory.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(5);
// Memory left with the allocator, because as much will be needed again.
constexpr uint64_t kKeptBytes = uint64_t{4} << 20;
// A service whose memory changes less between two looks is idle.
constexpr uint64_t kQuietBytes = uint64_t{256} << 10;

struct LastLook {
  uint64_t used_bytes = 0;
  uint64_t stuck_bytes = 0;  // not returned by the last trim
};

void Look(EventLoop* loop, LastLook last) {
  const uint64_t used = HeapUsedBytes();
  const uint64_t before = std::exchange(last.used_bytes, used);
  const bool quiet = std::max(used, before) - std::min(used, before) <= kQuietBytes;
  const auto memory = ReadProcessMemory(getpid());
  if (quiet && memory.ok() && memory->anonymous_bytes > used + last.stuck_bytes + kKeptBytes) {
    TrimHeap();
    const uint64_t after = ReadProcessMemory(getpid()).value_or(*memory).anonymous_bytes;
    last.stuck_bytes = after - std::min(after, used);
    spdlog::debug("unused memory was returned to the system: {} before, {} after",
                  FormatBytes(memory->anonymous_bytes), FormatBytes(after));
  }
  loop->After(kInterval, [loop, last] { Look(loop, last); });
}

}  // namespace

void TrimMemoryWhenIdle(EventLoop* loop) {
  loop->Post([loop] { Look(loop, LastLook()); });
}

}  // namespace bulkhead
