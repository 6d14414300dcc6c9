#ifndef BULKHEAD_SERVER_SUPERVISOR_BLAME_H_
#define BULKHEAD_SERVER_SUPERVISOR_BLAME_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/supervisor/crew.h"
#include "server/supervisor/pipeline_config.h"
#include "server/supervisor/pool_streams.h"

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

// Whose doing the deaths of a pool's workers are. A death counts against the leases that the
// worker's threads were at. A lease that was present at several, or whose sample brought the worker
// down by itself, is a suspect: it is done alone by a worker that is set apart for it. A worker may
// have been brought to its end by what it did before, by a leak, say; so what convicts a lease, and
// ends its stream and no other, or puts its record into quarantine, are the deaths of fresh workers
// that did nothing else. Lives on the supervisor's thread.
class Blame {
 public:
  // Deaths at one lease, after which its stream fails: those that made it a suspect, and then those
  // of fresh workers. As many in one place, of workers that had no lease, fail the pool while no
  // other worker is ready.
  static constexpr uint32_t kMaxDeaths = 8;
  // Deaths of fresh workers that did nothing else, at one record, after which it is poison.
  static constexpr uint32_t kPoisonDeaths = 3;

  // `hang`: PoolTimeouts::hang.
  Blame(const PipelineConfig& config, absl::Duration hang, const Crew& crew,
        const PoolStreams& streams)
      : config_(config), hang_(hang), crew_(crew), streams_(streams) {}

  // A worker died, or was given up. Ends the streams for which that was one death too many, and
  // tells the workers what is in quarantine by now. Returns what the worker was at, for people;
  // empty: nothing.
  std::string OnDeath(const PoolWorker& worker, const FlightSnapshot& flight, v1::ExitCause cause,
                      const std::string& reason);
  // A worker died without a lease, or could not be started. True when nobody is left to work.
  bool OnIdleDeath(const Slot& slot);
  uint32_t idle_deaths() const { return idle_deaths_; }
  // A lease was finished.
  void OnProgress() { idle_deaths_ = 0; }

 private:
  // Returns what the worker was at, for people.
  std::string BlameLease(const PoolWorker& worker, const FlightSnapshot& flight,
                         const Suspicion& suspicion, v1::ExitCause cause,
                         const std::string& reason);
  void ReportHang(const PoolWorker& worker, Stream& stream, const FlightSnapshot::Thread& thread,
                  const std::string& work) const;
  // As Stream::Quarantine: tells the workers before any of them gets another lease.
  void Quarantine(Stream& stream, const std::string& record, const std::string& reason,
                  uint32_t deaths) const;
  // The error of a stream whose lease ends worker after worker.
  absl::Status CrashLoop(uint32_t deaths, v1::ExitCause cause, const std::string& reason,
                         const std::string& work) const;

  const PipelineConfig& config_;
  const absl::Duration hang_;
  const Crew& crew_;
  const PoolStreams& streams_;
  // Deaths of fresh workers that did nothing else, by stream and record.
  std::map<std::pair<uint64_t, std::string>, uint32_t> poison_deaths_;
  uint32_t idle_deaths_ = 0;  // of workers without a lease, since a lease was finished
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_BLAME_H_
