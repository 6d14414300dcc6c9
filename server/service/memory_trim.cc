#include "server/service/memory_trim.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "server/base/byte_size.h"
#include "server/os/memory/process_memory.h"

namespace bulkhead {
namespace {

// A service whose memory changes less between two looks is idle.
constexpr uint64_t kQuietBytes = uint64_t{256} << 10;

}  // namespace

void MemoryTrim::Start() {
  loop_->Post([this] { Look(); });
}

void MemoryTrim::Look() {
  const uint64_t used = HeapUsedBytes();
  const uint64_t before = std::exchange(used_bytes_, used);
  const bool quiet = std::max(used, before) - std::min(used, before) <= kQuietBytes;
  const auto memory = ReadProcessMemory(getpid());
  if (quiet && memory.ok() && memory->anonymous_bytes > used + stuck_bytes_ + kKeptBytes) {
    TrimHeap();
    const uint64_t after = ReadProcessMemory(getpid()).value_or(*memory).anonymous_bytes;
    stuck_bytes_ = after - std::min(after, used);
    spdlog::debug("unused memory was returned to the system: {} before, {} after",
                  FormatBytes(memory->anonymous_bytes), FormatBytes(after));
  }
  loop_->After(kInterval, [this] { Look(); });
}

}  // namespace bulkhead
