#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The history of workers: deaths, planned replacements, and the CPU time of all former workers.
// Lives on the supervisor's thread.
class ExitLog {
 public:
  static constexpr size_t kMaxExits = 100;
  // Fewer, because a leak makes them frequent.
  static constexpr size_t kMaxRecyclings = 32;

  // `wanted`: the worker ended because it was asked to, and is only counted.
  void Add(v1::WorkerExit exit, bool wanted) {
    dead_cpu_seconds_ += exit.usage().cpu_seconds();
    ++counts_[exit.cause()];
    if (!wanted) Append(exits_, std::move(exit), kMaxExits);
  }
  void AddRecycling(v1::Recycling recycling) {
    ++recycling_counts_[recycling.cause()];
    Append(recyclings_, std::move(recycling), kMaxRecyclings);
  }

  // Adds the CPU time of a worker that was killed because its owner is gone.
  void AddOrphan(double cpu_seconds) {
    dead_cpu_seconds_ += cpu_seconds;
    ++counts_[v1::EXIT_CAUSE_TOLD];
  }

  // A worker ended because it touched a batch that was not its own.
  void AddWildWrite() { ++wild_writes_; }

  void AppendStatus(v1::GetStatusResponse& response) const {
    response.set_wild_writes(wild_writes_);
    response.set_cpu_seconds(response.cpu_seconds() + dead_cpu_seconds_);
    response.mutable_recent_exits()->Add(exits_.begin(), exits_.end());
    response.mutable_recent_recyclings()->Add(recyclings_.begin(), recyclings_.end());
    for (const auto& [cause, count] : counts_) {
      v1::ExitCount& entry = *response.add_exit_counts();
      entry.set_cause(cause);
      entry.set_count(count);
      if (IsLimitEvent(cause)) response.set_limit_events(response.limit_events() + count);
    }
  }

  // Whether the worker met a limit.
  static bool IsLimitEvent(v1::ExitCause cause) {
    return cause == v1::EXIT_CAUSE_OUT_OF_MEMORY || cause == v1::EXIT_CAUSE_WATCHDOG ||
           cause == v1::EXIT_CAUSE_CGROUP;
  }

  // Counts of all planned replacements, including forgotten ones.
  const std::map<v1::RecycleCause, uint64_t>& recycling_counts() const { return recycling_counts_; }

 private:
  template <typename Entry>
  static void Append(std::deque<Entry>& entries, Entry entry, size_t max) {
    entries.push_back(std::move(entry));
    if (entries.size() > max) entries.pop_front();
  }

  std::deque<v1::WorkerExit> exits_;  // newest last
  std::deque<v1::Recycling> recyclings_;
  std::map<v1::ExitCause, uint64_t> counts_;
  std::map<v1::RecycleCause, uint64_t> recycling_counts_;
  double dead_cpu_seconds_ = 0;
  uint64_t wild_writes_ = 0;
};

}  // namespace bulkhead
