#include "server/supervisor/pool/pool_streams.h"

#include <algorithm>

namespace bulkhead {
namespace {

constexpr size_t kMostEarlyNotes = 50;

}  // namespace

void PoolStreams::Tell(uint64_t stream_id, const v1::Note& note) {
  const int64_t now_ns = MonotonicNanos();
  const std::shared_ptr<Stream> one = Find(stream_id);
  if (one != nullptr) {
    one->notes().Pass(note, now_ns);
  } else if (streams_.empty()) {
    if (early_.size() == kMostEarlyNotes) return CountLeftOut(stream_id);
    early_.push_back(note);
  } else {
    ForClients([&](Stream& stream) { stream.notes().Pass(note, now_ns); });
  }
}

void PoolStreams::CountLeftOut(uint64_t stream_id) {
  if (const std::shared_ptr<Stream> one = Find(stream_id); one != nullptr) {
    return one->notes().CountLeftOut();
  }
  if (streams_.empty()) ++early_left_out_;
  ForClients([](Stream& stream) { stream.notes().CountLeftOut(); });
}

void PoolStreams::TellEarly(Stream& stream) {
  for (const v1::Note& note : early_) stream.notes().Pass(note, MonotonicNanos());
  for (; early_left_out_ > 0; --early_left_out_) stream.notes().CountLeftOut();
  early_.clear();
}

void PoolStreams::SendNotes() {
  for (const auto& stream : streams_) {
    stream->notes().SendDue(MonotonicNanos(), /*at_end=*/false);
  }
}

bool PoolStreams::Remove(uint64_t stream_id) {
  const auto found =
      std::ranges::find_if(streams_, [&](const auto& stream) { return stream->id() == stream_id; });
  if (found == streams_.end()) return false;
  (*found)->Close();
  (*found)->AppendTotals(past_);
  streams_.erase(found);
  return true;
}

std::shared_ptr<Stream> PoolStreams::Find(uint64_t stream_id) const {
  for (const auto& stream : streams_) {
    if (stream->id() == stream_id) return stream;
  }
  return nullptr;
}

void PoolStreams::ForClients(const std::function<void(Stream&)>& visit) const {
  for (const auto& stream : streams_) {
    if (!stream->config().for_others) visit(*stream);
  }
}

size_t PoolStreams::clients() const {
  size_t count = 0;
  ForClients([&](Stream&) { ++count; });
  return count;
}

std::optional<internal::v1::Lease> PoolStreams::Assign(LeaseTable::WorkerId worker, bool suspect,
                                                       uint64_t most_samples) {
  for (size_t tried = 0; tried < streams_.size(); ++tried) {
    Stream& stream = *streams_[next_++ % streams_.size()];
    auto lease = stream.Assign(worker, suspect, most_samples);
    if (lease.has_value()) return lease;
  }
  return std::nullopt;
}

FlightSnapshot PoolStreams::WithinLeases(LeaseTable::WorkerId worker, FlightSnapshot flight) const {
  for (FlightSnapshot::Thread& thread : flight.threads) {
    const auto stream = Find(thread.stream_id);
    if (stream == nullptr ||
        !stream->CanBeAt(thread.lease_id, worker, thread.epoch, thread.position)) {
      thread.lease_id = 0;
    }
  }
  return flight;
}

void PoolStreams::AppendTotals(v1::GetStatusResponse& response) const {
  response.set_samples_substituted(response.samples_substituted() + past_.samples_substituted());
  response.set_samples_delivered(response.samples_delivered() + past_.samples_delivered());
  for (const auto& stream : streams_) stream->AppendTotals(response);
}

}  // namespace bulkhead
