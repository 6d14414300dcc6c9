#include "client/cpp/internal/batch/held_batches.h"

#include <algorithm>

namespace bulkhead::client_internal {

void HeldBatches::Arrived(uint64_t sequence, uint64_t bytes) {
  batches_.push_back(Held{sequence, bytes, false});
  bytes_ += bytes;
}

std::deque<HeldBatches::Held>::iterator HeldBatches::Find(uint64_t sequence) {
  return std::find_if(batches_.begin(), batches_.end(),
                      [&](const Held& held) { return held.sequence == sequence; });
}

std::optional<uint64_t> HeldBatches::Gone(uint64_t sequence) {
  if (const auto found = Find(sequence); found != batches_.end()) found->gone = true;
  std::optional<uint64_t> through;
  while (!batches_.empty() && batches_.front().gone) {
    through = batches_.front().sequence;
    bytes_ -= batches_.front().bytes;
    batches_.pop_front();
  }
  return through;
}

void HeldBatches::GoneAlone(uint64_t sequence) {
  const auto found = Find(sequence);
  if (found == batches_.end()) return;
  bytes_ -= found->bytes;
  batches_.erase(found);
}

}  // namespace bulkhead::client_internal
