#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// What one worker shows.
struct Finding {
  v1::Verdict memory;  // as WorkerCurves::Judge says
  double samples_per_second = 0;
  // How the memory of its Python grows; absent: not known.
  std::optional<internal::v1::PythonGrowth> python = {};
  bool gone = false;  // the worker has ended
};

// Makes one verdict of what the workers of a pipeline show, those that ended included. A leak that
// two workers show is confirmed. Pure; used by one thread.
class PipelineVerdict {
 public:
  // `code`: by stage, the user's function or library in it. `quota_bytes`: of each worker; 0: none.
  PipelineVerdict(std::map<std::string, std::string> code, uint64_t quota_bytes)
      : code_(std::move(code)), quota_bytes_(quota_bytes) {}

  // What a living worker shows by now.
  void Note(uint64_t worker, Finding finding) { living_[worker] = std::move(finding); }
  // A worker has ended. It is remembered if it showed a leak.
  void OnGone(uint64_t worker, Finding last);

  // Without the pipeline's name.
  v1::Verdict Now() const;

 private:
  // Workers that ended and are remembered.
  static constexpr size_t kMaxGone = 8;

  std::vector<const Finding*> All() const;
  // Workers that show the same kind of growth in the same stage.
  size_t Witnesses(const Finding& finding) const;
  // That a living worker holds at most.
  uint64_t FullestBytes() const;

  const std::map<std::string, std::string> code_;
  const uint64_t quota_bytes_;
  std::map<uint64_t, Finding> living_;
  std::deque<Finding> gone_;  // the newest first
};

}  // namespace bulkhead
