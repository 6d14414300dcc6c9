#include "server/os/timers.h"

#include "server/os/event_loop.h"

namespace bulkhead {

Timers::Id Timers::After(absl::Duration delay, std::function<void()> callback) {
  const Id id = next_id_++;
  const int64_t deadline = MonotonicNanos() + absl::ToInt64Nanoseconds(delay);
  callbacks_.emplace(std::make_pair(deadline, id), std::move(callback));
  deadlines_[id] = deadline;
  return id;
}

void Timers::Cancel(Id id) {
  const auto found = deadlines_.find(id);
  if (found == deadlines_.end()) return;
  callbacks_.erase({found->second, id});
  deadlines_.erase(found);
}

absl::Duration Timers::UntilNext() const {
  if (callbacks_.empty()) return absl::InfiniteDuration();
  const int64_t left = callbacks_.begin()->first.first - MonotonicNanos();
  return left <= 0 ? absl::ZeroDuration() : absl::Nanoseconds(left);
}

bool Timers::RunDue() {
  const int64_t now = MonotonicNanos();
  bool has_run = false;
  while (!callbacks_.empty() && callbacks_.begin()->first.first <= now) {
    const auto first = callbacks_.begin();
    const std::function<void()> callback = std::move(first->second);
    deadlines_.erase(first->first.second);
    callbacks_.erase(first);
    callback();
    has_run = true;
  }
  return has_run;
}

}  // namespace bulkhead
