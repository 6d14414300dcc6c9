#pragma once

#include <cstdint>
#include <string>

#include "server/supervisor/pool/crew.h"
#include "server/supervisor/pool/pipeline_config.h"
#include "server/supervisor/pool/pool_streams.h"
#include "server/supervisor/verdict/pipeline_verdict.h"

namespace bulkhead {

// The verdict on the memory of a pool's workers: judges them at intervals, and tells the log
// and the trainers when the verdict changes. Lives on the supervisor's thread.
class PoolVerdict {
 public:
  // `replaces`: workers are replaced before they meet their quota, and one to confirm a verdict.
  PoolVerdict(const PipelineConfig& config, const Crew& crew, PoolStreams& streams, bool replaces)
      : config_(config),
        crew_(crew),
        streams_(streams),
        replaces_(replaces),
        probes_(replaces),
        verdict_(config.stage_code, config.quota_bytes) {}

  void Look(int64_t now_ns);
  // A worker has ended. `outgrew`: it was full, and no single sample was to blame.
  void OnGone(const PoolWorker& worker, bool outgrew);

  void AppendStatus(v1::GetStatusResponse& response) const;

 private:
  Finding Judge(const PoolWorker& worker, bool outgrew) const;
  void TellIfChanged();
  // In a pool of one worker no second one would show the same before the first is full.
  void ProbeIfAlone();

  const PipelineConfig& config_;
  const Crew& crew_;
  PoolStreams& streams_;
  const bool replaces_;
  bool probes_;  // still
  PipelineVerdict verdict_;
  v1::Verdict told_;
  int64_t looked_ns_ = 0;
};

}  // namespace bulkhead
