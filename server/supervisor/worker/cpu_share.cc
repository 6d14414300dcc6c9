#include "server/supervisor/worker/cpu_share.h"

#include <algorithm>
#include <cmath>

#include "absl/time/time.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kLookInterval = absl::Milliseconds(200);
// The kernel's weight ratio between adjacent nice levels.
constexpr double kLevel = 1.25;
// Weight of the newest look in the mean.
constexpr double kRise = 0.5;
constexpr double kFall = 0.1;
// Priorities are raised again only in steps of this many levels, so that they do not flutter.
constexpr int kLevelsBack = 2;

}  // namespace

int CpuShare::PriorityOf(double runnable, uint32_t decode_threads) {
  const double ratio = runnable / std::max(1u, decode_threads);
  if (ratio <= 1) return 0;
  const double level = std::round(std::log(ratio) / std::log(kLevel));
  // Beyond the highest nice value only SCHED_IDLE is low enough.
  return static_cast<int>(std::min<double>(level, kIdlePriority));
}

void CpuShare::Watch(pid_t pid, uint64_t threads, int64_t now_ns) {
  // Decode threads and the thread that reads messages.
  if (threads <= decode_threads_ + 1 && priority_ == 0) return;
  if (now_ns - looked_ns_ < absl::ToInt64Nanoseconds(kLookInterval)) return;
  looked_ns_ = now_ns;
  const auto seen = ReadThreads(pid);
  if (!seen.ok()) return;  // the process has just ended
  runnable_ += (seen->runnable - runnable_) * (seen->runnable > runnable_ ? kRise : kFall);
  const int wanted = PriorityOf(runnable_, decode_threads_);
  if (wanted == 0 && priority_ == 0) return;
  const bool back = may_take_back_ && (wanted + kLevelsBack <= priority_ || wanted == 0);
  if (wanted > priority_ || back) priority_ = wanted;
  // All threads each time: new ones may come from threads that were not nice yet.
  for (const pid_t thread : seen->ids) {
    if (absl::IsPermissionDenied(SetThreadPriority(thread, priority_))) may_take_back_ = false;
  }
}

}  // namespace bulkhead
