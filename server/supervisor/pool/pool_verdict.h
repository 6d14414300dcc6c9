#pragma once

#include <cstdint>

#include "server/supervisor/pool/pool_part.h"
#include "server/supervisor/verdict/pipeline_verdict.h"

namespace bulkhead {

// The verdict on the memory of a pool's workers: judges them at intervals, and tells the log
// and the trainers when the verdict changes. Lives on the supervisor's thread.
class PoolVerdict : PoolPart {
 public:
  explicit PoolVerdict(const PoolPart& pool) : PoolPart(pool) {}

  void Look(int64_t now_ns);
  // A worker has ended. `outgrew`: it was full, and no single sample was to blame.
  void OnGone(const PoolWorker& worker, bool outgrew) {
    verdict_.OnGone(worker.id, Judge(worker, outgrew));
    TellIfChanged();
  }

  void AppendStatus(v1::GetStatusResponse& response) const;

 private:
  Finding Judge(const PoolWorker& worker, bool outgrew) const {
    return {worker.curves.Judge(config_.quota_bytes, outgrew),
            worker.memory.growth().SamplesPerSecond(), worker.python_growth};
  }
  void TellIfChanged();
  // In a pool of one worker no second one would show the same before the first is full.
  void ProbeIfAlone();

  // A worker may still be replaced to confirm a verdict.
  bool probes_ = context_.recycle.by_growth;
  PipelineVerdict verdict_{config_.stage_code, config_.quota_bytes};
  v1::Verdict told_;
  int64_t looked_ns_ = 0;
};

}  // namespace bulkhead
