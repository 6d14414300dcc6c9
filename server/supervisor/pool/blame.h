#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/flight_recorder.h"
#include "server/supervisor/pool/pool_part.h"

namespace bulkhead {

// By thread number: the time since which the thread has worked on one thing, if that is longer than
// `limit`; else 0. A thread that waits for the interpreter's lock does not hang.
std::vector<int64_t> HungThreads(const FlightSnapshot& flight, absl::Duration limit,
                                 int64_t now_ns);

// The facts of a worker's end that show which lease caused it.
struct EndFacts {
  v1::ExitCause cause = v1::EXIT_CAUSE_UNSPECIFIED;
  const std::deque<PoolWorker::Held>& held;
  const FlightSnapshot& flight;
  uint64_t quota_bytes = 0;
  // By thread: the memory that its sample has added.
  std::vector<uint64_t> grown_bytes;
  // HungThreads at the kill; empty: no hang.
  std::vector<int64_t> hung_since_ns;
  // Number of leases at the front of `held` that threads may be at without reporting it.
  size_t begun = 0;
};

// A lease that a death counts against.
struct Suspicion {
  size_t held = 0;               // index in EndFacts::held
  std::optional<size_t> thread;  // the thread that reported it; absent: none
  bool by_itself = false;        // its sample apparently caused the end
  bool hung = false;             // its sample hung
};

// The leases that the worker's threads worked on, each once. If it is known which thread ended the
// worker, only its lease. A sample whose record is being read is not blamed for a hang: its storage
// is.
std::vector<Suspicion> SuspicionsOf(const EndFacts& facts);

// What a death shows.
struct DeathFinding {
  std::string work;  // what the worker was doing, human-readable; empty: nothing
  // It is one of the few deaths that prove that a record is poison, which say nothing of the next
  // worker: it need not wait.
  bool is_proof = false;
};

// Decides which samples cause the deaths of a pool's workers.
//
// A death counts against the leases that the worker's threads worked on. After several deaths, or
// one that its sample caused by itself, a lease is a suspect: it is done alone by a worker whose
// place is reserved for it. A worker may also die of its past, of a leak for example. So only
// deaths of fresh workers that did nothing else convict a lease: they end its stream, or quarantine
// its record.
//
// Lives on the supervisor's thread.
class Blame : PoolPart {
 public:
  // Deaths at one lease that fail its stream: those that made it a suspect, then those of fresh
  // workers. As many deaths in one place of workers without a lease fail the pool, unless another
  // worker is ready.
  static constexpr uint32_t kMaxDeaths = 8;
  // Deaths at one record, of fresh workers that did nothing else, that make it poison.
  static constexpr uint32_t kPoisonDeaths = 3;

  // Different records that are poison in the same stage, which show that they are not to blame:
  // each meets the quota, which is too small for the pipeline, or crashes workers in user code that
  // no sample passes.
  static constexpr size_t kAlikeRecords = 3;

  explicit Blame(const PoolPart& pool) : PoolPart(pool) {}

  // A worker died, or was written off. Ends the streams whose limit of deaths is reached, and sends
  // new quarantine sets to the workers.
  DeathFinding OnDeath(const PoolWorker& worker, const FlightSnapshot& flight, v1::ExitCause cause,
                       const std::string& reason);
  // A worker died without a lease, or could not be started. True if the pool has failed.
  bool OnIdleDeath(const Slot& slot);
  uint32_t idle_deaths() const { return idle_deaths_; }
  // A lease was finished.
  void OnProgress() { idle_deaths_ = 0; }
  // A stream has ended.
  void Forget(uint64_t stream_id) {
    poison_deaths_.erase(stream_id);
    starved_.erase(stream_id);
    crashed_.erase(stream_id);
  }

 private:
  DeathFinding BlameLease(const PoolWorker& worker, const FlightSnapshot& flight,
                          const Suspicion& suspicion, v1::ExitCause cause,
                          const std::string& reason);
  // What to do about a record that ended a worker so; with a leading blank, or empty.
  std::string AdviceFor(const FlightSnapshot::Thread& thread, v1::ExitCause cause,
                        const std::string& reason) const;
  // Records that met the quota in one stage, and the most memory that any of them needed.
  struct Starved {
    std::set<std::string> records;
    uint64_t needed_bytes = 0;
  };

  // The thread's record is poison that meets the quota. Ends the stream, and returns true, if it is
  // the last of kAlikeRecords.
  bool FailIfStarved(Stream& stream, const PoolWorker& worker, const FlightSnapshot& flight,
                     const FlightSnapshot::Thread& thread);
  // The same of a record at which workers crash.
  bool FailIfAllCrash(Stream& stream, const FlightSnapshot::Thread& thread,
                      const std::string& reason);
  void ReportHang(const PoolWorker& worker, Stream& stream, const FlightSnapshot::Thread& thread,
                  const std::string& work) const;
  // Calls Stream::Quarantine, and tells the workers before any gets another lease. False if the
  // record is not new to the set, or the stream has ended.
  bool Quarantine(Stream& stream, const std::string& record, const std::string& reason,
                  uint32_t deaths) const;
  // The error of a stream whose lease ends every worker.
  absl::Status CrashLoop(uint32_t deaths, v1::ExitCause cause, const std::string& reason,
                         const std::string& work) const;

  // Deaths of fresh workers that did nothing else, by stream and record.
  std::map<uint64_t, std::map<std::string, uint32_t>> poison_deaths_;
  std::map<uint64_t, std::map<std::string, Starved>> starved_;  // by stream and stage
  // Records at which workers crashed in user code, by stream and stage.
  std::map<uint64_t, std::map<std::string, std::set<std::string>>> crashed_;
  std::set<std::string> passed_;  // stages that a sample passed in a worker that has died
  uint32_t idle_deaths_ = 0;      // of workers without a lease, since a lease was finished
};

}  // namespace bulkhead
