#include "tools/trace/timeline.h"

#include <algorithm>
#include <limits>

namespace bulkhead::tools {

bool Timeline::Take(const v1::TraceResponse& part) {
  begin_ns_ = part.begin_ns();
  if (part.end_ns() != 0) end_ns_ = part.end_ns();
  dropped_ += part.dropped();
  for (const v1::TracedWorker& worker : part.workers()) workers_[worker.id()] = worker;
  for (const v1::TracedStream& stream : part.streams()) streams_[stream.id()] = stream;
  for (const v1::TraceSpan& span : part.spans()) {
    if (is_full()) return false;
    spans_.push_back(span);
  }
  for (const v1::TraceMoment& moment : part.moments()) {
    if (is_full()) return false;
    moments_.push_back(moment);
    if (range_.has_value() && moment.kind() == v1::TraceMoment::KIND_BATCH_RETURNED &&
        range_->Has(moment.batch())) {
      returned_.emplace(moment.stream(), moment.batch());
    }
  }
  const uint64_t wanted = range_.has_value() ? range_->last - range_->first + 1 : 0;
  return wanted == 0 || returned_.size() < wanted * std::max<size_t>(1, streams_.size());
}

void Timeline::Arrange() {
  std::ranges::stable_sort(moments_, {}, &v1::TraceMoment::time_ns);
  // Of a trace that was broken off, all that came.
  if (end_ns_ == 0) {
    end_ns_ = begin_ns_;
    for (const v1::TraceSpan& span : spans_) end_ns_ = std::max<int64_t>(end_ns_, span.end_ns());
    if (!moments_.empty()) end_ns_ = std::max<int64_t>(end_ns_, moments_.back().time_ns());
  }
  ArrangeBatches();
  ArrangeLeases();
  if (range_.has_value()) KeepRange();
}

void Timeline::ArrangeBatches() {
  for (const v1::TraceMoment& moment : moments_) {
    const auto at = [&]() -> TracedBatch& { return batches_[{moment.stream(), moment.batch()}]; };
    switch (moment.kind()) {
      case v1::TraceMoment::KIND_BATCH_BEGUN:
        // Told twice if it began while the trace did.
        if (at().begun_ns == 0) at().begun_ns = moment.time_ns();
        at().begun = moment;
        break;
      case v1::TraceMoment::KIND_BATCH_READY:
        at().ready_ns = moment.time_ns();
        break;
      case v1::TraceMoment::KIND_BATCH_HANDED_OUT:
        at().handed_out_ns = moment.time_ns();
        break;
      case v1::TraceMoment::KIND_BATCH_RETURNED:
        at().returned_ns = moment.time_ns();
        break;
      default:
        break;
    }
  }
}

void Timeline::ArrangeLeases() {
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint64_t> sequences;
  for (const auto& [key, batch] : batches_) {
    if (batch.begun_ns == 0) continue;
    sequences[{key.first, batch.begun.epoch(), batch.begun.first_position()}] = key.second;
  }
  std::map<LeaseKey, size_t> held;  // index in leases_
  for (const v1::TraceMoment& moment : moments_) {
    const auto known = held.find({moment.stream(), moment.lease()});
    switch (moment.kind()) {
      case v1::TraceMoment::KIND_LEASE_GIVEN: {
        if (known != held.end()) break;  // told twice
        TracedLease& lease = leases_.emplace_back();
        lease.given = moment;
        const auto batch =
            sequences.find({moment.stream(), moment.epoch(), moment.first_position()});
        if (batch != sequences.end()) {
          lease.batch = batch->second;
          batch_of_[{moment.stream(), moment.lease()}] = batch->second;
        }
        held[{moment.stream(), moment.lease()}] = leases_.size() - 1;
        break;
      }
      case v1::TraceMoment::KIND_LEASE_DONE:
      case v1::TraceMoment::KIND_LEASE_FAILED:
        if (known == held.end()) break;
        leases_[known->second].end_ns = moment.time_ns();
        leases_[known->second].failed = moment.kind() == v1::TraceMoment::KIND_LEASE_FAILED;
        held.erase(known);
        break;
      case v1::TraceMoment::KIND_WORKER_ENDED:
        for (auto lease = held.begin(); lease != held.end();) {
          TracedLease& lost = leases_[lease->second];
          const bool its = lost.given.worker() == moment.worker();
          if (its) {
            lost.end_ns = moment.time_ns();
            lost.failed = true;
          }
          lease = its ? held.erase(lease) : std::next(lease);
        }
        break;
      default:
        break;
    }
  }
}

std::optional<uint64_t> Timeline::BatchOf(uint64_t stream, uint64_t lease) const {
  const auto found = batch_of_.find({stream, lease});
  if (found == batch_of_.end()) return std::nullopt;
  return found->second;
}

void Timeline::KeepRange() {
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = begin_ns_;
  for (auto batch = batches_.begin(); batch != batches_.end();) {
    if (!range_->Has(batch->first.second)) {
      batch = batches_.erase(batch);
      continue;
    }
    const TracedBatch& kept = batch->second;
    begin_ns = std::min(begin_ns, kept.begun_ns != 0 ? kept.begun_ns : begin_ns_);
    end_ns = std::max(end_ns, kept.returned_ns != 0 ? kept.returned_ns : end_ns_);
    ++batch;
  }
  if (batches_.empty()) begin_ns = begin_ns_;
  const auto elsewhere = [&](std::optional<uint64_t> batch) {
    return !batch.has_value() || !range_->Has(*batch);
  };
  std::erase_if(leases_, [&](const TracedLease& lease) { return elsewhere(lease.batch); });
  std::erase_if(spans_, [&](const v1::TraceSpan& span) {
    if (span.kind() == v1::TraceSpan::KIND_WAIT) {
      return span.end_ns() < begin_ns || span.begin_ns() > end_ns;
    }
    return elsewhere(BatchOf(span.stream(), span.lease()));
  });
  begin_ns_ = begin_ns;
  end_ns_ = end_ns;
}

}  // namespace bulkhead::tools
