#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// The lines that one stream adds to its trainer's log: output of stages, limited in rate, and
// events of workers and samples, summed to at most one line a minute. Lives on the supervisor's
// thread.
class StreamNotes {
 public:
  static constexpr double kBurst = 100;
  static constexpr double kPerSecond = 20;
  static constexpr int64_t kSummaryNs = int64_t{60} * 1'000'000'000;
  static constexpr absl::Duration kLongWait = absl::Seconds(10);

  using SendFn = std::function<void(const v1::Note&)>;
  explicit StreamNotes(SendFn send) : send_(std::move(send)) {}

  // A stage's line (CheckedNote).
  void Pass(const v1::Note& note, int64_t now_ns);
  // A stage's line was dropped before it got here.
  void CountLeftOut() { limit_.CountRefused(); }

  // The service's own word, at once.
  void Send(v1::Note::Level level, const std::string& text);
  enum Event { kDeath, kReplacement, kSubstitution };  // in the order of a summary
  // Counts an event for the next summary; `what` is human-readable. A summary quotes the last of
  // each kind.
  void Count(Event event, const std::string& what) {
    ++events_[event].count;
    events_[event].last = what;
  }
  // No batch has come for `waited`, and bytes of the next one are read from an object store: a line
  // after kLongWait, and then at most one in kSummaryNs.
  void TellObjects(absl::Duration waited, int64_t now_ns);

  // Sends what is due: the summary, the number of dropped lines. Called every now and then.
  // `at_end`: sends everything.
  void SendDue(int64_t now_ns, bool at_end);

 private:
  struct Events {
    uint64_t count = 0;
    std::string last;
  };

  // Human-readable; empties the counts.
  std::string Summary();

  const SendFn send_;
  RateLimit limit_{kPerSecond, kBurst};
  std::array<Events, kSubstitution + 1> events_;
  int64_t summary_not_before_ns_ = 0;
  int64_t objects_not_before_ns_ = 0;
};

}  // namespace bulkhead
