#include "server/supervisor/trace/trace_log.h"

#include <algorithm>
#include <utility>

#include "server/base/error.h"

namespace bulkhead {
namespace {

// Moves up to `most` of the first events to the part.
template <typename Event, typename Field>
size_t MoveFirst(std::vector<Event>& from, size_t most, Field* to) {
  const size_t count = std::min(most, from.size());
  for (size_t i = 0; i < count; ++i) *to->Add() = std::move(from[i]);
  from.erase(from.begin(), from.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

}  // namespace

absl::StatusOr<uint64_t> TraceLog::Begin(const std::string& stream_name, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  if (trace_.has_value()) {
    return MakeError(absl::StatusCode::kResourceExhausted, reason::kTooManyCalls,
                     "this service is being traced already; try again when that trace has ended");
  }
  trace_.emplace();
  trace_->number = ++last_number_;
  trace_->stream_name = stream_name;
  trace_->next.set_begin_ns(now_ns);
  on_ = true;
  return trace_->number;
}

void TraceLog::Tell(const v1::TracedStream& stream) {
  absl::MutexLock lock(&mutex_);
  if (!on_ || !trace_->streams.insert(stream.id()).second) return;
  *trace_->next.add_streams() = stream;
  trace_->changed = true;
}

void TraceLog::Add(const v1::TracedWorker& worker, std::vector<v1::TraceSpan> spans,
                   uint64_t lost) {
  absl::MutexLock lock(&mutex_);
  if (!on_) return;
  if (trace_->workers.count(worker.id()) == 0) {
    const auto works = [&](const v1::TraceSpan& span) {
      return span.stream() != 0 && trace_->Has(span);
    };
    if (!trace_->stream_name.empty() && std::ranges::none_of(spans, works)) return;
    trace_->workers.insert(worker.id());
    *trace_->next.add_workers() = worker;
    trace_->changed = true;
  }
  for (v1::TraceSpan& span : spans) {
    if (trace_->Has(span)) trace_->Append(trace_->spans, std::move(span));
  }
  trace_->next.set_dropped(trace_->next.dropped() + lost);
}

void TraceLog::Add(v1::TraceMoment moment) {
  absl::MutexLock lock(&mutex_);
  if (!on_) return;
  const bool elsewhere = !trace_->stream_name.empty() && moment.stream() == 0 &&
                         trace_->workers.count(moment.worker()) == 0;
  if (!elsewhere) trace_->Append(trace_->moments, std::move(moment));
}

void TraceLog::End(uint64_t number, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  if (!on_ || trace_->number != number) return;
  on_ = false;
  trace_->end_ns = now_ns;
  trace_->changed = true;
}

std::optional<v1::TraceResponse> TraceLog::Take(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  if (!trace_.has_value() || trace_->number != number || !trace_->changed) return std::nullopt;
  v1::TraceResponse part = std::exchange(trace_->next, {});
  trace_->next.set_begin_ns(part.begin_ns());
  const size_t spans = MoveFirst(trace_->spans, kMostTaken, part.mutable_spans());
  MoveFirst(trace_->moments, kMostTaken - spans, part.mutable_moments());
  trace_->changed = !trace_->spans.empty() || !trace_->moments.empty();
  if (!trace_->changed) part.set_end_ns(trace_->end_ns);
  return part;
}

void TraceLog::Drop(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  if (!trace_.has_value() || trace_->number != number) return;
  on_ = false;
  trace_.reset();
}

}  // namespace bulkhead
