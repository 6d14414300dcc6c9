#include "server/service/limits/client_pace.h"

#include <algorithm>

namespace bulkhead {

absl::Duration ClientPace::Wait(const std::string& client, int64_t now_ns) const {
  absl::MutexLock lock(&mutex_);
  const auto known = due_ns_.find(client);
  if (known == due_ns_.end()) return absl::ZeroDuration();
  return absl::Nanoseconds(std::max<int64_t>(0, known->second - now_ns));
}

absl::Duration ClientPace::Take(const std::string& client, absl::Duration interval,
                                int64_t now_ns) {
  const int64_t burst_begins_ns = now_ns - burst_ns_;
  absl::MutexLock lock(&mutex_);
  if (due_ns_.size() >= kMostKnown && due_ns_.count(client) == 0) {
    std::erase_if(due_ns_, [&](const auto& one) { return one.second <= burst_begins_ns; });
    if (due_ns_.size() >= kMostKnown) return absl::Seconds(1);
  }
  int64_t& due_ns = due_ns_.try_emplace(client, burst_begins_ns).first->second;
  due_ns = std::max(due_ns, burst_begins_ns) + absl::ToInt64Nanoseconds(interval);
  return absl::Nanoseconds(std::max<int64_t>(0, due_ns - now_ns));
}

}  // namespace bulkhead
