#ifndef BULKHEAD_SERVER_SUPERVISOR_POOL_STREAMS_H_
#define BULKHEAD_SERVER_SUPERVISOR_POOL_STREAMS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/arena/flight_recorder.h"
#include "server/supervisor/stream.h"

namespace bulkhead {

// The streams that one pool serves, in turn. Lives on the supervisor's thread.
class PoolStreams {
 public:
  void Add(std::shared_ptr<Stream> stream) { streams_.push_back(std::move(stream)); }
  // Closes and forgets a stream. False when there is none of that id.
  bool Remove(uint64_t stream_id);
  // Null when there is none.
  std::shared_ptr<Stream> Find(uint64_t stream_id) const;
  const std::vector<std::shared_ptr<Stream>>& all() const { return streams_; }
  bool empty() const { return streams_.empty(); }

  // Some stream has leases to be given out; suspects as in LeaseTable.
  bool has_work() const;
  bool has_suspect() const;
  // Some stream reads its data more than once.
  bool reads_again() const;
  // The next lease, or suspect, for a worker, round-robin over the streams.
  std::optional<internal::v1::Lease> Assign(LeaseTable::WorkerId worker, bool suspect);

  // `flight` of a worker, without threads at samples of which it holds no lease: what is told of
  // its activity.
  FlightSnapshot WithinLeases(LeaseTable::WorkerId worker, FlightSnapshot flight) const;

  // Adds what they and those before them were given.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  std::vector<std::shared_ptr<Stream>> streams_;
  size_t next_ = 0;             // round robin
  v1::GetStatusResponse past_;  // totals of streams that are gone
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_POOL_STREAMS_H_
