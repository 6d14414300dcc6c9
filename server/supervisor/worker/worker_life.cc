#include "server/supervisor/worker/worker_life.h"

namespace bulkhead {

std::optional<WorkerPhase> NextPhase(WorkerPhase phase, WorkerEvent event) {
  if (phase == WorkerPhase::kGone) return std::nullopt;
  switch (event) {
    case WorkerEvent::kHello:
      if (phase == WorkerPhase::kStarting) return WorkerPhase::kBinding;
      break;
    case WorkerEvent::kBound:
      if (phase == WorkerPhase::kBinding) return WorkerPhase::kReady;
      break;
    case WorkerEvent::kStop:
      return phase == WorkerPhase::kKilled ? WorkerPhase::kKilled : WorkerPhase::kStopping;
    case WorkerEvent::kKill:
      return WorkerPhase::kKilled;
    case WorkerEvent::kExited:
      return WorkerPhase::kGone;
  }
  // Messages of a worker that is being ended are ignored.
  if (phase == WorkerPhase::kStopping || phase == WorkerPhase::kKilled) return phase;
  return std::nullopt;
}

}  // namespace bulkhead
