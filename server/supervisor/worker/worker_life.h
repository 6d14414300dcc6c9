#pragma once

#include <optional>

namespace bulkhead {

// The life of one worker process.
//
//   starting ──hello──▶ binding ──bound──▶ ready ──stop──▶ stopping ──┐
//      │                   │                 │                        ├─exited──▶ gone
//      └──────kill─────────┴───────kill──────┴──kill──▶ killed ───────┘
//
// An exit is possible in every state; nothing follows it.
enum class WorkerPhase { kStarting, kBinding, kReady, kStopping, kKilled, kGone };
enum class WorkerEvent { kHello, kBound, kStop, kKill, kExited };

// The phase after `event`; absent if the event is not allowed in `phase`: the worker breaks the
// protocol.
std::optional<WorkerPhase> NextPhase(WorkerPhase phase, WorkerEvent event);

}  // namespace bulkhead
