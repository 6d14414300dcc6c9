#include "server/supervisor/memory/worker_memory.h"

#include <algorithm>

namespace bulkhead {

uint64_t WorkerMemory::Note(const ProcessMemory& memory, uint64_t mapped_bytes,
                            const FlightSnapshot& flight, int64_t now_ns) {
  looked_ns_ = now_ns;
  const uint64_t held =
      memory.private_bytes() + memory.shared_bytes - std::min(memory.shared_bytes, mapped_bytes);
  peak_bytes_ = std::max(peak_bytes_, held);
  // The nearer limit counts: memory held, or private address space.
  uint64_t used = held;
  if (data_limit_bytes_ != 0 && quota_bytes_ != 0) {
    const uint64_t room = data_limit_bytes_ - std::min(data_limit_bytes_, memory.data_bytes);
    used = std::max(used, quota_bytes_ - std::min(room, quota_bytes_));
  }
  const bool noted = growth_.peak_bytes() > 0;
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    AtSample& at = at_sample_[i];
    if (at.began_ns == flight.threads[i].began_ns) continue;
    // Memory that other samples took since the last look is not counted for this one.
    const bool took_turns = flight.samples > growth_.samples() + flight.threads.size();
    at = {flight.threads[i].began_ns, took_turns || !noted ? used : growth_.used_bytes()};
  }
  growth_.Note(flight.samples, used, now_ns);
  return held;
}

uint64_t WorkerMemory::GrownBy(const FlightSnapshot& flight, size_t thread) const {
  const auto tracked =
      static_cast<uint64_t>(std::max<int64_t>(0, flight.threads[thread].grown_bytes));
  uint64_t seen = 0;
  if (thread < at_sample_.size() &&
      at_sample_[thread].began_ns == flight.threads[thread].began_ns) {
    const uint64_t now = growth_.used_bytes();
    seen = now - std::min(now, at_sample_[thread].used_before);
  }
  const bool refused = flight.refused_thread == static_cast<int>(thread);
  return std::max(tracked, seen) + (refused ? flight.refused_bytes : 0);
}

bool WorkerMemory::IsOneSamplesDoing(const FlightSnapshot& flight) const {
  for (size_t i = 0; i < flight.threads.size(); ++i) {
    if (GrownBy(flight, i) > quota_bytes_ / 4) return true;
  }
  return false;
}

}  // namespace bulkhead
