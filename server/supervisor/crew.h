#ifndef BULKHEAD_SERVER_SUPERVISOR_CREW_H_
#define BULKHEAD_SERVER_SUPERVISOR_CREW_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/os/event_loop.h"
#include "server/supervisor/pool_worker.h"

namespace bulkhead {

// A place for a worker; the process in it changes. While a worker is replaced as planned, another
// one belongs to the place: first a successor that warms up, then the predecessor that finishes.
struct Slot {
  uint32_t index = 0;
  uint32_t generation = 0;
  std::unique_ptr<PoolWorker> worker;  // null while its restart waits
  std::unique_ptr<PoolWorker> successor;
  std::unique_ptr<PoolWorker> predecessor;
  EventLoop::TimerId restart_timer = 0;
  uint32_t deaths = 0;         // in this place, since a lease was finished in it
  uint32_t failed_starts = 0;  // in a row, after which no worker was ready
  std::string last_end;        // of a worker, or of the attempt to start one; for people
  bool asked = false;          // by hand, for a replacement
  std::string slow;            // the stage that has become slow, for people
  double grew_by = 0;          // bytes a sample, the worker before the one that is started next
  // After a replacement that came to nothing.
  uint32_t failed_replacements = 0;
  int64_t no_replacement_before_ns = 0;

  // Workers that are started here become ready, as far as is known.
  bool Starts() const { return failed_starts == 0 || (worker != nullptr && worker->bound); }
  bool is_replaced() const { return successor != nullptr || predecessor != nullptr; }
  // Puts a worker into the place; what was said of the one before is forgotten.
  void Install(std::unique_ptr<PoolWorker> next) {
    worker = std::move(next);
    asked = false;
    slow.clear();
  }
};

// The worker processes of one pool: where each of them stands. Lives on the supervisor's thread.
class Crew {
 public:
  // kLost: it was killed and does not end, and its place was given to another.
  enum class Standing { kInPlace, kSuccessor, kPredecessor, kLost };

  void Resize(uint32_t slots);
  const std::vector<std::unique_ptr<Slot>>& slots() const { return slots_; }
  Slot& SlotOf(const PoolWorker& worker) const { return *slots_[worker.slot]; }
  Standing StandingOf(const PoolWorker& worker) const;
  // Every worker that lives: those in places first.
  void ForEach(const std::function<void(PoolWorker&)>& visit) const;
  // Those that are in no place.
  void ForEachBeside(const std::function<void(PoolWorker&)>& visit) const;
  // To every worker that is bound.
  void Send(const internal::v1::ToWorker& message) const;

  bool AnyReady() const;
  bool AnyInPlace() const;
  bool AnyLost() const { return !lost_.empty(); }

  void Lose(std::unique_ptr<PoolWorker> worker) { lost_.push_back(std::move(worker)); }
  // The owner of a worker, wherever it stands, emptied.
  std::unique_ptr<PoolWorker> TakeOut(PoolWorker& worker);

 private:
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<PoolWorker>> lost_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_CREW_H_
