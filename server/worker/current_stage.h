#pragma once

#include <cstdint>

#include "server/arena/flight_recorder.h"

namespace bulkhead {

class FlightNotes;

// The stage that the calling thread works for; the allocator knows nothing else of its caller.
// Plain data in the initial TLS block: reading it allocates nothing and calls nothing.
struct CurrentStage {
  uint32_t stage = FlightRecorder::kWorkerStage;
  // The decode thread's number and its own counters; null in other threads, which share theirs.
  uint32_t thread = FlightHeader::kNobody;
  FlightCounters* counters = nullptr;
  // The decode thread's notes, and who makes them; null in other threads.
  FlightThread* notes = nullptr;
  const FlightNotes* writer = nullptr;
};

extern thread_local constinit CurrentStage current_stage __attribute__((tls_model("initial-exec")));

}  // namespace bulkhead
