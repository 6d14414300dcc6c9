#include "tools/common/service_probe.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "tools/common/clock.h"
#include "tools/common/status_message.h"

namespace bulkhead::tools {
namespace {

constexpr absl::Duration kServiceProbeDeadline = absl::Seconds(5);
constexpr absl::Duration kInterval = absl::Seconds(1);

void Raise(uint64_t& kept, uint64_t seen) { kept = std::max(kept, seen); }

}  // namespace

void CountStatus(const v1::GetStatusResponse& status, const std::string& stream,
                 std::string& pipeline, ServiceUse& use) {
  const bool was_known = !pipeline.empty();
  for (const v1::StreamStatus& other : status.streams()) {
    if (other.name() != stream) continue;
    pipeline = other.pipeline();
    Raise(use.arena_bytes, other.arena().bytes());
  }
  if (!was_known && !pipeline.empty()) {
    // What was counted so far may have been others'.
    use.workers_memory_bytes = use.worker_memory_bytes = 0;
  }
  uint64_t peaks = 0;
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (worker.role() != "pipeline") continue;
    if (!pipeline.empty() && worker.pipeline() != pipeline) continue;
    peaks += worker.usage().peak_memory_bytes();
    Raise(use.worker_memory_bytes, worker.usage().peak_memory_bytes());
  }
  Raise(use.workers_memory_bytes, peaks);
  Raise(use.supervisor_memory_bytes, status.supervisor().peak_memory_bytes());
  Raise(use.supervisor_memory_bytes, status.supervisor().memory_bytes());
  Raise(use.leases_redone, status.leases_redone());
  use.cpu_seconds = std::max(use.cpu_seconds, status.cpu_seconds());
}

ServiceProbe::ServiceProbe(std::string target, std::string stream, double cpu_before, bool may_ask)
    : target_(std::move(target)),
      stream_(std::move(stream)),
      cpu_before_(cpu_before),
      may_ask_(may_ask) {}

void ServiceProbe::Poll() {
  last_ = SteadyNow();
  if (!may_ask_) return;
  absl::StatusOr<v1::GetStatusResponse> status = GetStatusMessage(target_, kServiceProbeDeadline);
  if (!status.ok()) return;
  status->set_cpu_seconds(status->cpu_seconds() - cpu_before_);
  CountStatus(*status, stream_, pipeline_, use_);
}

void ServiceProbe::PollWhenDue() {
  if (SteadyNow() - last_ >= kInterval) Poll();
}

}  // namespace bulkhead::tools
