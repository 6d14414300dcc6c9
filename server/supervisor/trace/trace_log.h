#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/v1/trace.pb.h"

namespace bulkhead {

// The events of the trace that is being taken, between those who note them and the call that sends
// them. There is one at a time.
//
//   Begin ─▶ Tell, Add … ─▶ End ─▶ Take, until it says the end ─▶ Drop
//
// Events beyond kMostPending that wait to be taken are dropped and counted. While no trace is
// taken, whoever asks on() first pays for one atomic load. Thread-safe.
class TraceLog {
 public:
  static constexpr size_t kMostPending = size_t{1} << 16;
  // Events of one part: at most 1 MiB or so.
  static constexpr size_t kMostTaken = size_t{1} << 14;

  // Begins a trace of the streams with that name (empty: of all) and returns its number.
  // RESOURCE_EXHAUSTED (TOO_MANY_CALLS) while there is another one.
  absl::StatusOr<uint64_t> Begin(const std::string& stream_name, int64_t now_ns)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Whether the trace with that number goes on.
  bool IsOn(uint64_t number) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return trace_.has_value() && trace_->number == number && trace_->end_ns == 0;
  }
  // Whether it shall have the streams with that name.
  bool Wants(const std::string& stream_name) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return trace_.has_value() &&
           (trace_->stream_name.empty() || trace_->stream_name == stream_name);
  }

  // A stream that the trace shall have; it may be told again.
  void Tell(const v1::TracedStream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // What threads of a worker did, or what happened to it. Spans of other streams are left out, and
  // all of a worker that works for other streams only. `lost`: spans that could not be read in
  // time.
  void Add(const v1::TracedWorker& worker, std::vector<v1::TraceSpan> spans, uint64_t lost = 0)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(v1::TraceMoment moment) ABSL_LOCKS_EXCLUDED(mutex_);

  // No more events.
  void End(uint64_t number, int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next part; absent if there is nothing new. The last one has `end_ns`.
  std::optional<v1::TraceResponse> Take(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody takes parts of that trace any more.
  void Drop(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Trace {
    // Whether the span is of no stream, as waiting is, or of one that was told.
    bool Has(const v1::TraceSpan& span) const {
      return span.stream() == 0 || streams.count(span.stream()) > 0;
    }
    template <typename Event>
    void Append(std::vector<Event>& events, Event event) {
      changed = true;
      if (spans.size() + moments.size() < kMostPending) {
        events.push_back(std::move(event));
      } else {
        next.set_dropped(next.dropped() + 1);
      }
    }

    uint64_t number = 0;
    std::string stream_name;
    std::set<uint64_t> workers;  // told
    std::set<uint64_t> streams;
    v1::TraceResponse next;  // without events
    std::vector<v1::TraceSpan> spans;
    std::vector<v1::TraceMoment> moments;
    int64_t end_ns = 0;   // 0: it goes on
    bool changed = true;  // there is something to take
  };

  mutable absl::Mutex mutex_;
  std::atomic<bool> on_{false};
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Trace> trace_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
