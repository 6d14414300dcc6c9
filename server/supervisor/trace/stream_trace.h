#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "server/os/event_loop.h"
#include "server/supervisor/trace/trace_log.h"

namespace bulkhead {

// Notes what happens to one stream in the trace, if there is one that wants it. Thread-safe.
class StreamTrace {
 public:
  StreamTrace() = default;  // of a stream that is never traced
  StreamTrace(std::shared_ptr<TraceLog> log, v1::TracedStream stream)
      : log_(std::move(log)), stream_(std::move(stream)) {}

  // Ask it before a moment is made.
  bool on() const { return log_ != nullptr && log_->on() && log_->Wants(stream_.name()); }
  void Tell() const { log_->Tell(stream_); }
  // Fills in time and stream.
  void Note(v1::TraceMoment moment) const {
    moment.set_time_ns(MonotonicNanos());
    moment.set_stream(stream_.id());
    log_->Add(std::move(moment));
  }
  // What happens to a batch, or to the client.
  void Note(v1::TraceMoment::Kind kind, uint64_t sequence = 0) const {
    v1::TraceMoment moment;
    moment.set_kind(kind);
    moment.set_batch(sequence);
    Note(std::move(moment));
  }

 private:
  std::shared_ptr<TraceLog> log_;
  v1::TracedStream stream_;
};

}  // namespace bulkhead
