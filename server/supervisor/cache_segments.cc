#include "server/supervisor/cache_segments.h"

#include <spdlog/spdlog.h>

#include "absl/time/time.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

// A full disk, or a cache that has reached its bound, is asked again after this long.
constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

void CacheSegments::Send(PoolWorker& worker, int fd, bool writable) const {
  internal::v1::ToWorker message;
  message.mutable_add_segment()->set_writable(writable);
  message.mutable_add_segment()->set_kind(kind_);
  worker.process->Send(message, {fd});
}

void CacheSegments::Tell(PoolWorker& worker, bool writes) {
  if (folder_ == nullptr || !worker.bound) return;
  if (writes && Of(worker).written == 0) Lend(worker);
  for (const auto& segment : folder_->segments()) {
    if (segment->id <= Of(worker).told) continue;
    Of(worker).told = segment->id;
    if (segment->id != Of(worker).written) Send(worker, segment->reading.get(), false);
  }
}

void CacheSegments::Lend(PoolWorker& worker) {
  const int64_t now_ns = MonotonicNanos();
  if (now_ns < no_lending_before_ns_) return;
  const auto lent = folder_->Lend();
  if (!lent.ok()) {
    const std::string why(lent.status().message());
    if (why != reason_) spdlog::warn("nothing more is kept in a cache: {}", why);
    reason_ = why;
    no_lending_before_ns_ = now_ns + absl::ToInt64Nanoseconds(kPatience);
    return;
  }
  reason_.clear();
  Of(worker).written = (*lent)->id;
  Send(worker, (*lent)->writing.get(), true);
}

void CacheSegments::GiveBack(PoolWorker& worker) {
  if (folder_ == nullptr || Of(worker).written == 0) return;
  folder_->GiveBack(Of(worker).written);
  Of(worker).written = 0;
}

void CacheSegments::Describe(v1::CacheStatus& status) const {
  status.set_reason(reason_);
  if (folder_ == nullptr) return;
  status.set_most_bytes(folder_->most_bytes());
  status.set_segments(folder_->segments().size());
  uint64_t bytes = 0;
  for (const auto& segment : folder_->segments()) bytes += segment->bytes;
  status.set_bytes(bytes);
}

}  // namespace bulkhead
