#include "server/supervisor/trace/tracer.h"

namespace bulkhead {

void Tracer::Add(TraceSource* source) {
  sources_.insert(source);
  if (number_ != 0) source->BeginTrace();
}

void Tracer::Take(uint64_t number, absl::Duration duration) {
  const bool looks = number_ != 0;  // for an earlier one, whose client is gone
  number_ = number;
  end_ns_ = MonotonicNanos() + absl::ToInt64Nanoseconds(duration);
  for (TraceSource* source : sources_) source->BeginTrace();
  if (!looks) Look();
}

void Tracer::Look() {
  if (log_->IsOn(number_)) {
    if (MonotonicNanos() >= end_ns_) return End();
    for (TraceSource* source : sources_) source->ReadTrace();
  } else if (!log_->on()) {
    return End();
  }  // else the next one has begun, and Take is about to be called
  loop_->After(kInterval, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Look();
  });
}

void Tracer::End() {
  for (TraceSource* source : sources_) source->EndTrace();
  log_->End(number_, MonotonicNanos());
  number_ = 0;
}

}  // namespace bulkhead
