#include "server/service/limits/question_pace.h"

#include <algorithm>

namespace bulkhead {
namespace {

constexpr int64_t kIntervalNanos = 1'000'000'000 / QuestionPace::kPerSecond;

}  // namespace

absl::Duration QuestionPace::Wait(const std::string& client, int64_t now_ns) {
  const int64_t burst_begins_ns = now_ns - QuestionPace::kBurst * kIntervalNanos;
  absl::MutexLock lock(&mutex_);
  if (due_ns_.size() >= kMostKnown && due_ns_.count(client) == 0) {
    std::erase_if(due_ns_, [&](const auto& one) { return one.second <= burst_begins_ns; });
    if (due_ns_.size() >= kMostKnown) return absl::Seconds(1);
  }
  int64_t& due_ns = due_ns_.try_emplace(client, burst_begins_ns).first->second;
  due_ns = std::max(due_ns, burst_begins_ns) + kIntervalNanos;
  return absl::Nanoseconds(std::max<int64_t>(0, due_ns - now_ns));
}

}  // namespace bulkhead
