#include "server/supervisor/leases/stream_meter.h"

#include <algorithm>

#include "server/base/durations/histogram.h"

namespace bulkhead {
namespace {

double Seconds(int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

void StreamMeter::Waits(Waiting waiting, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  const bool changes = since_ns_ == 0 || waiting != waiting_;
  if (since_ns_ != 0) {
    Count(now_ns);
  } else {
    since_ns_ = now_ns;
  }
  waiting_ = waiting;
  if (changes) NoteWaitLocked();
}

void StreamMeter::SetFetching(bool fetching, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  if (fetching == fetching_) return;
  if (since_ns_ != 0) Count(now_ns);
  fetching_ = fetching;
}

void StreamMeter::Count(int64_t now_ns) {
  const int64_t passed_ns = std::max<int64_t>(0, now_ns - since_ns_);
  Sum(waiting_) += passed_ns;
  if (fetching_ && waiting_ == Waiting::kForWorkers) for_objects_ns_ += passed_ns;
  since_ns_ = std::max(since_ns_, now_ns);
}

void StreamMeter::NoteWaitLocked() const {
  if (!trace_.on()) return;
  trace_.Note(waiting_ == Waiting::kForWorkers ? v1::TraceMoment::KIND_CLIENT_WAITS
                                               : v1::TraceMoment::KIND_CLIENT_HAS_ALL);
}

void StreamMeter::CountBatch(const v1::BatchHeader& batch, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  if (trace_.on()) trace_.Note(v1::TraceMoment::KIND_BATCH_HANDED_OUT, batch.sequence());
  ++batches_;
  samples_ += batch.valid_count();
  if (last_batch_ns_ != 0) {
    const int64_t gap_ns = now_ns - last_batch_ns_;
    gaps_ns_ += gap_ns;
    ++gaps_[DurationBucket(gap_ns)];
  }
  last_batch_ns_ = now_ns;
}

double StreamMeter::WaitedForWorkersLocked(int64_t now_ns) const {
  const bool waits = since_ns_ != 0 && waiting_ == Waiting::kForWorkers;
  return Seconds(for_workers_ns_ + (waits ? now_ns - since_ns_ : 0));
}

void StreamMeter::Describe(int64_t now_ns, v1::StreamStatus& status) const {
  absl::MutexLock lock(&mutex_);
  const int64_t open_ns = since_ns_ == 0 ? 0 : now_ns - since_ns_;
  const bool for_workers = waiting_ == Waiting::kForWorkers;
  status.set_waiting_for_workers_seconds(WaitedForWorkersLocked(now_ns));
  status.set_waiting_for_trainer_seconds(Seconds(for_trainer_ns_ + (for_workers ? 0 : open_ns)));
  status.set_waiting_for_objects_seconds(
      Seconds(for_objects_ns_ + (for_workers && fetching_ ? open_ns : 0)));
  status.set_batches_sent(batches_);
  status.set_samples_sent(samples_);
  AddDurations(gaps_, Seconds(gaps_ns_), *status.mutable_batch_gaps());
}

}  // namespace bulkhead
