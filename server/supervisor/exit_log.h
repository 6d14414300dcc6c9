#ifndef BULKHEAD_SERVER_SUPERVISOR_EXIT_LOG_H_
#define BULKHEAD_SERVER_SUPERVISOR_EXIT_LOG_H_

#include <cstdint>
#include <deque>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The history of workers that died, and what the dead have used. Lives on the supervisor's thread.
class ExitLog {
 public:
  static constexpr size_t kMaxEntries = 100;

  // `wanted`: the worker ended as it was told to. Then only what it has used is kept.
  void Add(v1::WorkerExit exit, bool wanted) {
    AddCpu(exit.usage().cpu_seconds());
    if (wanted) return;
    exits_.push_back(std::move(exit));
    if (exits_.size() > kMaxEntries) exits_.pop_front();
  }

  // What a worker has used whose owner is gone.
  void AddCpu(double seconds) { dead_cpu_seconds_ += seconds; }

  const std::deque<v1::WorkerExit>& exits() const { return exits_; }
  double dead_cpu_seconds() const { return dead_cpu_seconds_; }

 private:
  std::deque<v1::WorkerExit> exits_;  // the newest last
  double dead_cpu_seconds_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_EXIT_LOG_H_
