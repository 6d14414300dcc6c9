#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// Says of each stream who waits for whom, and why, from two looks at the status:
//
//   waits for workers 31 % of the last 10 s: stages[0] python takes 83 % of their time; 3 more
//   workers fit the memory budget
//   waits for the object store 80 % of the last 10 s: 21MiB/s came, by 52 requests
//
// The earlier look is the newest that is at least kLeast old, whoever looked. Nothing is measured
// while nobody looks. Thread-safe.
class RecentLooks {
 public:
  static constexpr absl::Duration kLeast = absl::Seconds(1);
  static constexpr absl::Duration kMost = absl::Seconds(60);
  // Less waiting than this share of the time is none.
  static constexpr double kLeastShare = 0.05;
  // Less than this calls for no more workers.
  static constexpr double kLackingShare = 0.1;

  // `cpus`: that the service may use.
  explicit RecentLooks(int cpus) : cpus_(cpus) {}

  // Fills in StreamStatus.why of each stream that an earlier look knows, and remembers this look.
  // `now_ns` as MonotonicNanos.
  void Explain(int64_t now_ns, v1::GetStatusResponse& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Name, rank and time of opening.
  using StreamKey = std::pair<std::pair<std::string, uint32_t>, int64_t>;
  struct Waits {
    double seconds = 0;  // for workers
    double objects = 0;  // of these, for bytes of object stores
  };
  struct Look {
    int64_t time_ns = 0;
    double cpu_seconds = 0;
    std::map<StreamKey, Waits> waits;
    v1::ObjectReads objects;
    std::map<std::string, std::map<std::string, double>> stages;  // busy, by pipeline and stage
  };

  static StreamKey KeyOf(const v1::StreamStatus& stream);
  static Look LookAt(int64_t now_ns, const v1::GetStatusResponse& status);
  // The look to compare with; null if there is none.
  const Look* EarlierThan(int64_t now_ns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(Look look) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Why(const Look& before, const Look& now, const v1::StreamStatus& stream,
                  const v1::GetStatusResponse& status) const;
  // How fast an object store, which is waited for, was.
  static std::string Speed(const Look& before, const Look& now);
  // What a wait for these workers, such a share of the time, comes from, and what would help.
  std::string Cause(const Look& before, const Look& now, const std::string& pipeline,
                    const v1::GetStatusResponse& status, double waited) const;

  const int cpus_;
  absl::Mutex mutex_;
  std::deque<Look> looks_ ABSL_GUARDED_BY(mutex_);  // the newest last
};

}  // namespace bulkhead
