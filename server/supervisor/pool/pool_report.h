#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "server/supervisor/pool/pool_part.h"
#include "server/supervisor/worker/worker_process.h"

namespace bulkhead {

// What a pool's workers are doing and have done, for a status. Lives on the supervisor's thread.
class PoolReport : PoolPart {
 public:
  explicit PoolReport(const PoolPart& pool) : PoolPart(pool) {}

  // A worker was bound. Returns the parts of the sandbox that it reports, each once. Unknown names
  // are dropped: they go into metrics, and user code may have been imported by then.
  const std::vector<v1::SandboxPart>& OnBound(const internal::v1::Bound& bound);
  void OnSamples(uint32_t samples) { samples_ += samples; }
  // A worker ended; `leases_redone` of its leases are done again.
  void OnExit(const PoolWorker& worker, const WorkerEnd& end, const FlightSnapshot& flight,
              uint32_t leases_redone);

  // Adds the workers (without their memory and CPU time), and their sandbox if the response has
  // none. Places that wait for a restart are included only with `starts`.
  void AppendWorkers(bool starts, v1::GetStatusResponse& response) const;
  // Adds what the workers have done.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  v1::WorkerStatus StatusOf(uint32_t slot, uint32_t generation) const;
  void AppendWorker(PoolWorker& worker, v1::GetStatusResponse& response) const;
  void AppendPlaces(v1::GetStatusResponse& response) const;

  std::vector<v1::SandboxPart> sandbox_;  // of the worker bound last
  uint64_t samples_ = 0;
  uint64_t samples_redone_ = 0;
  uint64_t leases_redone_ = 0;
  // Of former workers.
  v1::JpegDecodes past_jpeg_;
  v1::KeptCounts past_kept_;
  std::map<uint32_t, v1::PlaceTotals> past_places_;  // by slot
};

}  // namespace bulkhead
