#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/arena/flight_recorder.h"
#include "server/supervisor/leases/stream.h"

namespace bulkhead {

// The streams that one pool serves, in turn. Lives on the supervisor's thread.
class PoolStreams {
 public:
  void Add(std::shared_ptr<Stream> stream) { streams_.push_back(std::move(stream)); }
  // Closes and removes a stream. False if there is none with that id.
  bool Remove(uint64_t stream_id);
  // Null if there is none.
  std::shared_ptr<Stream> Find(uint64_t stream_id) const;
  const std::vector<std::shared_ptr<Stream>>& all() const { return streams_; }
  bool empty() const { return streams_.empty(); }
  // Those that have a client.
  size_t clients() const;

  // Whether a stream has leases to assign; suspects as in LeaseTable.
  bool has_work() const {
    return std::ranges::any_of(streams_, [](const auto& stream) { return stream->work().any; });
  }
  bool has_suspect() const {
    return std::ranges::any_of(streams_, [](const auto& stream) { return stream->work().suspect; });
  }
  // Whether a stream reads its data more than once.
  bool reads_again() const {
    return std::ranges::any_of(
        streams_, [](const auto& stream) { return stream->config().binding.reads_again(); });
  }
  // The next lease, or suspect, for a worker, round-robin over the streams. `most_samples` as in
  // LeaseTable.
  std::optional<internal::v1::Lease> Assign(LeaseTable::WorkerId worker, bool suspect,
                                            uint64_t most_samples = LeaseTable::kWholeLease);

  // `flight` of a worker, without threads at samples outside its leases. Used to show its activity.
  FlightSnapshot WithinLeases(LeaseTable::WorkerId worker, FlightSnapshot flight) const;

  // Sends a worker's line to the log of stream `stream_id`, or of all streams if the pool has no
  // such stream. If it has no stream at all, the line waits for the first.
  void Tell(uint64_t stream_id, const v1::Note& note);
  // A worker's line for the same streams was dropped.
  void CountLeftOut(uint64_t stream_id);
  // Sends the waiting lines to a stream.
  void TellEarly(Stream& stream);
  // Counts an event of a worker in the streams' summaries (StreamNotes).
  void Count(StreamNotes::Event event, const std::string& what) {
    ForClients([&](Stream& stream) { stream.notes().Count(event, what); });
  }
  // Sends all streams the service's own word.
  void Tell(v1::Note::Level level, const std::string& text) {
    ForClients([&](Stream& stream) { stream.notes().Send(level, text); });
  }
  // Sends the lines and summaries that are due.
  void SendNotes();

  // Adds what current and former streams have delivered.
  void AppendTotals(v1::GetStatusResponse& response) const;

 private:
  // Those that have a client: what is for all streams reaches each client once.
  void ForClients(const std::function<void(Stream&)>& visit) const;

  std::vector<std::shared_ptr<Stream>> streams_;
  size_t next_ = 0;             // for round-robin
  v1::GetStatusResponse past_;  // totals of former streams
  // Workers' lines from before there was a stream, for example while they imported modules.
  std::deque<v1::Note> early_;
  uint64_t early_left_out_ = 0;
};

}  // namespace bulkhead
