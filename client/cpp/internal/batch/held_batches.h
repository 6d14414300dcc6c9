#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace bulkhead::client_internal {

// The batches of a stream that count against its credits: those that came and were not given back.
// Over gRPC they are given back in the order in which they came, so one that was destroyed still
// counts while an earlier one is held; slots go back each by itself. Not thread-safe.
class HeldBatches {
 public:
  void Arrived(uint64_t sequence, uint64_t bytes);
  // The batch was destroyed: the result, if any, and everything that came before it is to be given
  // back.
  std::optional<uint64_t> Gone(uint64_t sequence);
  // Likewise, where the batch's slot has gone back already.
  void GoneAlone(uint64_t sequence);

  uint64_t count() const { return batches_.size(); }
  uint64_t bytes() const { return bytes_; }
  // Of those that are not destroyed, the first; only while count() is not 0.
  uint64_t oldest() const { return batches_.front().sequence; }

 private:
  struct Held {
    uint64_t sequence = 0;
    uint64_t bytes = 0;
    bool gone = false;
  };

  std::deque<Held>::iterator Find(uint64_t sequence);

  std::deque<Held> batches_;  // as they came; few
  uint64_t bytes_ = 0;
};

}  // namespace bulkhead::client_internal
