#ifndef BULKHEAD_SERVER_SUPERVISOR_BLAME_H_
#define BULKHEAD_SERVER_SUPERVISOR_BLAME_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/supervisor/pool_worker.h"

namespace bulkhead {

// Which threads of a worker have been at one thing for longer than `limit`, by number: when each of
// them began with it, 0 for the others. Who waits for the interpreter while another thread has it
// hangs no more than the interpreter does.
std::vector<int64_t> HungThreads(const FlightSnapshot& flight, absl::Duration limit,
                                 int64_t now_ns);

// How a worker ended, as far as that says whose doing it was.
struct EndFacts {
  v1::ExitCause cause = v1::EXIT_CAUSE_UNSPECIFIED;
  const std::deque<PoolWorker::Held>& held;
  const FlightSnapshot& flight;
  uint64_t quota_bytes = 0;
  // By thread: what its sample has added to the worker's memory.
  std::vector<uint64_t> grown_bytes;
  // HungThreads, when the worker was killed; empty: it did not hang.
  std::vector<int64_t> hung_since_ns;
  // Of `held`, from the front: the leases at which threads may be though none says so.
  size_t begun = 0;
};

// A lease that an end counts against.
struct Suspicion {
  size_t held = 0;               // its number in EndFacts::held
  std::optional<size_t> thread;  // the one that speaks for it; absent: none does
  bool by_itself = false;        // its sample brought the end about, as far as can be seen
  bool hung = false;             // by taking no end
};

// The leases that the worker's threads were at, each once. Where it is known which thread ended the
// worker, the others' leases are not among them. A sample whose record is being read is at no fault
// for a hang: its storage is.
std::vector<Suspicion> SuspicionsOf(const EndFacts& facts);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_BLAME_H_
