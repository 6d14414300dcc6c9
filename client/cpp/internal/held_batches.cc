#include "client/cpp/internal/held_batches.h"

namespace bulkhead::client_internal {

void HeldBatches::Arrived(uint64_t sequence, uint64_t bytes) {
  batches_[sequence] = Held{bytes, false};
  bytes_ += bytes;
}

std::optional<uint64_t> HeldBatches::Gone(uint64_t sequence) {
  const auto found = batches_.find(sequence);
  if (found != batches_.end()) found->second.gone = true;
  std::optional<uint64_t> through;
  while (!batches_.empty() && batches_.begin()->second.gone) {
    through = batches_.begin()->first;
    bytes_ -= batches_.begin()->second.bytes;
    batches_.erase(batches_.begin());
  }
  return through;
}

void HeldBatches::GoneAlone(uint64_t sequence) {
  const auto found = batches_.find(sequence);
  if (found == batches_.end()) return;
  bytes_ -= found->second.bytes;
  batches_.erase(found);
}

}  // namespace bulkhead::client_internal
