#ifndef BULKHEAD_SERVER_SUPERVISOR_REPLACEMENT_GATE_H_
#define BULKHEAD_SERVER_SUPERVISOR_REPLACEMENT_GATE_H_

#include <cstdint>
#include <deque>

namespace bulkhead {

// The memory budget holds one replacement for the whole service: pools pass this gate one at a
// time, those that have waited longest first. Lives on the supervisor's thread.
class ReplacementGate {
 public:
  // True when `who` may go on now; it holds the gate until Leave. Else it stands in line.
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
    return true;
  }
  // `who` is done, or does not want to go on any more.
  void Leave(const void* who) {
    if (inside_ == who) inside_ = nullptr;
    std::erase(line_, who);
  }
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
  std::deque<const void*> line_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_REPLACEMENT_GATE_H_
