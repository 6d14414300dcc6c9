#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/os/event_loop.h"
#include "server/supervisor/pool/pool_worker.h"

namespace bulkhead {

// A place for a worker; its process changes. During a planned replacement a second worker belongs
// to the place: first a successor that warms up, then a predecessor that finishes.
struct Slot {
  uint32_t index = 0;
  uint32_t generation = 0;
  std::unique_ptr<PoolWorker> worker;  // null while a restart is due
  std::unique_ptr<PoolWorker> successor;
  std::unique_ptr<PoolWorker> predecessor;
  EventLoop::TimerId restart_timer = 0;
  uint32_t deaths = 0;         // in this place, since a worker last finished or proved something
  uint32_t failed_starts = 0;  // consecutive, without a ready worker between
  std::string last_end;        // of a worker, or of an attempt to start one; human-readable
  bool asked = false;          // a replacement was requested by hand
  bool probed = false;         // a replacement shall confirm a verdict
  bool is_due = false;         // grows, and another worker of the pool is being replaced
  std::string slow;            // the stage that has become slow, human-readable
  double grew_by = 0;          // bytes per sample, of the previous worker
  // After a failed replacement.
  uint32_t failed_replacements = 0;
  int64_t no_replacement_before_ns = 0;
  // Successors of this worker that were not needed in the end, and when the next one may start.
  uint32_t unneeded_successors = 0;
  int64_t no_standby_before_ns = 0;
  bool leaves = false;  // its worker gets no more leases, and the place goes when it has ended

  // Whether workers started here become ready, as far as known.
  bool Starts() const { return failed_starts == 0 || (worker != nullptr && worker->bound); }
  bool is_replaced() const { return successor != nullptr || predecessor != nullptr; }
  // Puts a worker into the place and forgets what was noted of the previous one.
  void Install(std::unique_ptr<PoolWorker> next) {
    worker = std::move(next);
    asked = probed = is_due = false;
    slow.clear();
    unneeded_successors = 0;
    no_standby_before_ns = 0;
  }
};

// The worker processes of one pool, by their role. Lives on the supervisor's thread.
class Crew {
 public:
  // kLost: killed, but not exited; another worker has its place.
  enum class Standing { kInPlace, kSuccessor, kPredecessor, kLost };

  // All of them stay.
  void Resize(uint32_t slots);
  // A place that stays.
  Slot& AddPlace();
  // The number of places that stay.
  uint32_t staying() const {
    return static_cast<uint32_t>(std::ranges::count(slots_, false, &Slot::leaves));
  }
  // Removes the places that leave and have nobody, from the last one on: the others keep their
  // numbers.
  void RemoveEmptyPlaces() {
    while (!slots_.empty() && slots_.back()->leaves && IsEmpty(*slots_.back())) slots_.pop_back();
  }
  const std::vector<std::unique_ptr<Slot>>& slots() const { return slots_; }
  Slot& SlotOf(const PoolWorker& worker) const { return *slots_[worker.slot]; }
  Standing StandingOf(const PoolWorker& worker) const;
  // "worker 1", or what another process is to the worker in that place.
  std::string NameOf(const PoolWorker& worker) const;
  // Every living worker, those in places first.
  void ForEach(const std::function<void(PoolWorker&)>& visit) const;
  // Those not in a place.
  void ForEachBeside(const std::function<void(PoolWorker&)>& visit) const;
  // To every worker that is bound.
  void Send(const internal::v1::ToWorker& message) const;

  bool AnyReady() const {
    return std::ranges::any_of(slots_, [](const auto& slot) {
      return slot->worker != nullptr && slot->worker->is_ready();
    });
  }
  bool AnyInPlace() const {
    return std::ranges::any_of(slots_, [](const auto& slot) { return slot->worker != nullptr; });
  }
  bool AnyLost() const { return !lost_.empty(); }

  void Lose(std::unique_ptr<PoolWorker> worker) { lost_.push_back(std::move(worker)); }
  // Takes a worker out of its role and returns it.
  std::unique_ptr<PoolWorker> TakeOut(PoolWorker& worker);

 private:
  // Whether no worker belongs to it.
  bool IsEmpty(const Slot& slot) const {
    const auto is_its = [&](const auto& worker) { return worker->slot == slot.index; };
    return slot.worker == nullptr && !slot.is_replaced() && std::ranges::none_of(lost_, is_its);
  }

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<PoolWorker>> lost_;
};

}  // namespace bulkhead
