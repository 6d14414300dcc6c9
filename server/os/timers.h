#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace bulkhead {

// Functions to call later, by CLOCK_MONOTONIC. One thread uses an object.
class Timers {
 public:
  using Id = uint64_t;

  // Calls `callback` from RunDue once `delay` has passed.
  Id After(absl::Duration delay, std::function<void()> callback);
  // Forgets a timer, if it has not run; safe in callbacks.
  void Cancel(Id id);
  // Time until the next one is due: zero if one is, infinite if there is none.
  absl::Duration UntilNext() const;
  // Calls those that are due; true if there were any.
  bool RunDue();

 private:
  std::map<std::pair<int64_t, Id>, std::function<void()>> callbacks_;  // by deadline in ns
  absl::flat_hash_map<Id, int64_t> deadlines_;
  Id next_id_ = 1;
};

}  // namespace bulkhead
