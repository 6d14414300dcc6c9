#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include "bulkhead/v1/trace.pb.h"

namespace bulkhead::tools {

// Numbers of batches, as in BatchHeader.sequence.
struct BatchRange {
  uint64_t first = 0;
  uint64_t last = 0;
  bool Has(uint64_t batch) const { return batch >= first && batch <= last; }
};

// A batch's way, as far as the trace saw it; 0: not seen.
struct TracedBatch {
  int64_t begun_ns = 0;
  int64_t ready_ns = 0;
  int64_t handed_out_ns = 0;
  int64_t returned_ns = 0;
  v1::TraceMoment begun;  // its epoch and positions
};

// A lease, from when a worker got it to when the worker reported it or ended.
struct TracedLease {
  v1::TraceMoment given;
  int64_t end_ns = 0;  // 0: not seen
  bool failed = false;
  std::optional<uint64_t> batch;
};

// Puts the parts of a service's trace together. With a range of batches the rest keeps only them,
// and ends when they were returned.
//
//   Take … ─▶ Arrange ─▶ accessors
class Timeline {
 public:
  using BatchKey = std::pair<uint64_t, uint64_t>;  // stream, sequence
  using LeaseKey = std::pair<uint64_t, uint64_t>;  // stream, lease

  Timeline(std::optional<BatchRange> range, size_t most_events)
      : range_(range), most_events_(most_events) {}

  // False: it has all that it wants.
  bool Take(const v1::TraceResponse& part);
  void Arrange();

  int64_t begin_ns() const { return begin_ns_; }
  int64_t end_ns() const { return end_ns_; }
  uint64_t dropped() const { return dropped_; }
  bool is_full() const { return spans_.size() + moments_.size() >= most_events_; }
  const std::map<uint64_t, v1::TracedWorker>& workers() const { return workers_; }
  const std::map<uint64_t, v1::TracedStream>& streams() const { return streams_; }
  const std::vector<v1::TraceSpan>& spans() const { return spans_; }
  const std::vector<v1::TraceMoment>& moments() const { return moments_; }  // by time
  const std::map<BatchKey, TracedBatch>& batches() const { return batches_; }
  // By the time when they were given.
  const std::vector<TracedLease>& leases() const { return leases_; }
  // The batch of a lease, if known.
  std::optional<uint64_t> BatchOf(uint64_t stream, uint64_t lease) const;

 private:
  void ArrangeBatches();
  void ArrangeLeases();
  void KeepRange();

  const std::optional<BatchRange> range_;
  const size_t most_events_;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;
  uint64_t dropped_ = 0;
  std::map<uint64_t, v1::TracedWorker> workers_;
  std::map<uint64_t, v1::TracedStream> streams_;
  std::vector<v1::TraceSpan> spans_;
  std::vector<v1::TraceMoment> moments_;
  std::set<BatchKey> returned_;  // of the range
  std::map<BatchKey, TracedBatch> batches_;
  std::vector<TracedLease> leases_;
  std::map<LeaseKey, uint64_t> batch_of_;
};

// Writes the time line as a file for Perfetto.
void WriteTimeline(const Timeline& timeline, std::ostream& out);

}  // namespace bulkhead::tools
