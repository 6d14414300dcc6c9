#include "server/supervisor/worker_usage.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "server/os/process_usage.h"

namespace bulkhead {
namespace {

v1::WorkerState StateOf(WorkerPhase phase, uint32_t leases) {
  switch (phase) {
    case WorkerPhase::kStarting:
    case WorkerPhase::kBinding:
      return v1::WORKER_STATE_STARTING;
    case WorkerPhase::kReady:
      return leases > 0 ? v1::WORKER_STATE_BUSY : v1::WORKER_STATE_READY;
    case WorkerPhase::kStopping:
    case WorkerPhase::kKilled:
    case WorkerPhase::kGone:
      break;
  }
  return v1::WORKER_STATE_STOPPING;
}

}  // namespace

v1::WorkerExit MakeWorkerExit(pid_t pid, const ProcessExit& exit, const std::string& reason,
                              uint64_t peak_memory_bytes) {
  v1::WorkerExit record;
  record.set_pid(pid);
  record.set_outcome(exit.outcome == ProcessExit::Outcome::kSignaled ? "signaled" : "exited");
  record.set_reason(reason);
  record.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  record.mutable_usage()->set_cpu_seconds(exit.cpu_seconds);
  record.mutable_usage()->set_peak_memory_bytes(peak_memory_bytes);
  return record;
}

void FillWorkerProcess(const WorkerProcess& process, uint32_t leases, uint64_t& peak_memory_bytes,
                       v1::WorkerStatus& status) {
  status.set_pid(process.pid());
  status.set_state(StateOf(process.phase(), leases));
  const auto usage = ReadProcessUsage(process.pid());
  if (!usage.ok()) return;  // it ended a moment ago
  peak_memory_bytes = std::max(peak_memory_bytes, usage->memory_bytes);
  status.mutable_usage()->set_memory_bytes(usage->memory_bytes);
  status.mutable_usage()->set_peak_memory_bytes(peak_memory_bytes);
  status.mutable_usage()->set_cpu_seconds(usage->cpu_seconds);
}

}  // namespace bulkhead
