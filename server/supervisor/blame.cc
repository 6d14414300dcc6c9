#include "server/supervisor/blame.h"

#include <algorithm>

#include "server/supervisor/exit_log.h"

namespace bulkhead {
namespace {

// The thread that the supervisor ended the worker for is still at what it hung at.
bool Hung(const EndFacts& facts, size_t thread) {
  return thread < facts.hung_since_ns.size() && facts.hung_since_ns[thread] != 0 &&
         facts.hung_since_ns[thread] == facts.flight.threads[thread].progress_ns();
}

bool IsByItself(const EndFacts& facts, size_t thread) {
  if (Hung(facts, thread)) return !facts.flight.threads[thread].reads;
  // A crash speaks for itself; a quota that was met does where this sample took much of it.
  return facts.cause == v1::EXIT_CAUSE_CRASHED ||
         (ExitLog::IsLimitEvent(facts.cause) && facts.quota_bytes > 0 &&
          facts.grown_bytes[thread] > facts.quota_bytes / 4);
}

// The lease at which a thread says it is, if the worker holds it.
std::optional<size_t> LeaseOf(const EndFacts& facts, const FlightSnapshot::Thread& thread) {
  for (size_t i = 0; i < facts.held.size(); ++i) {
    const PoolWorker::Held& lease = facts.held[i];
    if (lease.stream_id == thread.stream_id && lease.lease_id == thread.lease_id) return i;
  }
  return std::nullopt;
}

}  // namespace

std::vector<int64_t> HungThreads(const FlightSnapshot& flight, absl::Duration limit,
                                 int64_t now_ns) {
  std::vector<int64_t> since_ns;
  for (const FlightSnapshot::Thread& thread : flight.threads) {
    const int64_t began_ns = thread.progress_ns();
    const bool hangs = thread.lease_id != 0 && thread.turn != FlightTurn::kWaiting &&
                       began_ns < now_ns && absl::Nanoseconds(now_ns - began_ns) > limit;
    since_ns.push_back(hangs ? began_ns : 0);
  }
  return since_ns;
}

std::vector<Suspicion> SuspicionsOf(const EndFacts& facts) {
  const std::vector<FlightSnapshot::Thread>& threads = facts.flight.threads;
  bool any_hung = false;
  for (size_t i = 0; i < threads.size(); ++i) any_hung |= Hung(facts, i);
  std::vector<Suspicion> suspicions;
  for (size_t i = 0; i < threads.size(); ++i) {
    const std::optional<size_t> held = LeaseOf(facts, threads[i]);
    if (!held.has_value()) continue;
    // One thread was refused memory, or some hung: the others did nothing.
    if (facts.flight.refused_thread >= 0 && facts.flight.refused_thread != static_cast<int>(i)) {
      continue;
    }
    if (any_hung && !Hung(facts, i)) continue;
    const Suspicion suspicion{*held, i, IsByItself(facts, i), Hung(facts, i)};
    const auto known = std::find_if(suspicions.begin(), suspicions.end(),
                                    [&](const Suspicion& other) { return other.held == *held; });
    if (known == suspicions.end()) {
      suspicions.push_back(suspicion);
    } else if (suspicion.by_itself && !known->by_itself) {
      *known = suspicion;
    }
  }
  if (!suspicions.empty()) return suspicions;
  for (size_t i = 0; i < facts.held.size() && i < facts.begun; ++i) {
    suspicions.push_back({i, std::nullopt, false, false});
  }
  return suspicions;
}

}  // namespace bulkhead
