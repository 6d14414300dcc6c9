#include "server/supervisor/seek_segments.h"

#include <spdlog/spdlog.h>

#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

// A full disk, or a cache that has reached its bound, is asked again after this long.
constexpr absl::Duration kPatience = absl::Seconds(10);

void Send(PoolWorker& worker, int fd, bool writable) {
  internal::v1::ToWorker message;
  message.mutable_add_segment()->set_writable(writable);
  worker.process->Send(message, {fd});
}

}  // namespace

void SeekSegments::Tell(PoolWorker& worker, bool writes) {
  if (folder_ == nullptr || !worker.bound) return;
  if (writes && worker.segment_written == 0) Lend(worker);
  for (const auto& segment : folder_->segments()) {
    if (segment->id <= worker.segments_told) continue;
    worker.segments_told = segment->id;
    if (segment->id != worker.segment_written) Send(worker, segment->reading.get(), false);
  }
}

void SeekSegments::Lend(PoolWorker& worker) {
  const int64_t now_ns = MonotonicNanos();
  if (now_ns < no_lending_before_ns_) return;
  const auto lent = folder_->Lend();
  if (!lent.ok()) {
    const std::string why(lent.status().message());
    if (why != reason_) spdlog::warn("no more seek entries are kept: {}", why);
    reason_ = why;
    no_lending_before_ns_ = now_ns + absl::ToInt64Nanoseconds(kPatience);
    return;
  }
  reason_.clear();
  worker.segment_written = (*lent)->id;
  Send(worker, (*lent)->writing.get(), true);
}

void SeekSegments::GiveBack(PoolWorker& worker) {
  if (folder_ == nullptr || worker.segment_written == 0) return;
  folder_->GiveBack(worker.segment_written);
  worker.segment_written = 0;
}

void SeekSegments::Describe(v1::SeekCacheStatus& status) const {
  status.set_reason(reason_);
  if (folder_ == nullptr) return;
  status.set_most_bytes(folder_->most_bytes());
  status.set_segments(folder_->segments().size());
  uint64_t bytes = 0;
  for (const auto& segment : folder_->segments()) bytes += segment->bytes;
  status.set_bytes(bytes);
}

}  // namespace bulkhead
