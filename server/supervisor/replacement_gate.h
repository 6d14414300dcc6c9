#ifndef BULKHEAD_SERVER_SUPERVISOR_REPLACEMENT_GATE_H_
#define BULKHEAD_SERVER_SUPERVISOR_REPLACEMENT_GATE_H_

#include <cstdint>
#include <deque>

namespace bulkhead {

// The memory budget holds one worker more for the whole service: a successor beside the worker that
// it replaces, or an index worker for which the budget has no quota of its own. Whoever starts one
// passes this gate, one at a time, those that have waited longest first. The gate is free again
// when that worker was reaped. Lives on the supervisor's thread.
class ReplacementGate {
 public:
  // True when `who` may go on now; it holds the gate until Leave or PassTo. Else it stands in line.
  bool TryEnter(const void* who) {
    if (inside_ != nullptr) {
      StandInLine(who);
      return false;
    }
    if (!line_.empty() && line_.front() != who) {
      StandInLine(who);
      return false;
    }
    if (!line_.empty()) line_.pop_front();
    inside_ = who;
    stuck_ = false;
    return true;
  }
  // From now on `next` holds the gate instead of `who`, if that does.
  void PassTo(const void* next, const void* who) {
    if (inside_ == who) inside_ = next;
  }
  // `who` was killed and does not end: nobody knows when the gate is free again.
  void NoteStuck(const void* who) {
    if (inside_ == who) stuck_ = true;
  }
  bool stuck() const { return inside_ != nullptr && stuck_; }
  // `who` is done, or does not want to go on any more.
  void Leave(const void* who) {
    if (inside_ == who) inside_ = nullptr;
    std::erase(line_, who);
  }
  bool holds(const void* who) const { return inside_ == who; }
  // How many wait.
  size_t waiting() const { return line_.size(); }

 private:
  void StandInLine(const void* who) {
    for (const void* other : line_) {
      if (other == who) return;
    }
    line_.push_back(who);
  }

  const void* inside_ = nullptr;
  bool stuck_ = false;  // whoever is inside
  std::deque<const void*> line_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_REPLACEMENT_GATE_H_
