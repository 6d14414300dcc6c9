#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

namespace bulkhead {

// The memory budget has room for one extra worker in the whole service: a successor beside the
// worker that it replaces, or an index worker without a quota of its own. Each such worker passes
// this gate, one at a time and in order of arrival. The gate is free again when that worker is
// reaped. Lives on the supervisor's thread.
class ReplacementGate {
 public:
  // True if `who` now holds the gate, until Leave or PassTo. Else it waits in line.
  bool TryEnter(const void* who) {
    const bool is_next = line_.empty() || line_.front() == who;
    if (inside_ != nullptr || !is_next) {
      if (std::ranges::find(line_, who) == line_.end()) line_.push_back(who);
      return false;
    }
    std::erase(line_, who);
    inside_ = who;
    stuck_ = false;
    return true;
  }
  // If `who` holds the gate, `next` does from now on.
  void PassTo(const void* next, const void* who) {
    if (inside_ == who) inside_ = next;
  }
  // `who` was killed but does not exit, so it is unknown when the gate will be free.
  void NoteStuck(const void* who) {
    if (inside_ == who) stuck_ = true;
  }
  bool stuck() const { return inside_ != nullptr && stuck_; }
  // `who` is done, or no longer wants the gate.
  void Leave(const void* who) {
    if (inside_ == who) inside_ = nullptr;
    std::erase(line_, who);
  }
  bool holds(const void* who) const { return inside_ == who; }
  // Number of waiting workers.
  size_t waiting() const { return line_.size(); }

 private:
  const void* inside_ = nullptr;
  bool stuck_ = false;  // whatever holds the gate
  std::deque<const void*> line_;
};

}  // namespace bulkhead
